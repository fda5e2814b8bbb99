"""Records and other words as JSON, tagged by kind. Additive: unknown fields are ignored, missing ones
take their defaults, so old rows stay readable and a kind's name never changes its meaning. Words that every
turn stores leave out what is as usual: their defaults never change."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from hermes.domain.errors import Refused
from hermes.domain.text import storable_all
from hermes.domain.turns import event
from hermes.domain.turns.event import Record
from hermes.domain.word import LEARNING

T = TypeVar("T")

KINDS: dict[str, type[Any]] = {
    "user_said": event.UserSaid,
    "model_said": event.ModelSaid,
    "tool_started": event.ToolStarted,
    "tool_finished": event.ToolFinished,
    "asked": event.Asked,
    "answered": event.Answered,
    "summarised": event.Summarised,
    "cleared": event.Cleared,
    "restored": event.Restored,
    "undone": event.Undone,
    "finished": event.Finished,
    "failed": event.Failed,
    "stopped": event.Stopped,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # Half a character (a lone surrogate) reached us; a replaced character is better than a lost record.
        return _encoder.encode(storable_all(value))


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(kind)
    if decoder is None:
        with LEARNING:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def decode(kind: type[T], data: bytes | str) -> T:
    try:
        value: T = _decoder(kind).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(f"a stored {kind.__name__} cannot be read: {error}") from error
    return value


def encode_record(record: Record) -> tuple[str, bytes]:
    return _NAMES[type(record)], encode(record)


def decode_record(kind: str, data: bytes | str) -> Record:
    known = KINDS.get(kind)
    if known is None:
        raise Refused(f"a record of kind “{kind}” was written by a newer Hermes")
    record: Record = decode(known, data)
    return record


@lru_cache(maxsize=64)
def hash_text(text: str) -> str:
    """The name under which a text is kept once, however often it is used."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def stamp(at: datetime) -> float:
    """A time as it is stored: seconds since 1970."""
    return at.timestamp()


def unstamp(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def stamp_or_none(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def unstamp_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
