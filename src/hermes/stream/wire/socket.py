"""The words that a terminal and a running gateway say to each other, as JSON, for both ends of the socket.

What a feed shows is one of several kinds, so each item carries the name of its kind; everything else (turns,
sessions, replies) is what its type says. Both ends are the same program: nothing of this is stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar, get_args

import msgspec

from hermes.domain.errors import Refused
from hermes.domain.ids import TurnId
from hermes.domain.text import storable_all
from hermes.domain.turns.event import Entry, FeedItem, Live, ModelSaid, Record, Snapshot
from hermes.domain.word import replace

T = TypeVar("T")
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Snapshot, *get_args(Live), *get_args(Record))
}
HELLO, TURN, SEEN, END, PASSWORD, PROGRESS = "hello", "turn", "seen", "end", "password", "progress"
"""The names of events: the gateway is there; a turn that nobody said; what a turn shows; its end; a command
that waits for a password; how it stands with a slash command."""
_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class TaggedValue(msgspec.Struct, kw_only=True):
    kind: str
    value: msgspec.Raw


class WireEntry(msgspec.Struct, kw_only=True):
    seq: int
    turn: str
    at: datetime
    record: TaggedValue


class WireFeedItem(msgspec.Struct, kw_only=True):
    """One thing that a feed shows: a record in its place, or what passes by."""

    entry: WireEntry | None = None
    live: TaggedValue | None = None


def encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(storable_all(value))


def decode(kind: type[T], data: bytes | str) -> T:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        value: T = decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(f"The gateway says something that this Hermes does not understand ({error})") from error
    return value


def entry_words(entry: Entry) -> WireEntry:
    return WireEntry(seq=entry.seq, turn=entry.turn, at=entry.at, record=_tagged(entry.record))


def read_entry(words: WireEntry) -> Entry:
    return Entry(seq=words.seq, turn=TurnId(words.turn), at=words.at, record=_untagged(words.record))


def encode_seen(seen: FeedItem) -> bytes:
    if isinstance(seen, Entry):
        return _encoder.encode(WireFeedItem(entry=entry_words(seen)))
    return _encoder.encode(WireFeedItem(live=_tagged(seen)))


def decode_seen(data: bytes | str) -> FeedItem:
    words = decode(WireFeedItem, data)
    if words.entry is not None:
        return read_entry(words.entry)
    if words.live is None:
        raise Refused("The gateway shows something that this Hermes does not understand")
    seen: FeedItem = _untagged(words.live)
    return seen


def _tagged(value: Record | Live | Snapshot) -> TaggedValue:
    if isinstance(value, ModelSaid) and value.kept is not None:
        value = replace(value, kept=None)  # for the model's service alone
    return TaggedValue(kind=type(value).__name__, value=msgspec.Raw(encode(value)))


def _untagged(words: TaggedValue) -> Any:
    kind = _KINDS.get(words.kind)
    if kind is None:
        raise Refused(f"The gateway shows “{words.kind}”, which this Hermes does not know")
    return decode(kind, bytes(words.value))
