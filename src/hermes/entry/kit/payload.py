"""Readers of JSON from outside. The `as_…` readers take anything and give a value of one type; others raise
`ValueError`. Readers of whole events marked `inbounds` or `if_malformed` skip what they cannot read."""

from __future__ import annotations

import functools
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from hermes.domain.chats.message import Attachment, Inbound, MediaKind
from hermes.domain.text import one_line, storable

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")

MALFORMED = (
    TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, OSError,
)  # fmt: skip
"""Everything that reading an event can raise when the event is not what its vendor documents."""


def if_malformed(default: V) -> Callable[[Callable[P, K]], Callable[P, K | V]]:
    """Lets a reader give the default for what is not as its vendor documents."""

    def decorate(read: Callable[P, K]) -> Callable[P, K | V]:
        @functools.wraps(read)
        def reading(*args: P.args, **kwargs: P.kwargs) -> K | V:
            try:
                return read(*args, **kwargs)
            except MALFORMED:
                return default

        return reading

    return decorate


def inbounds(read: Callable[P, Inbound | None]) -> Callable[P, tuple[Inbound, ...]]:
    """Makes a list of what an event means: empty for one that is none of ours or cannot be read."""
    readable = if_malformed(None)(read)

    @functools.wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> tuple[Inbound, ...]:
        item = readable(*args, **kwargs)
        return () if item is None else (item,)

    return reading


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


def flat(value: Any, most: int = 80) -> str:
    """A text for a note of ours in brackets: on one line, without what would end the note."""
    return one_line(as_text(value), most).replace("[", "(").replace("]", ")")


def shaped(value: Any, shape: re.Pattern[str]) -> str:
    """A text, such as an id, all of which fits the shape, and that has no half characters: those cannot be
    stored."""
    if not isinstance(value, str) or not shape.fullmatch(value):
        raise ValueError(f"not like {shape.pattern}")
    value.encode()
    return value


def attachment(ref: str, kind: MediaKind, name: Any, mime: Any, size: Any) -> Attachment:
    return Attachment(kind=kind, ref=ref, name=name_of(name), mime=name_of(mime), size=as_size(size))


def attachments(
    read: Callable[[V], Attachment | None], files: Iterable[V]
) -> tuple[tuple[Attachment, ...], str]:
    """The files of a message that can be read, and a note about those that cannot: its words still count."""
    readable, unread = [], 0
    for file in files:
        try:
            one = read(file)
        except MALFORMED:
            unread += 1
            continue
        if one is not None:
            readable.append(one)
    return tuple(readable), "[a file came that cannot be read]" if unread else ""


def integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**62:
        raise ValueError("not a whole number")
    return value


def moment(value: Any, *, per_second: int = 1) -> datetime:
    """The time that a number of seconds, or of their fractions, stands for."""
    return datetime.fromtimestamp(integer(value) / per_second, UTC)


class Recent(OrderedDict[K, V]):
    """What was learnt and can be asked for again: of too many, the oldest is forgotten."""

    def __init__(self, most: int = 5_000, items: Mapping[K, V] | None = None) -> None:
        super().__init__()
        self._most = most
        self.update(items or {})

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
