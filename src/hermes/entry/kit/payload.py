"""Readers of JSON from outside. The `as_…` readers take anything and give a value of one type; others raise
`ValueError`. Whoever converts an event catches `MALFORMED` and leaves the event out."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, TypeVar

from hermes.domain.text import storable

K = TypeVar("K")
V = TypeVar("V")

MALFORMED = (
    TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, OSError,
)  # fmt: skip
"""Everything that reading an event can raise when the event is not what its vendor documents."""


def read_json(raw: str | bytes) -> Any:
    """The value that the text spells; None if it is no JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_dicts(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_size(value: Any) -> int | None:
    """A number of bytes, if it can be one."""
    sane = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if sane else None


def dig(value: Any, *names: str) -> Any:
    """What stands below these names in nested objects; None if there is no such place."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def name_of(value: Any) -> str | None:
    """A name as it can be stored; None if there is none."""
    return storable(as_text(value)) or None


def integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**62:
        raise ValueError("not a whole number")
    return value


def moment(value: Any, *, per_second: int = 1) -> datetime:
    """The time that a number of seconds, or of their fractions, stands for."""
    return datetime.fromtimestamp(integer(value) / per_second, UTC)


class Recent(OrderedDict[K, V]):
    """What was learnt and can be asked for again: of too many, the oldest is forgotten."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
