"""Thoughts in responses: an item before the message, another behind it, and numbers that follow from the
records alone, however thoughts and words came."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.ids import CallId, TurnId
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Ending,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    Record,
    Reset,
    Snapshot,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from hermes.stream.faces.responses.fold import ResponseFold
from hermes.stream.faces.responses.numbers import ResponseEvents
from hermes.stream.faces.responses.shape import ReasoningOptions, ResponseObject
from hermes.stream.fold.steps import SAID_AGAIN
from tests.stream.test_responses import Told, told, words

AT = datetime(2026, 1, 2, tzinfo=UTC)
ENDINGS = (Ending.STOP, Ending.LENGTH, Ending.CALLS)


def fold(summary: str | None = "auto") -> ResponseFold:
    blank = ResponseObject(id="resp_x", created_at=1, model="m", reasoning=ReasoningOptions(summary=summary))
    return ResponseFold(blank, run="run_x", session="s1")


def entry(seq: int, record: Record) -> Entry:
    return Entry(seq=seq, turn=TurnId("turn_x"), at=AT, record=record)


def stream(
    seen: Sequence[FeedItem], *, after: int | None = None, since: int = 0, summary: str | None = "auto"
) -> list[Told]:
    events = ResponseEvents(fold(summary), after=after)
    events.since = since
    return told(events.start() + b"".join(events.see(item) for item in seen))


def whole(seen: Sequence[FeedItem]) -> Told:
    one = fold()
    for item in seen:
        one.see(item)
    answer: Told = json.loads(msgspec.json.encode(one.response()))
    return answer


def thoughts(events: Sequence[Told]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith("summary_text.delta"))


def items(response: Told) -> list[tuple[str, str]]:
    """The kinds of a response's items, and their texts."""
    shown = []
    for item in response["output"]:
        parts = item.get("summary") or item.get("content") or [{"text": ""}]
        shown.append((item["type"], parts[0]["text"]))
    return shown


SAID = ModelSaid(text="Yes.", thought="Hm, so.")
HI = entry(1, UserSaid(text="hi"))
RECORDS = [HI, entry(2, SAID), entry(3, Finished())]
LIVE = [ThoughtDelta(text="Hm, "), ThoughtDelta(text="so."), TextDelta(text="Ye"), TextDelta(text="s.")]


@pytest.mark.parametrize("live", [[], LIVE, LIVE[:1], LIVE[:3], [Snapshot(text="Ye", thought="Hm, so.")]])
def test_thoughts_are_an_item_before_the_message(live: list[FeedItem]) -> None:
    events = stream([HI, *live, *RECORDS[1:]])
    assert (thoughts(events), words(events)) == ("Hm, so.", "Yes.")
    assert items(events[-1]["response"]) == [("reasoning", "Hm, so."), ("message", "Yes.")]
    assert [each["type"].removeprefix("response.") for each in events if "delta" not in each["type"]] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"] == whole(RECORDS)["output"]
    assert done[0]["status"] == "completed" and done[0]["id"] == "rs_x_0"


def test_thoughts_are_told_only_if_a_summary_is_asked_for() -> None:
    events = stream([HI, *LIVE, *RECORDS[1:]], summary=None)
    assert thoughts(events) == "" and items(events[-1]["response"]) == [("message", "Yes.")]


def test_each_reply_has_its_own_thoughts() -> None:
    call = ToolCall(id=CallId("c1"), name="terminal", arguments="{}")
    records = [
        UserSaid(text="hi"),
        ModelSaid(thought="Look first.", text="I look.", calls=(call,), ending=Ending.CALLS),
        ToolStarted(call=call.id, name="terminal", effect=Effect.READ, key="k"),
        ToolFinished(call=call.id, text="a file"),
        ModelSaid(text="<think>One.</think>One file."),
        Finished(),
    ]
    answer = whole([entry(seq, record) for seq, record in enumerate(records, 1)])
    assert items(answer) == [
        ("reasoning", "Look first."),
        ("message", "I look.\n\n"),
        ("mcp_call", ""),
        ("reasoning", "One."),
        ("message", "One file."),
    ]


def test_what_is_thought_after_the_first_word_comes_behind_the_message() -> None:
    said = ModelSaid(text="Yes.", thought="Hm, so.", thought_late=3)
    live = [ThoughtDelta(text="Hm, "), TextDelta(text="Yes"), ThoughtDelta(text="so."), TextDelta(text=".")]
    for feed in ([HI, *live], [HI]):
        events = stream([*feed, entry(2, said), entry(3, Finished())])
        assert items(events[-1]["response"]) == [
            ("reasoning", "Hm, "),
            ("message", "Yes.\n\n"),
            ("reasoning", "so."),
        ]


def test_a_turn_that_ends_while_the_model_thinks_keeps_no_thoughts() -> None:
    end = entry(2, Failed(reason="No model."))
    events = stream([HI, LIVE[0], end])
    (closed,) = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert (closed["type"], closed["status"]) == ("reasoning", "incomplete")
    assert events[-1]["response"] == whole([HI, end])


def test_thoughts_that_are_thought_again_follow_those_that_went_out() -> None:
    events = stream([HI, ThoughtDelta(text="Heaven"), Reset(), *LIVE, *RECORDS[1:]])
    assert thoughts(events) == f"Heaven\n\n{SAID_AGAIN}\n\nHm, so."
    assert events[-1]["response"] == whole(RECORDS)


# --- numbers ---

PIECES = st.lists(
    st.tuples(st.booleans(), st.text(alphabet="ab<>/think\n `é😀", min_size=1, max_size=8)), max_size=6
)


def said(pieces: Sequence[tuple[bool, str]], ending: Ending) -> ModelSaid:
    """The record of a call that thought and said these pieces, in this order."""
    first = next((place for place, (thinks, _) in enumerate(pieces) if not thinks), len(pieces))
    return ModelSaid(
        text="".join(text for thinks, text in pieces if not thinks),
        thought="".join(text for thinks, text in pieces if thinks),
        thought_late=sum(len(text) for thinks, text in pieces[first:] if thinks),
        ending=ending,
    )


def cut(pieces: Sequence[tuple[bool, str]], size: int) -> list[FeedItem]:
    return [
        (ThoughtDelta if thinks else TextDelta)(text=text[at : at + size])
        for thinks, text in pieces
        for at in range(0, len(text), size)
    ]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    replies=st.lists(st.tuples(PIECES, st.sampled_from(ENDINGS)), min_size=1, max_size=3),
    size=st.integers(1, 9),
    joined=st.integers(0, 12),
    data=st.data(),
)
def test_thoughts_have_the_same_numbers_however_they_are_told(
    replies: list[tuple[list[tuple[bool, str]], Ending]], size: int, joined: int, data: st.DataObject
) -> None:
    """Whoever comes back with any number hears what follows it, once, in order, and nothing is missing."""
    live: list[FeedItem] = [HI]
    records = [HI]
    for pieces, ending in replies:
        record = entry(len(records) + 1, said(pieces, ending))
        live += [*cut(pieces, size), record]
        records.append(record)
    end = entry(len(records) + 1, Finished())
    first, again = stream([*live, end]), stream([*records, end])
    assert first[-1] == again[-1]
    assert (thoughts(first), words(first)) == (thoughts(again), words(again))
    numbers = [event["sequence_number"] for event in first]
    assert numbers == sorted(set(numbers))
    # Somebody joins in the middle of the first call.
    heard = cut(replies[0][0], size)[:joined]
    if any(isinstance(each, TextDelta) for each in heard):
        so_far = said([(isinstance(each, ThoughtDelta), each.text) for each in heard], Ending.STOP)  # type: ignore[union-attr]
        place = live.index(records[1])
        shot = Snapshot(text=so_far.text, thought=so_far.thought, thought_late=so_far.thought_late)
        late = stream([HI, shot, *live[1 + len(heard) : place], *live[place:], end])
        assert [each["sequence_number"] for each in late if "delta" not in each["type"]] == [
            each["sequence_number"] for each in first if "delta" not in each["type"]
        ]
    at = data.draw(st.integers(0, len(first) - 1))
    for feed in ([*records, end], [*live, end]):
        rest = stream(feed, after=numbers[at])
        assert thoughts(first[: at + 1]) + thoughts(rest) == thoughts(first)
        assert words(first[: at + 1]) + words(rest) == words(first)
        kinds = [event["type"] for event in first[at + 1 :] if "delta" not in event["type"]]
        assert [event["type"] for event in rest if "delta" not in event["type"]] == kinds
        assert all(event["sequence_number"] > numbers[at] for event in rest)


@pytest.mark.parametrize("count", range(1, 5))
@pytest.mark.parametrize(
    "second",
    [
        [ModelSaid(text="Good morning to you, my friend", thought="Another thought"), Finished()],
        [ModelSaid(text="Good morning to you, my friend"), Finished()],
        [Failed(reason="No model.")],
    ],
    ids=["thinks again", "does not think", "fails"],
)
def test_who_heard_of_a_call_that_was_lost_is_told_so(count: int, second: list[Record]) -> None:
    """Whatever was open is closed as what it was, and what replaces it has further places."""
    heard = stream([HI, *LIVE[:count]])
    last = [entry(seq, record) for seq, record in enumerate(second, 2)]
    rest = stream([HI, *last], after=heard[-1]["sequence_number"], since=1)
    events = heard + rest
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    kinds = {"response.output_item.added": "added", "response.output_item.done": "done"}
    marks = [
        (event["output_index"], kinds[event["type"]], event["item"]["type"])
        for event in events
        if event["type"] in kinds
    ]
    opened = [(place, kind) for place, mark, kind in marks if mark == "added"]
    closed = [(place, kind) for place, mark, kind in marks if mark == "done"]
    assert opened == closed and [place for place, _ in opened] == list(range(len(opened)))
    assert rest[-1]["response"] == whole([HI, *last])
    known = {event["item"]["id"] for event in heard if event["type"] == "response.output_item.added"}
    first = itertools.takewhile(lambda event: event["type"] != "response.output_item.added", rest)
    named = {event["item_id"] for event in first if "item_id" in event}
    assert named <= known, "only what the client knows is closed"
