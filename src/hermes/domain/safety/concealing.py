"""Records, inputs and plain data without secrets: their texts go through a function that takes these out.
What stays as it was stays the same object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct, structs

from hermes.domain.chats.message import Attachment, ReplyTo
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Answered, FaultCause, Kept, ModelSaid, Record, UserSaid
from hermes.domain.turns.turn import EarlierMessage, Guidance

Conceal = Callable[[str], str]
S = TypeVar("S", bound=Struct)
_TEXTS = frozenset(
    ("text", "context", "thought", "note", "reason", "detail", "quote", "arguments", "inside", "instructions")
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
            if value and name in _TEXTS:
                new = _arguments(value, conceal) if name == "arguments" else conceal(value)
        elif isinstance(value, _PARTS):
            new = concealed(value, conceal)
        elif isinstance(value, Kept):
            # A service may have signed it: it goes back as it came, or not at all.
            new = value if conceal(value.text) == value.text else None
        elif isinstance(value, tuple) and value:
            parts = tuple(_part(part, name, conceal) for part in value)
            new = value if all(map(_same, parts, value)) else parts
        if new is not value and new != value:
            changed[name] = new
    return structs.replace(words, **changed) if changed else words


def withheld(call: ToolCall, conceal: Conceal) -> ToolCall:
    """A call without secrets: with none in it the same one, else one that is shown and never run."""
    id = call.id if conceal(call.id) == call.id else ""
    clean = structs.replace(concealed(call, conceal), name=conceal(call.name), id=id)
    return call if clean == call else structs.replace(clean, withheld=True)


def _arguments(text: str, conceal: Conceal) -> str:
    """The arguments of a call, each of their texts by itself: the JSON around them stays whole."""
    try:
        read = json.loads(text or "{}", strict=False, object_pairs_hook=_once_each)
    except (ValueError, RecursionError):
        return conceal(text)
    clean = _concealed_argument(read, conceal)
    return text if clean == read else json.dumps(clean, ensure_ascii=False)


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(fields := dict(pairs)) < len(pairs):
        raise ValueError("a field that stands there twice")
    return fields


def _concealed_argument(value: object, conceal: Conceal) -> object:
    if isinstance(value, dict):
        names = {name: name if name.isidentifier() and name.islower() else conceal(name) for name in value}
        return {names[name]: _concealed_argument(part, conceal) for name, part in value.items()}
    if isinstance(value, list):
        return [_concealed_argument(part, conceal) for part in value]
    told = json.dumps(value) if isinstance(value, int | float) else value
    return value if not isinstance(told, str) or conceal(told) == told else conceal(told)


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
