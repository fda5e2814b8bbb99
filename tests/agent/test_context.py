"""Transcripts as messages: valid on the wire whatever happened, and the kept encoding is the fresh one."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.chat_request import encode_messages, encode_request
from hermes.agent.context import CONTINUE, Message, Role, messages, spoken, with_ending
from hermes.domain.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
    Verdict,
)
from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.message import Attachment, MediaKind
from hermes.domain.ports import ModelRequest
from hermes.domain.tool import Effect, ToolCall
from hermes.domain.transcript import visible
from tests.agent.driving import AT

TEXTS = st.sampled_from(
    ["", " ", "hi", "Grüße 😀", "<think>hm</think>so", "<think>hm", "a\ud800b", "line\nline"]
)
IDS = st.sampled_from(["a", "b", "c"]).map(CallId)
CALLS = st.builds(
    ToolCall,
    id=IDS,
    name=st.sampled_from(["read_file", "no such tool!", "", "x" * 100]),
    arguments=st.sampled_from(["{}", '{"a": 1}', "", '{"a', "[1]", "no"]),
)
FILE = Attachment(kind=MediaKind.IMAGE, ref="r", name="cat.jpg", mime="image/jpeg", size=12)
QUESTION = QuestionId("q")
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        UserSaid,
        text=TEXTS,
        author=st.sampled_from([None, "Ann"]),
        attachments=st.sampled_from([(), (FILE,)]),
        steering=st.booleans(),
        context=st.sampled_from(["", "known: blue"]),
    ),
    st.builds(
        ModelSaid,
        text=TEXTS,
        calls=st.lists(CALLS, max_size=3).map(tuple),
        ending=st.sampled_from(Ending),
        partial=st.booleans(),
    ),
    st.builds(ToolFinished, call=IDS, text=TEXTS),
    st.builds(ToolStarted, call=IDS, name=st.just("n"), effect=st.just(Effect.READ), key=st.just("k")),
    st.just(Asked(question=QUESTION, kind=QuestionKind.APPROVAL, text="?")),
    st.just(Answered(question=QUESTION, verdict=Verdict.ONCE)),
    st.builds(Undone, since=st.integers(1, 12)),
    st.builds(Summarised, upto=st.integers(1, 12), text=st.just("before that")),
    st.sampled_from([Finished(), Failed(reason="x"), Stopped()]),
)
TRANSCRIPTS = st.lists(RECORDS, max_size=14)


def number(records: list[Record]) -> list[Entry]:
    return [
        Entry(seq=place, turn=TurnId("t"), at=AT, record=record) for place, record in enumerate(records, 1)
    ]


def request_of(entries: list[Entry], **fields: object) -> ModelRequest:
    return ModelRequest(model="m", system="s", entries=visible(entries), tools=(), **fields)


def wire(request: ModelRequest) -> list[dict]:
    return json.loads(b"[" + encode_messages(request) + b"]")


def check_valid(sent: list[dict]) -> None:
    assert sent[0]["role"] == "system"
    open_calls: list[str] = []
    before = "system"
    for message in sent[1:]:
        role, content = message["role"], message["content"]
        if role == "tool":
            assert open_calls and message["tool_call_id"] == open_calls.pop(0)
            assert content.strip()
        else:
            assert not open_calls, "a call has no result"
            assert role != before, f"two {role} messages in a row"
            assert before != "system" or role == "user", "the model speaks first"
            assert "tool_calls" in message or content.strip()
        if "tool_calls" in message:
            assert role == "assistant" and message["tool_calls"]
            open_calls = [call["id"] for call in message["tool_calls"]]
            assert len(set(open_calls)) == len(open_calls)
            for call in message["tool_calls"]:
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                assert 0 < len(call["function"]["name"]) <= 64
        before = role
    assert not open_calls


@given(
    TRANSCRIPTS, st.sampled_from(["", "  ", "said before"]), st.sampled_from(["", "[note]"]), st.booleans()
)
def test_any_transcript_is_valid_on_the_wire(
    records: list[Record], said: str, note: str, shared: bool
) -> None:
    check_valid(wire(request_of(number(records), said=said, note=note, shared=shared)))


@given(TRANSCRIPTS, st.lists(st.booleans(), min_size=14, max_size=14), st.booleans())
def test_the_kept_encoding_is_the_fresh_one(records: list[Record], asked: list[bool], shared: bool) -> None:
    memory: dict[str, object] = {}
    entries = number(records)
    for end in range(1, len(entries) + 1):
        if asked[end - 1]:
            request = request_of(entries[:end], shared=shared)
            kept = encode_request(replace(request, memory=memory, said="so far"), {"stream": True})
            assert kept == encode_request(replace(request, said="so far"), {"stream": True})
            assert encode_messages(replace(request, memory=memory)) == encode_messages(request)


def test_a_long_warm_session_encodes_only_what_is_new() -> None:
    records: list[Record] = []
    for turn in range(500):
        call = ToolCall(id=CallId(f"c{turn}"), name="read_file", arguments='{"path": "x"}')
        records += [
            UserSaid(text=f"question {turn} " * 20),
            ModelSaid(calls=(call,)),
            ToolFinished(call=call.id, text="some file " * 50),
            ModelSaid(text=f"answer {turn} " * 30),
            Finished(),
        ]
    entries = number(records)
    memory: dict[str, object] = {}
    begun = time.process_time()
    encode_messages(request_of(entries[:-5], memory=memory))
    fresh = time.process_time() - begun
    request = request_of(entries, memory=memory)
    begun = time.process_time()
    encode_messages(request)
    warm = time.process_time() - begun
    assert warm < fresh / 3, f"{warm * 1e3:.2f} ms after {fresh * 1e3:.2f} ms"


def test_results_stand_in_the_order_of_the_calls() -> None:
    calls = tuple(ToolCall(id=CallId(name), name="read_file") for name in "abc")
    results = [ToolFinished(call=CallId(name), text=f"result {name}") for name in "cab"]
    entries = number([UserSaid(text="go"), ModelSaid(text="so", calls=calls), *results])
    assert [one.text for one in messages(entries)] == ["go", "so", "result a", "result b", "result c"]


def test_pieces_of_one_answer_are_joined_without_a_seam() -> None:
    cut = ModelSaid(text="The ans", ending=Ending.LENGTH)
    entries = number([UserSaid(text="go"), cut, ModelSaid(text="wer."), Finished(), UserSaid(text="thanks")])
    assert [one.text for one in messages(entries)] == ["go", "The answer.", "thanks"]


def test_who_speaks_is_told_only_where_several_do() -> None:
    entries = number([UserSaid(text="hi", author="Ann", attachments=(FILE,), context="known: blue")])
    (private,) = messages(entries)
    assert private.text == "known: blue\n\nhi\n\n[attached: image, cat.jpg, image/jpeg, 12 bytes]"
    (shared,) = messages(entries, shared=True)
    assert "\n\n[Ann] hi\n\n" in shared.text


def test_an_unanswered_turn_and_the_next_are_one_message() -> None:
    entries = number([UserSaid(text="one"), Failed(reason="x"), UserSaid(text="two")])
    assert [one.text for one in messages(entries)] == ["one\n\ntwo"]


def test_thoughts_in_a_reply_are_not_sent_back() -> None:
    assert spoken("<think>\nhm\n</think>\n\nFour.") == "Four."
    assert spoken("<think>never closed") == ""
    assert spoken("Use the <think> tag.") == "Use the <think> tag."


def test_a_continuation_hangs_on_the_open_reply() -> None:
    tail = [Message(role=Role.ASSISTANT, text="One ")]
    ending = with_ending(tail, said="two", note=CONTINUE)
    assert [(one.role, one.text) for one in ending] == [(Role.ASSISTANT, "One two"), (Role.USER, CONTINUE)]
