"""What a word becomes before it is run, as far as that can be known without running anything.

A part that cannot be known is marked `UNKNOWN`; a variable that may hold several things yields all of them,
so a judge sees the worst."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

from hermes.agent.danger.syntax import (
    BRACKET,
    CLOSE,
    COMMA,
    OPEN,
    QUESTION,
    STAR,
    TILDE,
    Sub,
    Text,
    Var,
    Word,
)

UNKNOWN = "\ue000"
_BACK = str.maketrans({OPEN: "{", COMMA: ",", CLOSE: "}"})
_PLAIN = str.maketrans(
    {STAR: "*", QUESTION: "?", BRACKET: "[", OPEN: "{", COMMA: ",", CLOSE: "}", TILDE: "~"}
)
_BRACE = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_RANGE = re.compile(r"(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])")
_MOST = 64
_LONGEST_VALUE = 10_000


@dataclass(slots=True)
class Variables:
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
        kept = tuple(dict.fromkeys(one if len(one) <= _LONGEST_VALUE else UNKNOWN for one in values))
        self.values[name] = kept if len(kept) <= _MOST else (UNKNOWN,)


class Expander:
    """`output_of` tells what a substitution prints, if that is known."""

    def __init__(self, variables: Variables, output_of: Callable[[Sub], str]) -> None:
        self._variables = variables
        self._output_of = output_of

    def fields(self, word: Word) -> list[str]:
        """The words a word becomes; globs stay as marks."""
        found: list[str] = []
        for text, split in self._alternatives(word):
            pieces = text.split() if split else [text]
            for piece in pieces:
                found += braces(self._tilde(piece))
        return list(dict.fromkeys(found)) if len(found) > 1 and _is_variable(word) else found

    def value(self, word: Word) -> tuple[str, ...]:
        """What an assignment of this word stores."""
        return tuple(to_plain(self._tilde(text)) for text, _ in self._alternatives(word))

    def text(self, word: Word) -> str:
        """One text, for here-documents and code; unknown parts stay marked."""
        return to_plain(self._alternatives(word)[0][0])

    def _alternatives(self, word: Word) -> list[tuple[str, bool]]:
        choices: list[list[tuple[str, bool]]] = []
        for part in word:
            if isinstance(part, Text):
                choices.append([(part.text, False)])
            elif isinstance(part, Var):
                split = not part.quoted or part.name == "@" or part.rest == (Text("[@]"),)
                choices.append([(value, split) for value in self._values(part)])
            else:
                choices.append([(self._output_of(part), not part.quoted)])
        found = [
            ("".join(text for text, _ in row), any(split and " " in text for text, split in row))
            for row in _some(choices)
        ]
        return found or [("", False)]

    def _values(self, part: Var) -> tuple[str, ...]:
        if part.name.startswith("!") or not part.rest:
            return (UNKNOWN,) if part.name.startswith("!") else self._variables.get(part.name)
        rest = self.text(part.rest)
        known = self._variables.get(part.name)
        if rest[:2] in (":-", ":=", ":+") or rest[:1] in "-=+":
            default = rest.lstrip(":")[1:]
            return (default,) if part.name not in self._variables.values and part.name != "HOME" else known
        if rest in ("[@]", "[*]"):
            return known
        return (UNKNOWN,)

    def _tilde(self, text: str) -> str:
        if not text.startswith(TILDE):
            return text
        rest = text[1:]
        if rest == "" or rest.startswith("/"):
            return self._variables.get("HOME")[0] + rest
        user, slash, below = rest.partition("/")
        own = self._variables.home
        if user == own.rpartition("/")[2]:
            return own + slash + below
        return ("/root" if user == "root" else f"/home/{user}") + slash + below


def _is_variable(word: Word) -> bool:
    return any(isinstance(part, Var) for part in word)


def _some(choices: list[list[tuple[str, bool]]]) -> list[tuple[tuple[str, bool], ...]]:
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > _MOST:
        choices = [choice if len(choice) == 1 else [(UNKNOWN, False)] for choice in choices]
    return list(product(*choices))


def braces(text: str) -> list[str]:
    """`{a,b}c` → `ac`, `bc`, as long as that stays small."""
    done: list[str] = []
    queue = [text]
    while queue:
        now = queue.pop(0)
        match = next(
            (one for one in _BRACE.finditer(now) if COMMA in one[1] or _RANGE.fullmatch(one[1])), None
        )
        if match is None or len(queue) + len(done) > _MOST:
            done.append(now.translate(_BACK))
            continue
        options = match[1].split(COMMA) if COMMA in match[1] else list(_range(match[1]))
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
    return STAR in text or QUESTION in text or BRACKET in text
