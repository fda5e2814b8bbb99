"""Transcripts as messages: valid on the wire whatever happened, and the kept encoding is the fresh one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.context.transcript_messages import CONTINUE, ModelMessage, Role, messages, with_ending
from hermes.agent.models.assembly import ReplyAssembly
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.anthropic_messages import request as anthropic
from hermes.agent.models.formats.chat_completions.reply import ChatReader
from hermes.agent.models.formats.chat_completions.request import encode_messages, encode_request
from hermes.agent.models.formats.responses import request as responses
from hermes.agent.run.progress import is_empty
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    Finished,
    Kept,
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
from hermes.domain.turns.transcript import visible
from hermes.domain.turns.turn import EarlierMessage, Speaker
from hermes.domain.word import replace
from hermes.stream.fold.answer import answer_text
from tests.agent.driving import AT
from tests.effort import effort

ENDPOINT = ModelEndpoint(base_url="")

TEXTS = st.sampled_from(
    [
        "",
        " ",
        "hi",
        "Grüße 😀",
        "<think>hm</think>so",
        "<thought>hm</thought>",
        "<think>hm",
        "a\ud800b",
        "line\nline",
    ]
)
IDS = st.sampled_from(["a", "b", "c"]).map(CallId)
CALLS = st.builds(
    ToolCall,
    id=IDS,
    name=st.sampled_from(["read_file", "no such tool!", "", "x" * 100]),
    arguments=st.sampled_from(["{}", '{"a": 1}', "", '{"a', "[1]", "no"]),
)
PICTURES = (
    Attachment(kind=MediaKind.IMAGE, ref="https://example.org/cat.png"),
    Attachment(kind=MediaKind.IMAGE, ref="r", mime="image/png", sha256="ab"),
    Attachment(kind=MediaKind.IMAGE, ref="r", mime="image/png", sha256="lost"),
)
FILE = Attachment(kind=MediaKind.IMAGE, ref="r", name="cat.jpg", mime="image/jpeg", size=12)
QUESTION = QuestionId("q")
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        UserSaid,
        text=TEXTS,
        author=st.sampled_from([None, "Ann"]),
        attachments=st.sampled_from([(), (FILE,), PICTURES[:1], PICTURES]),
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
    st.builds(
        ToolFinished,
        call=IDS,
        text=TEXTS,
        attachments=st.sampled_from([(), (FILE,), PICTURES]),
        outside=st.booleans(),
    ),
    st.builds(ToolStarted, call=IDS, name=st.just("n"), effect=st.just(Effect.READ), key=st.just("k")),
    st.just(Asked(question=QUESTION, kind=QuestionKind.APPROVAL, text="?")),
    st.just(Answered(question=QUESTION, verdict=Verdict.ONCE)),
    st.builds(Undone, since=st.integers(1, 12)),
    st.builds(Summarised, upto=st.integers(1, 12), text=st.just("before that")),
    st.sampled_from([Finished(), Failed(reason="x"), Stopped()]),
)
TRANSCRIPTS = st.lists(RECORDS, max_size=14)
HISTORIES = st.lists(
    st.builds(
        EarlierMessage,
        by=st.sampled_from(Speaker),
        text=TEXTS,
        calls=st.lists(CALLS, max_size=2).map(tuple),
        call=st.none() | IDS,
        attachments=st.sampled_from([(), PICTURES[1:]]),
    ),
    max_size=6,
).map(tuple)
IMAGES = {"ab": "data:image/png;base64,AAAA"}


def number(records: list[Record]) -> list[Entry]:
    return [
        Entry(seq=place, turn=TurnId("t"), at=AT, record=record) for place, record in enumerate(records, 1)
    ]


def request_of(entries: list[Entry], **fields: object) -> ModelRequest:
    return ModelRequest(model="m", system="s", entries=visible(entries), tools=(), **fields)


def wire(request: ModelRequest) -> list[dict]:
    return json.loads(b"[" + encode_messages(request) + b"]")


def has_content(content: str | list[dict]) -> bool:
    """Words, or parts of which the first is words if there are any and none is empty."""
    if isinstance(content, str):
        return bool(content.strip())
    kinds = [part["type"] for part in content]
    assert kinds and kinds == sorted(kinds, reverse=True) and kinds.count("text") <= 1
    return all(part["text"].strip() if "text" in part else part["image_url"]["url"] for part in content)


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
            assert role != before or before == "system", f"two {role} messages in a row"
            assert before != "system" or role in ("user", "system"), "the model speaks first"
            assert "tool_calls" in message or has_content(content)
            role = "instructions" if role == "system" else role
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
    TRANSCRIPTS,
    st.sampled_from(["", "  ", "said before"]),
    st.sampled_from(["", "[note]"]),
    st.booleans(),
    HISTORIES,
)
def test_any_transcript_is_valid_on_the_wire(
    records: list[Record], said: str, note: str, shared: bool, history: tuple[EarlierMessage, ...]
) -> None:
    request = request_of(number(records), spoken=said, note=note, shared=shared)
    check_valid(wire(replace(request, history=history, images=IMAGES)))


@given(
    TRANSCRIPTS,
    st.lists(st.booleans(), min_size=14, max_size=14),
    st.booleans(),
    st.lists(HISTORIES, min_size=14, max_size=14),
)
def test_the_kept_encoding_is_the_fresh_one(
    records: list[Record], asked: list[bool], shared: bool, histories: list[tuple[EarlierMessage, ...]]
) -> None:
    memory: dict[str, object] = {}
    entries = number(records)
    for end in range(1, len(entries) + 1):
        if asked[end - 1]:
            request = request_of(entries[:end], shared=shared, history=histories[end - 1], images=IMAGES)
            for encode in (encode_request, anthropic.encode_request, responses.encode_request):
                kept = encode(replace(request, memory=memory, spoken="so far"), ENDPOINT)
                assert kept == encode(replace(request, spoken="so far"), ENDPOINT)
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
    earlier = request_of(entries[:-5], memory=memory)
    request = request_of(entries, memory=memory)
    fresh = effort(lambda: encode_messages(earlier))
    assert effort(lambda: encode_messages(request)) < fresh / 20


def test_a_warm_session_costs_no_more_for_what_a_client_tells_each_time() -> None:
    """The transcript's bytes stay kept, however the history before it changes."""
    talk = [UserSaid(text="question " * 40), ModelSaid(text="answer " * 40), Finished()]
    entries = number(talk * 2_000)
    memory: dict[str, object] = {}
    first = request_of(entries, memory=memory)
    fresh = effort(lambda: encode_messages(first))
    for turn in range(5):
        history = (EarlierMessage(by=Speaker.USER, text=f"words of turn {turn}"),)
        request = request_of(entries, memory=memory, history=history)
        sent: list[bytes] = []
        assert effort(lambda: sent.append(encode_messages(request))) < fresh / 20  # noqa: B023
        assert f"words of turn {turn}".encode() in sent[0]


def test_pictures_are_not_kept_with_a_warm_session() -> None:
    picture = "data:image/png;base64," + "A" * 100_000
    said = UserSaid(text="look", attachments=(PICTURES[1],))
    entries = number([said, ModelSaid(text="a cat"), UserSaid(text="and now?")])
    memory: dict[str, object] = {}
    request = request_of(entries, memory=memory, images={"ab": picture})
    for _ in range(2):
        assert picture.encode() in encode_messages(request)
        assert "A" * 100 not in repr(memory["encoded.chat_completions"])
    gone = wire(request_of(entries, memory=memory))
    (words,) = gone[1]["content"]
    assert words["text"].startswith("look") and "could not be fetched" in words["text"]


def test_what_a_service_wants_back_goes_to_the_same_model_in_the_same_format() -> None:
    call = ToolCall(id=CallId("c1"), name="look")
    details = [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]
    text = json.dumps({"reasoning_details": details, "extra_content": {"c1": {"google": {"thought": "x"}}}})
    kept = Kept(format="chat_completions", model="m", text=text)
    records = [UserSaid(text="a"), ModelSaid(calls=(call,), kept=kept), ToolFinished(call=call.id, text="b")]
    entries = number(records)
    memory: dict[str, object] = {}
    request = request_of(entries, memory=memory)
    (said,) = (one for one in wire(request) if one["role"] == "assistant")
    assert said["reasoning_details"] == details
    assert said["tool_calls"][0]["extra_content"] == {"google": {"thought": "x"}}
    other = replace(request, model="n")
    (said,) = (one for one in wire(other) if one["role"] == "assistant")
    assert set(said) == {"role", "content", "tool_calls"} and "extra_content" not in said["tool_calls"][0]
    assert wire(request) == wire(request_of(entries)), "back with the first model it is as before"


def test_only_replies_with_calls_bring_back_their_thoughts_as_words() -> None:
    """DeepSeek wants them back with calls, and refused them, or ignores them, without."""

    def heard(delta: dict) -> Kept | None:
        reply = ReplyAssembly(model="m")
        reader = ChatReader(reply)
        for said in ({"reasoning_content": "first "}, {"reasoning_content": "second"}, delta):
            reader.take(json.dumps({"choices": [{"delta": said}]}).encode())
        reader.take(b'{"choices": [{"delta": {}, "finish_reason": "stop"}]}')
        return reply.end().kept

    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}
    kept = heard({"content": "Wait.", "tool_calls": [call]})
    assert kept is not None and json.loads(kept.text) == {"reasoning_content": "first second"}
    assert heard({"content": "Done."}) is None


def test_a_streamed_block_goes_back_whole() -> None:
    reply = ReplyAssembly(model="m")
    reader = ChatReader(reply)
    blocks = (
        {"type": "reasoning.text", "index": 0, "text": "two ", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "and two"},
        {"type": "reasoning.text", "index": 0, "signature": "sealed"},
        {"type": "reasoning.encrypted", "index": 1, "data": "QQ"},
        {"type": "reasoning.summary", "summary": "no index"},
    )
    for block in blocks:
        reader.take(json.dumps({"choices": [{"delta": {"reasoning_details": [block, 7]}}]}).encode())
    reader.take(b'{"choices": [{"delta": {"content": "four"}, "finish_reason": "stop"}]}')
    kept = reply.end().kept
    assert kept is not None
    assert json.loads(kept.text)["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "two and two", "signature": "sealed"},
        *blocks[3:],
    ]


def test_history_stands_before_the_transcript_and_its_last_words_join_the_first() -> None:
    history = (
        EarlierMessage(by=Speaker.AGENT, text="Hello."),
        EarlierMessage(by=Speaker.TOOL, call=CallId("nobody's"), text="lost"),
        EarlierMessage(by=Speaker.USER, text="Look it up."),
        EarlierMessage(by=Speaker.AGENT, calls=(ToolCall(id=CallId("c1"), name="look"),)),
        EarlierMessage(by=Speaker.TOOL, call=CallId("c1"), text="found"),
        EarlierMessage(by=Speaker.USER, text="Thanks."),
    )
    sent = wire(request_of(number([UserSaid(text="And now?")]), history=history))
    assert [(one["role"], one["content"]) for one in sent] == [
        ("system", "s"),
        ("user", "(The conversation goes on.)"),
        ("assistant", "Hello."),
        ("user", "Look it up."),
        ("assistant", None),
        ("tool", "found"),
        ("user", "Thanks.\n\nAnd now?"),
    ]
    entries = number([UserSaid(text="And now?"), ModelSaid(text="Now."), UserSaid(text="More.")])
    sent = wire(request_of(entries, history=history[-1:]))
    assert [one["content"] for one in sent] == ["s", "Thanks.\n\nAnd now?", "Now.", "More."]


def test_images_are_parts_beside_the_words() -> None:
    said = UserSaid(text="what is this?", attachments=(*PICTURES, FILE))
    (_, sent) = wire(request_of(number([said]), images=IMAGES))
    words, *shown = sent["content"]
    assert [part["image_url"]["url"] for part in shown] == ["https://example.org/cat.png", IMAGES["ab"]]
    assert words["text"].startswith("what is this?\n\n[attached: image, cat.jpg, image/jpeg, 12 bytes]")
    assert words["text"].count("could not be fetched") == 1


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


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("<think>\nhm\n</think>\n\nFour.", ["Four."]),
        ("<thought>hm</thought>Four.", ["Four."]),
        ("<REASONING_SCRATCHPAD>hm</REASONING_SCRATCHPAD> Four.", ["Four."]),
        ("Two.\n<reasoning>or three</reasoning>\nFour.", ["Two.\nFour."]),
        ("<think>never closed", []),
        ("<thought>only this</thought>\n", []),
        ("Use the <think> tag.", ["Use the <think> tag."]),
    ],
)
def test_thoughts_in_a_reply_are_not_sent_back_and_are_no_answer(text: str, sent: list[str]) -> None:
    """What is shown to people, counted as an answer and sent back is one and the same."""
    told = messages(number([UserSaid(text="q"), ModelSaid(text=text)]))
    assert [one.text for one in told if one.role is Role.ASSISTANT] == sent
    assert is_empty(ModelSaid(text=text)) is (not sent)
    shown = answer_text(number([UserSaid(text="q"), ModelSaid(text=text), Finished()]))
    assert [shown] == sent or (not sent and not shown)


def test_replies_that_follow_each_other_are_one_without_empty_paragraphs() -> None:
    calls = (ToolCall(id=CallId("a"), name="read_file", arguments="{}"),)
    entries = [UserSaid(text="q"), ModelSaid(text=""), ModelSaid(text="<think>hm</think>")]
    entries += [ModelSaid(text="One."), ModelSaid(text=""), ModelSaid(text="Two.")]
    replies = [
        one for one in messages(number([*entries, ModelSaid(calls=calls)])) if one.role is Role.ASSISTANT
    ]
    assert [(one.text, one.calls) for one in replies] == [("One.\n\nTwo.", calls)]


def test_a_continuation_hangs_on_the_open_reply() -> None:
    tail = [ModelMessage(role=Role.ASSISTANT, text="One ")]
    ending = with_ending(tail, spoken="two", note=CONTINUE)
    assert [(one.role, one.text) for one in ending] == [(Role.ASSISTANT, "One two"), (Role.USER, CONTINUE)]
