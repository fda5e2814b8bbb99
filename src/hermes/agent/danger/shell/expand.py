"""What a word becomes before it is run, as far as that can be known without running anything.

A part that cannot be known is marked `UNKNOWN`; a variable that may hold several things yields all of them,
so a judge sees the worst."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from math import prod

from msgspec import Struct, field

from hermes.agent.danger.shell import syntax

UNKNOWN = "\ue000"
_BACK = str.maketrans({syntax.OPEN: "{", syntax.COMMA: ",", syntax.CLOSE: "}"})
_PLAIN = str.maketrans(
    {
        syntax.STAR: "*",
        syntax.QUESTION: "?",
        syntax.BRACKET: "[",
        syntax.OPEN: "{",
        syntax.COMMA: ",",
        syntax.CLOSE: "}",
        syntax.TILDE: "~",
    }
)
_BRACE = re.compile(f"{syntax.OPEN}([^{syntax.OPEN}{syntax.CLOSE}]*){syntax.CLOSE}")
_RANGE = re.compile(r"(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])")
_TILDE = re.compile(f"(?:(?<![^=:])){syntax.TILDE}([^/:]*)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SLICE = re.compile(r":[ ]?(-?\d{1,6})?(?::[ ]?(-?\d{1,6}))?")
_STRIP = re.compile(r"(%%?|##?)([^*?\[\]\\'\"\ue000$]*)", re.DOTALL)
_REPLACE = re.compile(r"(//?)([\w.-]+)/([\w./-]*)")
_SAYS = frozenset("QAaKkUuL")
"""Changes that only show a value; `E` and `P` read it anew."""
_PATH = ("\ue000\ue000",)
"""Not known, and maybe a path."""
_MOST = 64
_LONGEST_VALUE = 10_000


class Variables(Struct):
    """What variables are known to hold; several values where it depends on what happens."""

    home: str
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def get(self, name: str) -> tuple[str, ...]:
        if name == "HOME":
            return self.values.get(name, (self.home,))
        return self.values.get(name, (UNKNOWN,))

    def put(self, name: str, values: tuple[str, ...], *, certain: bool) -> None:
        if name.startswith("+"):
            name = name[1:]
            values = tuple(old + new for old in self.get(name) for new in values)
        if not certain:
            values = (*self.get(name), *values)
        kept = tuple(dict.fromkeys(value if len(value) <= _LONGEST_VALUE else UNKNOWN for value in values))
        self.values[name] = kept if len(kept) <= _MOST else (UNKNOWN,)


class Expander:
    """`output_of` tells what a substitution prints, if that is known; `find` takes what has to be asked."""

    def __init__(
        self,
        variables: Variables,
        output_of: Callable[[syntax.Substitution], str],
        find: Callable[[str, str], None],
    ) -> None:
        self._variables = variables
        self._output_of = output_of
        self._find = find

    def fields(self, word: syntax.Word) -> list[str]:
        """The words a word becomes; globs stay as marks."""
        fields: list[str] = []
        for text, split in self._alternatives(word):
            pieces = text.split() if split else [text]
            for piece in pieces:
                fields += braces(self._tilde(piece))
        return list(dict.fromkeys(fields)) if any(isinstance(part, syntax.Var) for part in word) else fields

    def value(self, word: syntax.Word) -> tuple[str, ...]:
        """What an assignment of this word stores."""
        return tuple(to_plain(self._tilde(text)) for text, _ in self._alternatives(word))

    def text(self, word: syntax.Word) -> str:
        """One text, for here-documents and code; unknown parts stay marked."""
        return to_plain(self._alternatives(word)[0][0])

    def _alternatives(self, word: syntax.Word) -> list[tuple[str, bool]]:
        choices: list[list[tuple[str, bool]]] = []
        for part in word:
            if isinstance(part, syntax.LiteralText):
                choices.append([(part.text, False)])
            elif isinstance(part, syntax.Var):
                split = not part.quoted or part.name == "@" or syntax.plain(part.rest) == "[@]"
                choices.append([(value, split) for value in self._values(part)])
            else:
                choices.append([(self._output_of(part), not part.quoted)])
        if prod(map(len, choices)) > _MOST:
            choices = [choice if len(choice) == 1 else [(UNKNOWN, False)] for choice in choices]
        return [
            ("".join(text for text, _ in row), any(split and " " in text for text, split in row))
            for row in product(*choices)
        ] or [("", False)]

    def _values(self, part: syntax.Var) -> tuple[str, ...]:
        rest = self.text(part.rest)
        if part.name.startswith("!"):
            meant = self._variables.get(part.name[1:]) if not rest else ()
            plain = meant and all(map(_NAME.fullmatch, meant))
            return tuple(value for name in meant for value in self._variables.get(name)) if plain else _PATH
        values = self._variables.get(part.name)
        if not rest or rest in ("[@]", "[*]"):
            return values
        operator = rest[: 2 if rest[0] == ":" else 1]
        if operator[-1] in "-=+?" and operator != "::":
            return self._or_else(part.name, operator[-1], rest[len(operator) :])
        if rest[0] == "@" and rest[1:2] not in _SAYS:
            self._find("run.unknown", f"${{{part.name}{rest}}}")
        return tuple(dict.fromkeys(_changed(value, rest) for value in values))

    def _or_else(self, name: str, operator: str, default: str) -> tuple[str, ...]:
        """`${x:-default}` and its like."""
        if operator == "+":
            return (default,)
        is_set = name in self._variables.values or name == "HOME"
        known = tuple(value for value in self._variables.get(name) if value) if is_set else ()
        if operator == "?":
            return known or (UNKNOWN,)
        if operator == "=" and not known:
            self._variables.values[name] = (default,)
        return known if known and len(known) == len(self._variables.get(name)) else (*known, default)

    def _tilde(self, text: str) -> str:
        """Home folders, at the beginning of a word and behind `=` and `:`."""
        return _TILDE.sub(lambda match: self._folder(match[1]), text) if syntax.TILDE in text else text

    def _folder(self, user: str) -> str:
        if user in ("", "+", "-"):
            return self._variables.get({"": "HOME", "+": "PWD", "-": "OLDPWD"}[user])[0]
        own = self._variables.home
        if user == own.rpartition("/")[2]:
            return own
        return "/root" if user == "root" else UNKNOWN


def _changed(value: str, change: str) -> str:
    """`${x%.txt}`, `${x::-3}` … of a value. One that nobody has set is a name and stays one, unless the
    change brings a path of its own; what cannot be told may be any path."""
    if UNKNOWN in value:
        return UNKNOWN if value == UNKNOWN and change[0] in "#%:^,[" else UNKNOWN * 2
    if change in ("^", "^^", ",", ",,"):
        return value.upper() if change[0] == "^" else value.lower()
    cut = _SLICE.fullmatch(change)
    if cut:
        start, length = int(cut[1] or 0), int(cut[2]) if cut[2] else None
        end = None if length is None else length if length < 0 else start + length if start >= 0 else None
        return value[start:end] if -len(value) <= start else ""
    if change[0] == "[" and change[1:-1].isdecimal():
        return "".join(value.split()[int(change[1:-1][:6]) :][:1])
    strip = _STRIP.fullmatch(change)
    if strip and strip[1][0] == "%":
        return value.removesuffix(strip[2])
    if strip:
        return value.removeprefix(strip[2])
    replace = _REPLACE.fullmatch(change)
    if replace:
        return value.replace(replace[2], replace[3], -1 if replace[1] == "//" else 1)
    # The ways to a folder, and to the name in it.
    if change == "%/*":
        return value.rpartition("/")[0] if "/" in value else value
    if change == "##*/":
        return value.rpartition("/")[2]
    return UNKNOWN if "/" not in value + change and ".." not in value + change else UNKNOWN * 2


def braces(text: str) -> list[str]:
    """`{a,b}c` → `ac`, `bc`, as long as that stays small."""
    done: list[str] = []
    queue = [text]
    while queue:
        now = queue.pop(0)
        match = next(
            (
                brace
                for brace in _BRACE.finditer(now)
                if syntax.COMMA in brace[1] or _RANGE.fullmatch(brace[1])
            ),
            None,
        )
        if match is None or len(queue) + len(done) > _MOST:
            done.append(now.translate(_BACK))
            continue
        options = match[1].split(syntax.COMMA) if syntax.COMMA in match[1] else list(_range(match[1]))
        queue = [now[: match.start()] + option + now[match.end() :] for option in options] + queue
    return done


def _range(text: str) -> tuple[str, ...]:
    first, last = text.split("..")
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        low, high = sorted((int(first), int(last)))
        return tuple(str(number) for number in range(low, min(high, low + _MOST) + 1))
    return (first, last)


def to_plain(text: str) -> str:
    return text.translate(_PLAIN)


def has_glob(text: str) -> bool:
    return syntax.STAR in text or syntax.QUESTION in text or syntax.BRACKET in text
