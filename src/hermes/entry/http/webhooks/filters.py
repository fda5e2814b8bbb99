"""Filters of a route: which events it wants. Read once from the settings, then asked for every event.

A filter that cannot be read is a `BadRoute` with a sentence for the operator; one that cannot be decided
(a missing file, a pattern that takes too long) does not let the event through.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes.control.people.operator_patterns import BadPattern, finds, read_pattern
from hermes.domain.settings.declaring import Secret
from hermes.entry.http.webhooks.incoming import ABSENT, EventFacts

log = logging.getLogger("hermes.webhooks")
_MOST_TEXT = 100_000
_MOST_DEPTH = 16
_MOST_PARTS = 200

ReadLines = Callable[[str], frozenset[str]]
"""The lines of a file that a filter names; `OSError` if it cannot be read."""


class BadRoute(Exception):
    """One sentence: what is wrong with a route, and where."""


Filter = Callable[[EventFacts, ReadLines], bool]


class _Undecided(Exception):
    """Neither yes nor no may be said, so that a `not` around it does not let the event through either."""


def same(actual: Any, wanted: Any) -> bool:
    """Equal values; a text equals whatever is spelled so, for headers and quoted settings are texts."""
    if isinstance(actual, str) != isinstance(wanted, str):
        return spell(actual) == spell(wanted)
    if isinstance(actual, bool) != isinstance(wanted, bool):
        return False
    return bool(actual == wanted)


def spell(value: Any) -> str:
    """A value as text: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _contains(actual: Any, wanted: Any) -> bool:
    if isinstance(actual, str | dict):
        return spell(wanted) in actual
    return isinstance(actual, list) and any(same(item, wanted) for item in actual)


def _in_file(actual: Any, name: str, read_lines: ReadLines) -> bool:
    try:
        return spell(actual) in read_lines(name)
    except (OSError, ValueError) as error:
        raise _Undecided(f"in_file cannot be read: {type(error).__name__}") from error


def _fits(actual: Any, pattern: Any) -> bool:
    try:
        return finds(pattern, spell(actual)[:_MOST_TEXT])
    except TimeoutError as error:
        raise _Undecided("the pattern takes too long") from error


_TESTS: Mapping[str, Callable[[Any, Any, ReadLines], bool]] = {
    "exists": lambda actual, wanted, _: (actual is not ABSENT) == wanted,
    "missing": lambda actual, wanted, _: (actual is ABSENT) == wanted,
    "equals": lambda actual, wanted, _: actual is not ABSENT and same(actual, wanted),
    "not_equals": lambda actual, wanted, _: actual is ABSENT or not same(actual, wanted),
    "contains": lambda actual, wanted, _: actual is not ABSENT and _contains(actual, wanted),
    "in": lambda actual, wanted, _: actual is not ABSENT and any(same(actual, item) for item in wanted),
    "in_file": lambda actual, name, read: actual is not ABSENT and _in_file(actual, name, read),
    "regex": lambda actual, pattern, _: actual is not ABSENT and _fits(actual, pattern),
}


def read_filter(tree: Any) -> Filter | None:
    """The filter that a route's `filters` stand for; None where they are an empty list or mapping."""
    if tree is None:
        raise BadRoute("filters is empty or cannot be read; remove it if every event is wanted.")
    if tree == [] or tree == {}:
        return None
    return _Reading().any(tree, "filters", 0)


class _Reading:
    def __init__(self) -> None:
        self._count = 0

    def any(self, tree: Any, path: str, depth: int) -> Filter:
        self._count += 1
        if depth > _MOST_DEPTH or self._count > _MOST_PARTS:
            raise BadRoute(f"{path}: at most {_MOST_PARTS} filters, {_MOST_DEPTH} deep.")
        if isinstance(tree, list):
            return _every(self.several(tree, path, depth))
        if not isinstance(tree, dict) or not tree:
            raise BadRoute(f"{path} must be a list, or a mapping with all, any, not or field.")
        if "field" in tree:
            return self.leaf(tree, path)
        if len(tree) != 1 or (word := next(iter(tree))) not in ("all", "any", "not"):
            keys = ", ".join(map(str, tree))
            raise BadRoute(f"{path} must hold one of all, any, not, or a field with a test, not {keys}.")
        below = f"{path}.{word}"
        if word == "not":
            part = self.any(tree[word], below, depth + 1)
            return lambda facts, read_lines: not part(facts, read_lines)
        parts = self.several(tree[word], below, depth)
        if word == "all":
            return _every(parts)
        return lambda facts, read_lines: any(part(facts, read_lines) for part in parts)

    def several(self, tree: Any, path: str, depth: int) -> list[Filter]:
        if not isinstance(tree, list) or not tree:
            raise BadRoute(f"{path} must be a list of at least one filter.")
        return [self.any(part, f"{path}[{place}]", depth + 1) for place, part in enumerate(tree)]

    def leaf(self, tree: Mapping[str, Any], path: str) -> Filter:
        field = tree["field"]
        if not isinstance(field, str) or not all(field.split(".")):
            raise BadRoute(f"{path}.field must be a dotted path, headers.<name> or event.")
        strange = [name for name in tree if name not in ("field", *_TESTS)]
        tests = [name for name in _TESTS if name in tree]
        if strange or not tests:
            wrong = f"“{strange[0]}” is not a test" if strange else "it has no test"
            raise BadRoute(f"{path}: {wrong}; there are {', '.join(_TESTS)}.")
        wanted = [(_TESTS[name], self.value(name, tree[name], path)) for name in tests]

        def holds(facts: EventFacts, read_lines: ReadLines) -> bool:
            actual = facts.find(field)
            try:
                return all(test(actual, value, read_lines) for test, value in wanted)
            except _Undecided as why:
                raise _Undecided(f"{field}: {why}") from why

        return holds

    def value(self, test: str, value: Any, path: str) -> Any:
        value = value.reveal() if isinstance(value, Secret) else value
        at = f"{path}.{test}"
        if test in ("exists", "missing") and not isinstance(value, bool):
            raise BadRoute(f"{at} must be true or false.")
        if test == "in" and not isinstance(value, list):
            raise BadRoute(f"{at} must be a list.")
        if test == "in_file" and not (isinstance(value, str) and value):
            raise BadRoute(f"{at} must name a file.")
        if test == "regex":
            if not isinstance(value, str):
                raise BadRoute(f"{at} must be a regular expression.")
            try:
                return read_pattern(value)
            except BadPattern as error:
                raise BadRoute(f"{at} is not a regular expression that can be used ({error}).") from error
        return value


def _every(parts: Sequence[Filter]) -> Filter:
    return lambda facts, read_lines: all(part(facts, read_lines) for part in parts)


def passes(wanted: Filter | None, facts: EventFacts, read_lines: ReadLines) -> bool:
    """Whether an event is wanted. May take a while (patterns, files): not on the loop."""
    if wanted is None:
        return True
    try:
        return wanted(facts, read_lines)
    except _Undecided as why:
        log.warning("webhook.filter_undecided: the event is left out (%s)", why)
        return False
