"""What a shell command line is made of, once it has been read."""

from __future__ import annotations

from msgspec import Struct, field

# Characters that mean something only where they are not quoted; quoted ones stay what they are.
STAR, QUESTION, BRACKET = "\ue001", "\ue002", "\ue003"
OPEN, COMMA, CLOSE = "\ue004", "\ue005", "\ue006"
TILDE = "\ue007"
MARKS = {"*": STAR, "?": QUESTION, "[": BRACKET, "{": OPEN, ",": COMMA, "}": CLOSE}
MOST_WORDS = 2000
"""Commands and words that are followed: more would hold up everybody else."""


class UnreadableCommand(Exception):
    """Not a command line that this reader understands."""


class LiteralText(Struct, frozen=True):
    text: str


class Var(Struct, frozen=True):
    """`$name`; `rest` is what stands behind the name in `${…}`."""

    name: str
    quoted: bool
    rest: Word = ()


class Substitution(Struct, frozen=True):
    """A command whose output, or whose end as a file, becomes part of a word."""

    script: tuple[ShellNode, ...]
    quoted: bool
    as_file: bool = False


WordPart = LiteralText | Var | Substitution
Word = tuple[WordPart, ...]


class Redirect(Struct):
    op: str
    target: Word
    body: Word | None = None


class SimpleCommand(Struct):
    assigns: list[tuple[str, Word]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


class Pipeline(Struct):
    nodes: list[ShellNode]


class ConditionalCommand(Struct):
    """Behind `&&` or `||`: runs only if what stands before it went so."""

    node: ShellNode


class CompoundCommand(Struct):
    """A body with its own redirections; a `loop` may run it again, with the values of `names`."""

    bodies: list[tuple[ShellNode, ...]]
    redirects: list[Redirect] = field(default_factory=list)
    subshell: bool = False
    background: bool = False
    loop: bool = False
    certain: bool = True
    name: str = ""
    values: list[Word] | None = None


class ShellFunction(Struct):
    name: str
    body: ShellNode


ShellNode = SimpleCommand | Pipeline | ConditionalCommand | CompoundCommand | ShellFunction


def children(node: ShellNode) -> list[ShellNode]:
    """What runs as part of this; a function does not until it is called."""
    match node:
        case Pipeline(nodes=nodes):
            return nodes
        case ConditionalCommand(node=inner):
            return [inner]
        case CompoundCommand(bodies=bodies):
            return [inner for body in bodies for inner in body]
    return []


def plain(word: Word) -> str:
    """A word without anything to expand, else nothing."""
    text = "".join(part.text for part in word if isinstance(part, LiteralText))
    return text if all(isinstance(part, LiteralText) for part in word) else ""
