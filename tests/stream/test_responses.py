"""A feed as a response of the Responses API: its items, its events, and numbers one can come back with."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Reset,
    Snapshot,
    Stopped,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSaid,
    Verdict,
)
from hermes.stream.faces.responses.fold import ResponseFold, parts_asked, parts_before
from hermes.stream.faces.responses.numbers import CHECK_BITS, ResponseEvents
from hermes.stream.faces.responses.shape import ResponseObject
from hermes.stream.fold.steps import SAID_AGAIN
from tests.stream.feeds import parse

AT = datetime(2026, 1, 2, tzinfo=UTC)
Told = dict[str, Any]


def fold(part: int = 1) -> ResponseFold:
    name = "resp_x" if part == 1 else f"resp_x_{part}"
    blank = ResponseObject(id=name, created_at=1, model="m")
    return ResponseFold(blank, run="run_x", session="s1", part=part)


def numbered(records: Sequence[Record | FeedItem]) -> list[FeedItem]:
    """Records get their places; live events stay as they are."""
    seen: list[FeedItem] = []
    for place, record in enumerate(records, 1):
        live = isinstance(record, TextDelta | Snapshot | Reset)
        seen.append(record if live else Entry(seq=place, turn=TurnId("turn_x"), at=AT, record=record))  # type: ignore[arg-type]
    return seen


def told(data: bytes) -> list[Told]:
    events = []
    parsed = parse([data])
    if parsed and parsed[-1].data == "[DONE]":
        assert parsed.pop().name == "message"
    for event in parsed:
        said = json.loads(event.data)
        assert said["type"] == event.name
        events.append(said)
    return events


def stream(
    seen: Sequence[FeedItem], *, part: int = 1, after: int | None = None, since: int = 0
) -> list[Told]:
    events = ResponseEvents(fold(part), after=after)
    events.since = since
    return told(events.start() + b"".join(events.see(item) for item in seen))


def whole(seen: Sequence[FeedItem], part: int = 1) -> Told:
    one = fold(part)
    for item in seen:
        one.see(item)
    answer: Told = json.loads(msgspec.json.encode(one.response()))
    return answer


def words(events: Sequence[Told]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def calling(*names: str, text: str = "", arguments: str = '{"command": "ls"}') -> ModelSaid:
    calls = tuple(ToolCall(id=CallId(f"c_{name}"), name=name, arguments=arguments) for name in names)
    return ModelSaid(text=text, calls=calls, ending=Ending.CALLS, usage=Usage(prompt=10, completion=5))


def started(name: str) -> ToolStarted:
    return ToolStarted(call=CallId(f"c_{name}"), name=name, effect=Effect.ONCE, key="k")


def finished(name: str, text: str = "done", **options: bool) -> ToolFinished:
    return ToolFinished(call=CallId(f"c_{name}"), text=text, **options)


def asked(name: str, kind: QuestionKind = QuestionKind.CLIENT_TOOL, question: str = "") -> Asked:
    ident = question or f"q_{name:0<12}"
    return Asked(question=QuestionId(ident), kind=kind, text=f"{name}?", call=CallId(f"c_{name}"))


PLAIN = numbered([UserSaid(text="hi"), ModelSaid(text="Hello there"), Finished()])
LIVE: list[FeedItem] = [
    PLAIN[0],
    TextDelta(text="Hel"),
    TextDelta(text="lo the"),
    TextDelta(text="re"),
    *PLAIN[1:],
]
TOOLS = numbered(
    [
        UserSaid(text="hi"),
        calling("terminal", "_hidden", text="I look."),
        started("terminal"),
        started("_hidden"),
        finished("terminal", "a file"),
        finished("_hidden"),
        ModelSaid(text="One file.", usage=Usage(prompt=20, completion=3, cached=8, reasoning=1)),
        Finished(),
    ]
)


def test_a_plain_answer_is_one_message_told_step_by_step() -> None:
    events = stream(LIVE)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert words(events) == "Hello there"
    assert events[0]["response"]["status"] == "in_progress"
    assert events[-1]["response"] == whole(PLAIN)
    assert whole(PLAIN)["completed_at"] == int(AT.timestamp())
    assert whole(PLAIN)["output"] == [
        {
            "type": "message",
            "id": "msg_x_0",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello there", "annotations": [], "logprobs": []}],
        }
    ]


def test_own_tools_are_items_and_hidden_ones_are_not() -> None:
    answer = whole(TOOLS)
    kinds = [(item["type"], item["id"], item["status"]) for item in answer["output"]]
    assert kinds == [
        ("message", "msg_x_0", "completed"),
        ("mcp_call", "mcp_x_1", "completed"),
        ("message", "msg_x_2", "completed"),
    ]
    own = answer["output"][1]
    assert (own["server_label"], own["name"], own["arguments"]) == ("hermes", "terminal", '{"command": "ls"}')
    assert (own["output"], own["error"], own["approval_request_id"]) == ("a file", None, None)
    assert answer["usage"] == {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 38,
    }
    events = stream(TOOLS)
    assert events[-1]["response"] == answer
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == answer["output"]
    arguments = [event for event in events if "call_arguments" in event["type"]]
    assert [event.get("delta") or event.get("arguments") for event in arguments] == ['{"command": "ls"}'] * 2
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == [0, 1, 2]
    assert (added[1]["item"]["status"], added[1]["item"]["output"]) == ("in_progress", None)
    steps = [event["type"] for event in events if event["type"].startswith("response.mcp_call.")]
    assert steps == ["response.mcp_call.in_progress", "response.mcp_call.completed"]


@pytest.mark.parametrize(
    ("outcome", "status", "event"),
    [({"failed": True}, "failed", "failed"), ({"unknown": True}, "incomplete", "failed")],
)
def test_an_own_call_that_did_not_succeed_is_not_completed(
    outcome: dict[str, bool], status: str, event: str
) -> None:
    ended = [finished("terminal", "no such file", **outcome), ModelSaid(text="Hm."), Finished()]
    seen = numbered([UserSaid(text="hi"), calling("terminal"), started("terminal"), *ended])
    own = whole(seen)["output"][0]
    assert (own["status"], own["output"], own["error"]) == (status, None, "no such file")
    assert f"response.mcp_call.{event}" in [each["type"] for each in stream(seen)]


def test_a_call_that_the_turn_left_open_is_closed_as_incomplete() -> None:
    seen = numbered([UserSaid(text="hi"), calling("terminal"), started("terminal"), Failed(reason="No.")])
    events = stream(seen)
    assert [item["status"] for item in events[-1]["response"]["output"]] == ["incomplete"]
    assert [event["type"] for event in events[-2:]] == ["response.output_item.done", "response.failed"]


@pytest.mark.parametrize(
    ("records", "status", "last"),
    [
        ([ModelSaid(text="x", ending=Ending.LENGTH), Finished()], "incomplete", "response.incomplete"),
        ([Failed(reason="No model.")], "failed", "response.failed"),
        ([ModelSaid(text="x", partial=True), Stopped(reason="enough")], "cancelled", "response.incomplete"),
        ([ModelSaid(text="x"), Finished(note="by the way")], "completed", "response.completed"),
    ],
)
def test_ends(records: list[Record], status: str, last: str) -> None:
    seen = numbered([UserSaid(text="hi"), *records])
    events = stream(seen)
    answer = events[-1]["response"]
    assert (answer["status"], events[-1]["type"]) == (status, last)
    assert answer == whole(seen)
    reason = answer["incomplete_details"] and answer["incomplete_details"]["reason"]
    assert reason == ("max_output_tokens" if status == "incomplete" else None)
    assert (answer["error"] or {}).get("message") == ("No model." if status == "failed" else None)
    said = [item["content"][0]["text"] for item in answer["output"]]
    assert "".join(said) == words(events)
    assert ("by the way" in words(events)) == (status == "completed")
    if status == "cancelled":
        assert answer["output"][0]["status"] == "incomplete"


def test_a_cut_reply_goes_on_in_its_message() -> None:
    cut = ModelSaid(text="Once upon ", ending=Ending.LENGTH)
    seen = numbered([UserSaid(text="hi"), cut, ModelSaid(text="a time"), Finished()])
    (message,) = whole(seen)["output"]
    assert message["content"][0]["text"] == "Once upon a time"


APPROVAL = numbered(
    [
        UserSaid(text="hi"),
        calling("terminal", text="I will."),
        asked("terminal", QuestionKind.APPROVAL, "q_1"),
        Answered(question=QuestionId("q_1"), verdict=Verdict.ONCE),
        started("terminal"),
        finished("terminal"),
        ModelSaid(text="Done."),
        Finished(),
    ]
)


def test_a_call_that_needs_an_approval_ends_the_response_and_is_asked_for() -> None:
    waiting = whole(APPROVAL[:3])
    assert (waiting["status"], waiting["incomplete_details"]) == ("completed", None)
    assert waiting["output"][1]["content"][0]["text"].startswith("terminal?\n\nAnswer yes, session,")
    assert waiting["output"][2:] == [
        {
            "type": "mcp_approval_request",
            "id": "mcpr_q_1",
            "server_label": "hermes",
            "name": "terminal",
            "arguments": '{"command": "ls"}',
        }
    ]
    assert waiting["hermes"] == {
        "completed": False,
        "pending": {
            "id": "q_1",
            "kind": "approval",
            "text": "terminal?",
            "action": "ls",
            "options": ["once", "session", "always", "deny"],
        },
        "next": "resp_x_2",
        "run_id": "run_x",
        "session_id": "s1",
    }
    events = stream(APPROVAL)
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == waiting, "a stream ends where it waits for somebody"
    assert "hermes" not in whole(APPROVAL[:4]), "nobody is waited for any more"
    following = whole(APPROVAL, part=2)
    assert [item["type"] for item in following["output"]] == ["mcp_call", "message"]
    assert following["output"][0]["approval_request_id"] == "mcpr_q_1"
    entries = [item for item in APPROVAL if isinstance(item, Entry)]
    assert (parts_asked(entries), parts_before(entries, QuestionId("q_1"))) == (1, 1)


def test_a_question_to_a_person_is_said_as_a_message() -> None:
    seen = numbered(
        [
            UserSaid(text="hi"),
            calling("clarify"),
            Asked(
                question=QuestionId("q_1"),
                kind=QuestionKind.CLARIFY,
                text="Which?",
                call=CallId("c_clarify"),
                options=("red", "blue"),
            ),
        ]
    )
    answer = whole(seen)
    (message,) = answer["output"]
    assert (message["type"], message["status"]) == ("message", "completed")
    asked = "Which?\n\n1. red\n2. blue\n\nYour next message is the answer. (Question q_1)"
    assert message["content"][0]["text"] == asked
    assert (answer["status"], answer["hermes"]["pending"]["options"]) == ("completed", ["red", "blue"])
    assert words(stream(seen)) == asked


def test_a_turn_that_is_stopped_while_it_waits_is_cancelled() -> None:
    answer = whole(numbered([*[e.record for e in APPROVAL[:3]], Stopped(reason="enough")]))  # type: ignore[union-attr]
    assert (answer["status"], answer.get("hermes"), answer["completed_at"]) == ("cancelled", None, None)


CLIENT = numbered(
    [
        UserSaid(text="hi"),
        calling("weather", "terminal", "stocks", text="Let me see."),
        started("terminal"),
        finished("terminal", "a file"),
        asked("weather"),
        asked("stocks"),
        Answered(question=QuestionId("q_weather00000"), verdict=Verdict.REPLY, text="rain"),
        Answered(question=QuestionId("q_stocks000000"), verdict=Verdict.REPLY, text="up"),
        finished("weather", "rain"),
        finished("stocks", "up"),
        calling("weather"),
        asked("weather", question="q_again0000000"),
        Answered(question=QuestionId("q_again0000000"), verdict=Verdict.REPLY, text="sun"),
        finished("weather", "sun"),
        ModelSaid(text="Sun."),
        Finished(),
    ]
)


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        (1, ["message", "mcp_call", "function_call", "function_call"]),
        (2, ["function_call"]),
        (3, ["message"]),
    ],
)
def test_a_turn_that_asks_its_client_is_several_responses(part: int, kinds: list[str]) -> None:
    answer = whole(CLIENT, part)
    assert answer["status"] == "completed"
    assert [item["type"] for item in answer["output"]] == kinds
    events = stream(CLIENT, part=part)
    assert events[-1]["response"] == answer
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert all(item["id"].split("_", 1)[1].startswith("x") for item in answer["output"])


def test_a_part_that_has_not_come_is_in_progress() -> None:
    assert whole(CLIENT[:6], 2)["status"] == "in_progress"
    assert whole(CLIENT[:5], 1)["status"] == "in_progress", "one of the two calls is still to come"
    calls = [item["call_id"] for item in whole(CLIENT[:6])["output"] if item["type"] == "function_call"]
    assert calls == ["call_q_weather00000", "call_q_stocks000000"]
    entries = [item for item in CLIENT if isinstance(item, Entry)]
    found = [parts_before(entries, QuestionId(q)) for q in ("q_stocks000000", "q_again0000000")]
    assert found == [1, 2]


# --- numbers


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    text=st.text(alphabet="ab <>/think\n`é😀", max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    data=st.data(),
)
def test_the_story_has_the_same_numbers_however_it_is_told(
    text: str, cuts: list[int], data: st.DataObject
) -> None:
    """Whoever comes back with any number hears what follows it, once, in order, and no word is missing."""
    records = numbered([UserSaid(text="hi"), ModelSaid(text=text), Finished()])
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [TextDelta(text=text[a:b]) for a, b in itertools.pairwise(places)]
    first = stream([records[0], *pieces, *records[1:]])
    again = stream(records)
    assert first[-1] == again[-1]
    assert words(first) == words(again)
    numbers = [event["sequence_number"] for event in first]
    assert numbers == sorted(set(numbers))
    place = data.draw(st.integers(0, len(first) - 1))
    rest = stream(records, after=numbers[place])
    assert words(first[: place + 1]) + words(rest) == words(first)
    kinds = [event["type"] for event in first[place + 1 :] if "delta" not in event["type"]]
    assert [event["type"] for event in rest if "delta" not in event["type"]] == kinds
    assert all(event["sequence_number"] > numbers[place] for event in rest)


def test_coming_back_while_the_second_life_has_not_yet_said_as_much() -> None:
    first = stream(LIVE)
    heard = first[5]
    assert heard["delta"] == "lo the"
    events = ResponseEvents(fold(), after=heard["sequence_number"])
    events.since = 1
    assert events.start() == b""
    assert events.see(PLAIN[0]) == b""
    assert events.see(Reset()) == b""
    assert events.see(Snapshot(text="Hell")) == b""
    (more,) = told(events.see(TextDelta(text="o there, y")))
    assert more["delta"] == "re, y"
    assert more["sequence_number"] > heard["sequence_number"]


@pytest.mark.parametrize(
    "second",
    [
        [ModelSaid(text="Good morning to you, my friend"), Finished()],
        [ModelSaid(text="Hi"), Finished()],
        [calling("terminal"), started("terminal"), finished("terminal"), ModelSaid(text="Hi"), Finished()],
        [Failed(reason="No model.")],
    ],
)
def test_who_heard_words_that_were_lost_is_told_so(second: list[Record]) -> None:
    heard = stream(LIVE)[:6]
    seen = numbered([UserSaid(text="hi"), *second])
    rest = stream(seen, after=heard[-1]["sequence_number"], since=1)
    assert words(rest).startswith(f"\n\n{SAID_AGAIN}\n\n")
    closing = rest[3]
    assert closing["type"] == "response.output_item.done"
    assert (closing["item"]["id"], closing["item"]["status"], closing["output_index"]) == (
        heard[2]["item"]["id"],
        "incomplete",
        0,
    )
    added = [event for event in rest if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == list(range(1, len(added) + 1))
    assert rest[-1]["response"] == whole(seen)
    numbers = [event["sequence_number"] for event in heard + rest]
    assert numbers == sorted(set(numbers))


def test_a_number_that_was_never_given_brings_the_end_alone() -> None:
    (end,) = stream(PLAIN, after=10_000 << CHECK_BITS)
    assert end["type"] == "response.completed"


def test_words_that_are_said_again_come_after_those_that_went_out() -> None:
    seen: list[FeedItem] = [PLAIN[0], TextDelta(text="Heaven"), Reset(), TextDelta(text="Hello "), *PLAIN[1:]]
    events = stream(seen)
    assert words(events) == f"Heaven\n\n{SAID_AGAIN}\n\nHello there"
    assert events[-1]["response"] == whole(PLAIN)
