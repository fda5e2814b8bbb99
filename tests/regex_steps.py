"""How many steps a regular expression takes, counted by a matcher that tries what `re` tries, in its order.
The number is the same on every machine; `re` itself is faster by a factor that does not matter here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT}
_ONE = {sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN}


class _Matcher:
    def __init__(self, text: str, flags: int) -> None:
        self.text, self.flags, self.steps = text, flags, 0
        self.sets: dict[int, set[str]] = {}

    def is_one(self, op: Any, value: Any, at: int) -> bool:
        """A single character; which ones fit is asked of `re`, once for each node."""
        self.steps += 1
        if at >= len(self.text):
            return False
        fitting = self.sets.get(id(value))
        if fitting is None or op is not sre.IN:
            fitting = {letter for letter in set(self.text) if _fits(op, value, letter, self.flags)}
            if op is sre.IN:
                self.sets[id(value)] = fitting
        return self.text[at] in fitting

    def ends(self, nodes: list[Any], at: int) -> Iterator[int]:
        if not nodes:
            yield at
            return
        for end in self._node(*nodes[0], at):
            yield from self.ends(nodes[1:], end)

    def _node(self, op: Any, value: Any, at: int) -> Iterator[int]:
        if op in _ONE:
            if self.is_one(op, value, at):
                yield at + 1
        elif op is sre.BRANCH:
            for branch in value[1]:
                self.steps += 1
                yield from self.ends(list(branch), at)
        elif op is sre.SUBPATTERN:
            yield from self.ends(list(value[3]), at)
        elif op is sre.ATOMIC_GROUP:
            yield from _first(self.ends(list(value), at))
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            self.steps += 1
            direction, inner = value
            start = at if direction > 0 else at - inner.getwidth()[0]
            holds = start >= 0 and next(self.ends(list(inner), start), None) is not None
            if holds == (op is sre.ASSERT):
                yield at
        elif op is sre.AT:
            self.steps += 1
            if self._is_at(value, at):
                yield at
        elif op in _REPEATS:
            ends = self._repeat(op, *value, at)
            yield from _first(ends) if op is sre.POSSESSIVE_REPEAT else ends
        else:  # a group again: any of its lengths
            yield at

    def _repeat(self, op: Any, least: int, most: int, inner: Any, at: int) -> Iterator[int]:
        places, most = [at], min(most, len(self.text) + 1)
        if op is sre.MIN_REPEAT:
            for count in range(most + 1):
                if count >= least:
                    yield places[-1]
                end = next(self.ends(list(inner), places[-1]), None)
                if end is None or (end == places[-1] and count >= least):
                    return
                places.append(end)
            return
        stack = [self.ends(list(inner), at)]
        while stack:  # a longer one first, then each way back
            end = next(stack[-1], None) if len(stack) <= most else None
            if end is not None and end != places[-1]:
                places.append(end)
                stack.append(self.ends(list(inner), end))
                continue
            if end is not None:
                continue
            if len(stack) - 1 >= least:
                yield places[-1]
            stack.pop()
            places.pop()

    def _is_at(self, where: Any, at: int) -> bool:
        text = self.text
        if where in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return at == 0 or (bool(self.flags & re.MULTILINE) and text[at - 1] == "\n")
        if where in (sre.AT_END, sre.AT_END_STRING):
            return at == len(text) or (bool(self.flags & re.MULTILINE) and text[at] == "\n")
        left, right = (bool(re.match(r"\w", text[each : each + 1])) for each in (at - 1 if at else at, at))
        left = left and at > 0
        return (left != right) == (where is sre.AT_BOUNDARY)


def _first(ends: Iterator[int]) -> Iterator[int]:
    end = next(ends, None)
    if end is not None:
        yield end


_CATEGORIES = {sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s"}
_CATEGORIES |= {sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W"}


def _fits(op: Any, value: Any, letter: str, flags: int) -> bool:
    if op is sre.ANY:
        return letter != "\n" or bool(flags & re.DOTALL)
    if op is sre.LITERAL:
        return _same(chr(value), letter, flags)
    if op is sre.NOT_LITERAL:
        return not _same(chr(value), letter, flags)
    fits = any(_in(kind, item, letter, flags) for kind, item in value if kind is not sre.NEGATE)
    return fits != (value[0][0] is sre.NEGATE)


def _in(kind: Any, item: Any, letter: str, flags: int) -> bool:
    if kind is sre.CATEGORY:
        return re.match(_CATEGORIES[item], letter) is not None
    if kind is sre.RANGE:
        return any(item[0] <= ord(each) <= item[1] for each in _cases(letter, flags))
    return _same(chr(item), letter, flags)


def _same(one: str, other: str, flags: int) -> bool:
    return other in _cases(one, flags)


def _cases(letter: str, flags: int) -> set[str]:
    return {letter, letter.lower(), letter.upper()} if flags & re.IGNORECASE else {letter}


def regex_steps(pattern: str, flags: int, text: str, *, search: bool = True) -> int:
    """For looking through the whole text, or only from its start."""
    matcher = _Matcher(text, flags)
    nodes = list(_parser.parse(pattern, flags))
    at = 0
    while at <= len(text):
        end = next(matcher.ends(nodes, at), None)
        if not search:
            break
        at = at + 1 if end is None else max(end, at + 1)
    return matcher.steps
