"""Server-sent events: what is written is what is read, and a feed becomes the events of the API."""

from __future__ import annotations

import itertools
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.errors import Refused
from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.sse import SseEvent, SseParser, comment, encode_event, encode_json_event
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
    Retrying,
    Snapshot,
    Stopped,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSaid,
    Verdict,
)
from hermes.stream.faces.chat_chunks import ChatChunks
from hermes.stream.faces.run_events import RunEvents
from tests.stream.feeds import parse

MANY = settings(
    max_examples=2000 if os.environ.get("HERMES_TEST_SCALE") == "full" else 150,
    deadline=None,
    derandomize=True,
    database=None,
)
START = datetime(2026, 1, 2, tzinfo=UTC)


def entry(seq: int, record: Record) -> Entry:
    return Entry(seq=seq, turn=TurnId("turn_1"), at=START + timedelta(seconds=seq), record=record)


def call(id: str = "c1", name: str = "terminal", arguments: str = '{"command": "ls -l"}') -> ToolCall:
    return ToolCall(id=CallId(id), name=name, arguments=arguments)


def started(id: str = "c1", name: str = "terminal") -> ToolStarted:
    return ToolStarted(call=CallId(id), name=name, effect=Effect.ONCE, key="k")


# --- the format


@pytest.mark.parametrize(
    ("written", "wire"),
    [
        (encode_event("a"), b"data: a\n\n"),
        (encode_event(""), b"data: \n\n"),
        (encode_event("a\nb\r\nc\rd"), b"data: a\ndata: b\ndata: c\ndata: d\n\n"),
        (encode_event("x", name="n", id=7), b"event: n\nid: 7\ndata: x\n\n"),
        (encode_json_event({"a": "ä\n"}), b'data: {"a":"\\u00e4\\n"}\n\n'),
        (comment("keep\nalive"), b": keep\n: alive\n\n"),
        (encode_event("\ud800"), b"data: ?\n\n"),
    ],
)
def test_encoding(written: bytes, wire: bytes) -> None:
    assert written == wire


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
def test_a_name_or_id_cannot_break_out(bad: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        encode_event("x", name=bad)
    with pytest.raises(ValueError, match="one line"):
        encode_event("x", id=bad)


@pytest.mark.parametrize(
    ("wire", "events"),
    [
        (b"data: a\n\n", [SseEvent(data="a")]),
        (b"\xef\xbb\xbfdata: a\r\n\r\n", [SseEvent(data="a")]),
        (b"data:a\r\rdata:  b\r\r", [SseEvent(data="a"), SseEvent(data=" b")]),
        (b"data\n\ndata\ndata\n\n", [SseEvent(data=""), SseEvent(data="\n")]),
        (b": hi\n\nevent: x\n\ndata: a\n\n", [SseEvent(data="a")]),
        (b"id: 1\n\ndata: a\n\nid\ndata: b\n\n", [SseEvent(data="a", id="1"), SseEvent(data="b")]),
        (b"id: 1\nid: 2\0\ndata: a\n\n", [SseEvent(data="a", id="1")]),
        (b"foo: x\n data: y\ndata: a\n\n", [SseEvent(data="a")]),
        (b"data: \xff\xc3\xa4\n\n", [SseEvent(data="\ufffdä")]),
        (b"data: unfinished\n", []),
        (
            b": data: a\n\ndata: b\n\nevent: x\ndata: c\n\n",
            [SseEvent(data="b"), SseEvent(data="c", name="x")],
        ),
    ],
)
def test_parsing_at_every_cut(wire: bytes, events: list[SseEvent]) -> None:
    assert list(parse([wire])) == events
    assert list(parse(bytes([byte]) for byte in wire)) == events
    for place in range(len(wire) + 1):
        assert list(parse([wire[:place], b"", wire[place:]])) == events


def test_the_parser_remembers_the_id() -> None:
    parser = SseParser()
    assert parser.feed(b"id: 3\n\nretry: 50\ndata: a\n\nid: 9\n\n") == [SseEvent(data="a", id="3")]
    assert parser.last_id == "9"


def test_the_end_of_a_stream_completes_its_last_event() -> None:
    parser = SseParser()
    assert parser.feed_raw(b"data: a\n\nevent: x\ndata: \xff") == [(b"a", "message", "")]
    assert parser.close() == [(b"\xff", "x", "")]
    assert parser.close() == []


def test_an_endless_event_is_refused_but_endless_comments_are_not() -> None:
    parser = SseParser(limit=100)
    for _ in range(100):
        assert parser.feed(b": keep-alive\n") == []
    with pytest.raises(Refused):
        for _ in range(100):
            parser.feed(b"data: more\n")
    with pytest.raises(Refused):
        SseParser(limit=100).feed(b"x" * 101)


LINES = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=30)
WORDS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=12)
EVENTS = st.lists(st.tuples(LINES, st.none() | WORDS, st.none() | WORDS, st.booleans()), max_size=8)


@MANY
@given(
    EVENTS,
    st.lists(st.integers(0, 2000), max_size=20),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.booleans(),
)
def test_what_is_written_is_read(
    written: list[tuple[str, str | None, str | None, bool]], places: list[int], end: bytes, bom: bool
) -> None:
    wire, expected, last = b"\xef\xbb\xbf" if bom else b"", [], ""
    for data, name, id, noise in written:
        last = last if id is None else id
        expected.append(SseEvent(data=data, name=name or "message", id=last))
        wire += b"retry: 5\n" * noise + encode_event(data, name=name, id=id) + comment(data) * noise
    wire = wire.replace(b"\n", end)
    edges = [0, *sorted(place % (len(wire) + 1) for place in places), len(wire)]
    assert list(parse(wire[a:b] for a, b in itertools.pairwise(edges))) == expected
    assert list(parse(bytes([byte]) for byte in wire)) == expected


# --- runs


def run_events(feed: list[FeedItem], *, after: int = -1) -> list[tuple[str, dict[str, Any]]]:
    encoder = RunEvents("run_1", now=lambda: 5.0, after=after)
    found = []
    for one in parse(encoder.see(item) for item in feed):
        data = json.loads(one.data)
        assert data.pop("run_id") == "run_1"
        assert isinstance(data.pop("timestamp"), float)
        assert one.name == "message"
        found.append((one.id, data))
    return found


WITH_TOOL: list[FeedItem] = [
    entry(1, UserSaid(text="hi")),
    ThoughtDelta(text="hm"),
    Retrying(reason="busy", after=1.0),
    TextDelta(text="<think>x</think>Let me "),
    TextDelta(text="look."),
    entry(
        2, ModelSaid(text="Let me look.", thought="hm", calls=(call(),), usage=Usage(prompt=5, completion=2))
    ),
    entry(3, started()),
    entry(5, ToolFinished(call=CallId("c1"), text="out", failed=True)),
    TextDelta(text="Do"),
    TextDelta(text="ne."),
    entry(6, ModelSaid(text="Done.", usage=Usage(prompt=9, completion=1))),
    entry(7, Finished(note="a note")),
]


def test_a_run_with_a_tool() -> None:
    usage = {"input_tokens": 14, "output_tokens": 3, "total_tokens": 17}
    tool = {"tool": "terminal", "tool_call_id": "c1"}
    assert run_events(WITH_TOOL) == [
        ("1", {"event": "message.delta", "delta": "Let me "}),
        ("1", {"event": "message.delta", "delta": "look."}),
        ("2", {"event": "reasoning.available", "text": "hm"}),
        ("3", {"event": "tool.started", "preview": "ls -l", **tool}),
        ("5", {"event": "tool.completed", "duration": 2.0, "error": True, "unknown": False, **tool}),
        ("5", {"event": "message.delta", "delta": "\n\nDo"}),
        ("5", {"event": "message.delta", "delta": "ne."}),
        ("7", {"event": "run.completed", "output": "Done.", "usage": usage, "note": "a note"}),
    ]


def test_a_finished_run_is_replayed_from_its_entries() -> None:
    entries: list[FeedItem] = [item for item in WITH_TOOL if isinstance(item, Entry)]
    deltas = [data["delta"] for _, data in run_events(entries) if data["event"] == "message.delta"]
    assert deltas == ["Let me look.", "\n\nDone."]
    assert run_events([*entries, *entries]) == run_events(entries)


def test_who_comes_back_gets_only_what_is_new_and_in_place_of_what_was_half_said() -> None:
    entries: list[FeedItem] = [item for item in WITH_TOOL if isinstance(item, Entry)]
    seen = run_events(entries, after=5)
    assert [(id, data["event"]) for id, data in seen] == [("6", "message.snapshot"), ("7", "run.completed")]
    assert seen[0][1]["text"] == "Done."
    assert seen[1][1]["output"] == "Done."
    live = run_events([*entries[:4], TextDelta(text="Done.")], after=5)
    assert [data["event"] for _, data in live] == ["message.reset", "message.delta"]
    joined = run_events([*entries[:4], Snapshot(text="Do"), TextDelta(text="ne.")], after=5)
    assert [data["event"] for _, data in joined] == ["message.snapshot", "message.delta"]


def test_snapshot_reset_and_a_different_end() -> None:
    feed: list[FeedItem] = [
        Snapshot(text="Half a"),
        Reset(),
        TextDelta(text="Other"),
        entry(1, ModelSaid(text="Corrected")),
        entry(2, Stopped(reason="enough")),
    ]
    assert run_events(feed) == [
        ("", {"event": "message.snapshot", "text": "Half a"}),
        ("", {"event": "message.reset"}),
        ("", {"event": "message.delta", "delta": "Other"}),
        ("1", {"event": "message.snapshot", "text": "Corrected"}),
        ("2", {"event": "run.cancelled", "reason": "enough"}),
    ]


def test_approvals_show_the_exact_command() -> None:
    command = "rm -rf x\nrm -rf y"
    asked = Asked(question=QuestionId("q1"), kind=QuestionKind.APPROVAL, text="Sure?", call=CallId("c1"))
    feed: list[FeedItem] = [
        entry(1, ModelSaid(calls=(call(arguments=json.dumps({"command": command})),))),
        entry(2, asked),
        entry(3, Answered(question=QuestionId("q1"), verdict=Verdict.SESSION)),
        entry(4, Answered(question=QuestionId("other"), verdict=Verdict.ONCE)),
        entry(5, Failed(reason="broke")),
    ]
    request, responded, failed = (data for _, data in run_events(feed))
    assert request["command"] == command
    assert request["choices"] == ["once", "session", "always", "deny"]
    assert responded == {"event": "approval.responded", "choice": "session", "resolved": 1}
    assert failed == {"event": "run.failed", "error": "broke"}


# --- chat completions


def chat_events(feed: list[FeedItem], end: str = "") -> list[SseEvent]:
    chunks = ChatChunks(id="chatcmpl-1", model="m", created=9)
    written = [chunks.see(item) for item in feed]
    return list(parse([*written, chunks.end(end) if end else b""]))


def content(events: list[SseEvent]) -> str:
    words = ""
    for one in events:
        if one.name == "message" and one.data != "[DONE]":
            chunk = json.loads(one.data)
            assert (chunk["id"], chunk["model"], chunk["created"]) == ("chatcmpl-1", "m", 9)
            assert chunk["object"] == "chat.completion.chunk"
            words += chunk["choices"][0]["delta"].get("content", "")
    return words


def test_a_chat_stream() -> None:
    events = chat_events([*WITH_TOOL, *WITH_TOOL[4:6]])
    assert content(events) == "Let me look.\n\nDone.\n\na note"
    first, last = json.loads(events[0].data), json.loads(events[-2].data)
    assert first["choices"][0] == {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "finish_reason": None,
    }
    assert last["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert last["usage"] == {
        "prompt_tokens": 14,
        "completion_tokens": 3,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert events[-1].data == "[DONE]"
    assert {one.name for one in events} == {"message"}
    parts = [json.loads(one.data) for one in events[:-1]]
    progress = [part["hermes"] for part in parts if "hermes" in part]
    same = {
        "event": "hermes.tool.progress",
        "tool": "terminal",
        "emoji": "💻",
        "label": "ls -l",
        "toolCallId": "c1",
    }
    assert progress == [{**same, "status": "running"}, {**same, "status": "completed"}]
    silent = [{"index": 0, "delta": {}, "finish_reason": None}]
    assert all(part["choices"] == silent for part in parts if "hermes" in part)


def test_thoughts_are_told_beside_the_words_once() -> None:
    said = entry(1, ModelSaid(text="Yes.", thought="Hm, so."))
    live = [ThoughtDelta(text="Hm, "), ThoughtDelta(text="so."), TextDelta(text="Yes.")]
    for feed in ([*live, said], [said]):
        events = chat_events([*feed, entry(2, Finished())])
        deltas = [json.loads(one.data)["choices"][0]["delta"] for one in events[:-1]]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm, so."
        assert content(events) == "Yes."
        assert [key for delta in deltas for key in delta][-2:] == ["reasoning_content", "content"]


def reasoning(events: list[SseEvent]) -> str:
    deltas = [json.loads(one.data)["choices"][0]["delta"] for one in events[:-1]]
    return "".join(delta.get("reasoning_content", "") for delta in deltas)


def test_thoughts_between_tags_are_told_like_those_beside_the_text() -> None:
    first = entry(1, ModelSaid(text="<think>\nHm, so.</think>\n\nYes.", calls=(call(),)))
    live = [TextDelta(text=piece) for piece in ("<thi", "nk>\nHm, ", "so.</th", "ink>\n", "\nYes.")]
    second = entry(2, ModelSaid(text="<think>Sure?</think>Quite."))
    feeds: tuple[list[FeedItem], ...] = (
        [*live, first],
        [first],
        [*live[:2], first],
        [Snapshot(text="<think>Hm, "), *live[2:3], first],
    )
    for feed in feeds:
        events = chat_events([*feed, second, entry(3, Finished())])
        assert reasoning(events) == "Hm, so.\n\nSure?"
        assert content(events) == "Yes.\n\nQuite."
    told = run_events([*live, first])
    assert [data["text"] for _, data in told if data["event"] == "reasoning.available"] == ["Hm, so."]


def test_who_joins_late_or_reads_slowly_is_told_every_thought_once() -> None:
    said = entry(1, ModelSaid(text="Yes, <b>.", thought="Hm, so."))
    joined: list[FeedItem] = [Snapshot(text="Yes", thought="Hm, "), ThoughtDelta(text="so."), said]
    slow: list[FeedItem] = [ThoughtDelta(text="Hm"), said]
    for feed in (joined, slow):
        events = chat_events([*feed, entry(2, Finished())])
        assert (reasoning(events), content(events)) == ("Hm, so.", "Yes, <b>.")


def test_nothing_is_added_to_an_answer_that_is_data() -> None:
    chunks = ChatChunks(id="chatcmpl-1", model="m", created=9, data=True)
    feed: list[FeedItem] = [entry(1, ModelSaid(text="{}")), entry(2, Finished(note="interrupted"))]
    events = list(parse([chunks.see(item) for item in feed]))
    assert content(events) == "{}"
    assert json.loads(events[-2].data)["hermes"] == {"completed": True, "note": "interrupted"}


@pytest.mark.parametrize(
    ("replies", "written"),
    [
        ((("Let me look.", True), ('{"a": 1}', False)), '{"a": 1}'),
        ((("Let me look.", True), ("Sorry, no.", False)), "Sorry, no."),
        (((" \n[1]", False),), " \n[1]"),
    ],
)
def test_words_before_a_call_are_no_part_of_an_answer_that_is_data(
    replies: tuple[tuple[str, bool], ...], written: str
) -> None:
    for live in (True, False):
        chunks = ChatChunks(id="chatcmpl-1", model="m", created=9, data=True)
        feed: list[FeedItem] = []
        for number, (text, calls) in enumerate(replies, 1):
            feed += [TextDelta(text=letter) for letter in text if live]
            feed.append(entry(number, ModelSaid(text=text, calls=(call(),) if calls else ())))
        events = list(parse([chunks.see(item) for item in [*feed, entry(9, Finished())]]))
        assert content(events).strip() == written.strip()
        assert sum("content" in str(each.data) for each in events) > 2 or not live or "{" not in written


def test_json_is_told_as_it_comes() -> None:
    chunks = ChatChunks(id="chatcmpl-1", model="m", created=9, data=True)
    pieces = [chunks.see(TextDelta(text=text)) for text in (" ", '{"a"', ": 1")]
    assert [bool(piece) for piece in pieces] == [False, True, True]


@pytest.mark.parametrize(
    ("last", "reason", "hermes"),
    [
        (Finished(), "length", None),
        (Stopped(reason="x"), "stop", {"failed": False, "error": "x", "error_code": "agent_stopped"}),
    ],
)
def test_how_a_chat_stream_ends(last: Record, reason: str, hermes: dict[str, object] | None) -> None:
    events = chat_events([entry(1, ModelSaid(text="Half", ending=Ending.LENGTH)), entry(2, last)])
    chunk = json.loads(events[-2].data)
    assert content(events) == "Half"
    assert chunk["choices"][0]["finish_reason"] == reason
    assert chunk.get("hermes") == (hermes and {"completed": False, "partial": True, **hermes})


def test_words_that_went_out_are_said_again_visibly() -> None:
    feed: list[FeedItem] = [
        TextDelta(text="Half"),
        Reset(),
        TextDelta(text="Whole"),
        entry(1, ModelSaid(text="Whole")),
    ]
    assert content(chat_events(feed)) == "Half\n\n— interrupted, saying it again —\n\nWhole"
    assert content(chat_events([Reset(), *feed[2:]])) == "Whole"


def test_a_client_tool_and_a_question() -> None:
    wanted = Asked(question=QuestionId("q"), kind=QuestionKind.CLIENT_TOOL, text="", call=CallId("c1"))
    asked = Asked(question=QuestionId("r"), kind=QuestionKind.CLARIFY, text="Which?", options=("a", "b"))
    events = chat_events([entry(1, ModelSaid(calls=(call(),))), entry(2, wanted)])
    calls = json.loads(events[1].data)["choices"][0]["delta"]["tool_calls"]
    function = {"name": "terminal", "arguments": '{"command": "ls -l"}'}
    assert calls == [{"index": 0, "id": "call_q", "type": "function", "function": function}]
    assert events[-1].data == "[DONE]"
    assert json.loads(events[-2].data)["choices"][0]["finish_reason"] == "tool_calls"
    assert not chat_events([entry(1, asked)]), "its door says it, if it waits for the answer"
    chunks = ChatChunks(id="chatcmpl-1", model="m", created=9)
    events = list(parse([chunks.see(TextDelta(text="Hm.")), chunks.ask("Which?", {"run_id": "r"})]))
    assert content(events) == "Hm.\n\nWhich?"
    last = json.loads(events[-2].data)
    assert (last["choices"][0]["finish_reason"], last["hermes"]) == ("stop", {"run_id": "r"})


@pytest.mark.parametrize("end", [Failed(reason="broke"), Stopped(reason="x")])
def test_a_chat_stream_without_an_answer_ends_with_an_error(end: Failed | Stopped) -> None:
    chunks = ChatChunks(id="chatcmpl-1", model="m", created=9)
    assert chunks.see(entry(1, end)) == b"" and chunks.ended and chunks.lost == end
    error = {"error": {"message": "broke"}}
    assert [one.data for one in parse([chunks.fail(error)])] == ['{"error":{"message":"broke"}}', "[DONE]"]


def test_a_chat_stream_ends_with_the_last_call_that_is_asked_of_the_client() -> None:
    calls = tuple(call(id=f"c{place}") for place in range(1, 4))
    wanted = [
        Asked(question=QuestionId(f"q_{one.id}"), kind=QuestionKind.CLIENT_TOOL, text="", call=one.id)
        for one in calls[1:]
    ]
    feed: list[FeedItem] = [
        entry(1, ModelSaid(calls=calls)),
        entry(2, started()),
        entry(3, ToolFinished(call=CallId("c1"), text="ok")),
        entry(4, wanted[0]),
    ]
    assert chat_events(feed)[-1].data != "[DONE]"
    chunks = ChatChunks(id="chatcmpl-1", model="m", created=9)
    events = list(parse([chunks.see(item) for item in [*feed, entry(5, wanted[1]), entry(6, Finished())]]))
    assert chunks.ended and chunks.seq == 5
    asked = [json.loads(one.data)["choices"][0]["delta"] for one in events[:-1] if one.name == "message"]
    ids = [(part["index"], part["id"]) for delta in asked for part in delta.get("tool_calls", [])]
    assert ids == [(0, "call_q_c2"), (1, "call_q_c3")]
    assert [json.loads(events[-2].data)["choices"][0]["finish_reason"], events[-1].data] == [
        "tool_calls",
        "[DONE]",
    ]


def test_a_chat_stream_that_goes_on_with_a_turn_tells_only_what_is_new() -> None:
    """The first stream ended with an approval; the calls that are asked of the client come afterwards."""
    calls = (call(), call(id="c2"), call(id="c3"))
    may_i = Asked(question=QuestionId("q_0"), kind=QuestionKind.APPROVAL, text="May I?", call=CallId("c1"))
    wanted = [
        Asked(question=QuestionId(f"q_{one.id}"), kind=QuestionKind.CLIENT_TOOL, text="", call=one.id)
        for one in calls[1:]
    ]
    feed: list[FeedItem] = [
        entry(1, ModelSaid(text="Let me ask.", calls=calls)),
        entry(2, may_i),
        entry(3, Answered(question=QuestionId("q_0"), verdict=Verdict.ONCE)),
        entry(4, started()),
        entry(5, ToolFinished(call=CallId("c1"), text="ok")),
        entry(6, wanted[0]),
        entry(7, wanted[1]),
    ]
    chunks = ChatChunks(id="chatcmpl-1", model="m", created=9, after=2)
    events = list(parse([chunks.see(item) for item in feed]))
    assert chunks.ended and content(events) == ""
    deltas = [json.loads(one.data)["choices"][0]["delta"] for one in events[:-1] if one.name == "message"]
    assert [part["id"] for delta in deltas for part in delta.get("tool_calls", [])] == [
        "call_q_c2",
        "call_q_c3",
    ]
    again = ChatChunks(id="chatcmpl-1", model="m", created=9, after=7)
    results: list[FeedItem] = [
        entry(8, ToolFinished(call=CallId("c2"), text="x")),
        entry(9, ToolFinished(call=CallId("c3"), text="y")),
        entry(10, ModelSaid(text="Both.")),
        entry(11, Finished()),
    ]
    assert content(list(parse([again.see(item) for item in [*feed, *results]]))) == "Both."


@MANY
@given(st.lists(st.text(max_size=8), max_size=20))
def test_a_chat_stream_carries_every_word(pieces: list[str]) -> None:
    text = "".join(pieces)
    feed: list[FeedItem] = [TextDelta(text=piece) for piece in pieces]
    said = content(chat_events([*feed, entry(1, ModelSaid(text=text)), entry(2, Finished())]))
    assert said == (text if "<" not in text else said).lstrip("\n")
