"""What a shell command line is made of, once it has been read."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

# Characters that mean something only where they are not quoted; quoted ones stay what they are.
STAR, QUESTION, BRACKET = "\ue001", "\ue002", "\ue003"
OPEN, COMMA, CLOSE = "\ue004", "\ue005", "\ue006"
TILDE = "\ue007"
MARKS = {"*": STAR, "?": QUESTION, "[": BRACKET, "{": OPEN, ",": COMMA, "}": CLOSE}
MOST_WORDS = 2000
"""Commands and words that are followed: more would hold up everybody else."""


class Unreadable(Exception):
    """Not a command line that this reader understands."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Var:
    """`$name`; `rest` is what stands behind the name in `${…}`."""

    name: str
    quoted: bool
    rest: Word = ()


@dataclass(frozen=True, slots=True)
class Sub:
    """A command whose output, or whose end as a file, becomes part of a word."""

    script: tuple[Node, ...]
    quoted: bool
    as_file: bool = False


Part = Text | Var | Sub
Word = tuple[Part, ...]


@dataclass(slots=True)
class Redirect:
    op: str
    target: Word
    body: Word | None = None


@dataclass(slots=True)
class Simple:
    assigns: list[tuple[str, Word]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Pipeline:
    nodes: list[Node]


@dataclass(slots=True)
class Chained:
    """Behind `&&` or `||`: runs only if what stands before it went so."""

    node: Node


@dataclass(slots=True)
class Background:
    node: Node


@dataclass(slots=True)
class Group:
    """A body with its own redirections; a `loop` may run it again, with the values of `names`."""

    bodies: list[tuple[Node, ...]]
    redirects: list[Redirect] = field(default_factory=list)
    subshell: bool = False
    loop: bool = False
    certain: bool = True
    name: str = ""
    values: list[Word] | None = None


@dataclass(slots=True)
class Function:
    name: str
    body: Node


Node = Simple | Pipeline | Chained | Background | Group | Function


def plain(word: Word) -> str:
    """A word without anything to expand, else nothing."""
    text = "".join(part.text for part in word if isinstance(part, Text))
    return text if all(isinstance(part, Text) for part in word) else ""


def joined(parts: list[Part]) -> Word:
    """Neighbouring texts as one."""
    found: list[Part] = []
    for texts, group in groupby(parts, lambda part: isinstance(part, Text)):
        if texts:
            found.append(Text("".join(part.text for part in group if isinstance(part, Text))))
        else:
            found += group
    return tuple(found)
