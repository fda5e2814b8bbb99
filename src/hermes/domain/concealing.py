"""Records, inputs and plain data without secrets: their texts go through a function that takes these out.
What stays as it was stays the same object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct, structs

from hermes.domain.event import Answered, FaultCause, ModelSaid, Record, UserSaid
from hermes.domain.message import Attachment, ReplyTo
from hermes.domain.tool import ToolCall
from hermes.domain.turn import EarlierMessage, Guidance

Conceal = Callable[[str], str]
S = TypeVar("S", bound=Struct)
_TEXTS = frozenset(
    ("text", "context", "thought", "note", "reason", "detail", "quote", "arguments", "instructions")
)
"""The fields with words of somebody; the others are names, ids and what a service keeps for itself."""
_PARTS = (Attachment, ReplyTo, ToolCall, EarlierMessage, Guidance, FaultCause)


def concealed(words: S, conceal: Conceal) -> S:
    """A record, an input, a message or a part of one."""
    changed: dict[str, Any] = {}
    for name in words.__struct_fields__:
        value = getattr(words, name)
        new = value
        if isinstance(value, str):
            new = conceal(value) if value and name in _TEXTS else value
        elif isinstance(value, _PARTS):
            new = concealed(value, conceal)
        elif isinstance(value, tuple) and value:
            parts = tuple(_part(part, name, conceal) for part in value)
            new = value if all(map(_same, parts, value)) else parts
        if new is not value and new != value:
            changed[name] = new
    return structs.replace(words, **changed) if changed else words


def _part(part: Any, name: str, conceal: Conceal) -> Any:
    if isinstance(part, _PARTS):
        return concealed(part, conceal)
    return conceal(part) if isinstance(part, str) and name in _TEXTS else part


def _same(left: object, right: object) -> bool:
    return left is right or left == right


def concealed_data(value: object, conceal: Conceal) -> object:
    """Plain data with every text in it changed; names of fields stay."""
    if isinstance(value, str):
        return conceal(value)
    if isinstance(value, Mapping):
        return {name: concealed_data(part, conceal) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [concealed_data(part, conceal) for part in value]
    return value


class Concealing(Struct, frozen=True, kw_only=True):
    """Two ways to take secrets out of texts: `loaded` leaves all but loaded values as somebody wrote it,
    `everything` also takes out what looks like a secret."""

    loaded: Conceal = str
    everything: Conceal = str

    def record(self, record: Record) -> Record:
        """A record as it may be stored and shown. What a person says is theirs to say; what the model said
        was looked at when it came."""
        if isinstance(record, ModelSaid):
            return record
        return concealed(record, self.loaded if isinstance(record, UserSaid | Answered) else self.everything)


NOTHING_CONCEALED = Concealing()
