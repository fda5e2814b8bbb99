"""What a feed shows survives the way through the socket unchanged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import Refused
from hermes.domain.ids import AgentId, CallId, QuestionId, SessionId, TurnId
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns import event
from hermes.domain.turns.event import Entry, FeedItem, Snapshot, TextDelta
from hermes.domain.turns.turn import Cause, Turn, TurnInput
from hermes.stream.wire.socket import decode, decode_seen, encode, encode_seen

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
LIVE: list[FeedItem] = [
    TextDelta(text="wörds \u2028 and\nlines"),
    event.ThoughtDelta(text="hm"),
    event.ToolOutput(call=CallId("c1"), text="out"),
    event.Retrying(reason="busy", after=1.5),
    event.Notice(text="now by b"),
    event.Reset(),
    Snapshot(text="so far"),
]
RECORDS: list[event.Record] = [
    event.UserSaid(text="hi", attachments=(Attachment(kind=MediaKind.IMAGE, ref="r"),)),
    event.ModelSaid(
        text="hm",
        calls=(ToolCall(id=CallId("c"), name="n", arguments="{}"),),
        ending=event.Ending.LENGTH,
        usage=event.Usage(prompt=3),
    ),
    event.ToolStarted(call=CallId("c"), name="n", effect=Effect.ONCE, key="k"),
    event.ToolFinished(call=CallId("c"), text="x", unknown=True),
    event.Asked(question=QuestionId("q"), kind=event.QuestionKind.APPROVAL, text="?", options=("a", "b")),
    event.Answered(question=QuestionId("q"), verdict=event.Verdict.ONCE),
    event.Summarised(upto=3, text="short"),
    event.Cleared(upto=3),
    event.Restored(since=4),
    event.Undone(since=2),
    event.Finished(note="n"),
    event.Failed(reason="r"),
    event.Stopped(),
]


def test_every_kind_is_here() -> None:
    assert {type(one) for one in LIVE} == {*get_args(event.Live), Snapshot}
    assert {type(one) for one in RECORDS} == set(get_args(event.Record))


@pytest.mark.parametrize("seen", LIVE, ids=lambda seen: type(seen).__name__)
def test_what_passes_by(seen: FeedItem) -> None:
    data = encode_seen(seen)
    assert decode_seen(data) == seen and b"\n" not in data


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_in_their_place(record: event.Record) -> None:
    entry = Entry(seq=7, turn=TurnId("turn_1"), at=AT, record=record)
    assert decode_seen(encode_seen(entry)) == entry


def test_what_a_model_wants_back_stays_with_the_gateway() -> None:
    kept = event.Kept(format="f", model="m", text="sealed")
    entry = Entry(seq=7, turn=TurnId("t"), at=AT, record=event.ModelSaid(text="hm", kept=kept))
    data = encode_seen(entry)
    assert b"sealed" not in data and decode_seen(data).record == event.ModelSaid(text="hm")


def test_half_a_character_does_not_stop_the_feed() -> None:
    assert decode_seen(encode_seen(TextDelta(text="a\ud800b"))) == TextDelta(text="a\ufffdb")


def test_turns() -> None:
    source = Source(address=Address(platform="terminal", chat="local"), kind=SourceKind.PRIVATE, user="local")
    turn = Turn(
        id=TurnId("turn_1"),
        session=SessionId("s"),
        agent=AgentId("main"),
        cause=Cause.MESSAGE,
        input=TurnInput(text="hi"),
        created_at=AT,
        source=source,
    )
    assert decode(Turn, encode(turn)) == turn


@pytest.mark.parametrize("data", ["", "{}", "[]", '{"live": {"kind": "Nosuch", "value": {}}}', b"\xff"])
def test_what_cannot_be_understood_is_refused(data: str | bytes) -> None:
    with pytest.raises(Refused):
        decode_seen(data)
