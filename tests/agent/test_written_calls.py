"""Calls that a model wrote into its text instead of making them."""

from __future__ import annotations

import json

import pytest

from hermes.agent.call_repair import may_be_written_call, written_call
from hermes.agent.models.assembly import ReplyAssembly, ReplyBody
from hermes.agent.models.formats.chat_completions.reply import ChatReader
from hermes.domain.turns.event import Ending, TextDelta

TOOLS = ["read_file", "write_file", "terminal"]
CALL = '{"name": "read_file", "arguments": {"path": "a.txt"}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"```json\n{CALL}\n```",
        f"\n```\n{CALL}\n```\n",
        f"<tool_call>\n{CALL}\n</tool_call>",
        '{"name": "read_file", "parameters": {"path": "a.txt"}}',
        '{"name": "readFile", "arguments": {"path": "a.txt",}}',
    ],
)
def test_a_reply_that_is_a_call(text: str) -> None:
    call = written_call(text, TOOLS)
    assert call is not None and call.name == "read_file"
    assert json.loads(call.arguments) == {"path": "a.txt"}
    assert all(may_be_written_call(text[:end]) for end in range(len(text)))


@pytest.mark.parametrize(
    "text",
    [
        f"I would call it so:\n```json\n{CALL}\n```",
        f"```json\n{CALL}\n```\nThat is how it is called.",
        f"```json\n{CALL}\n```\n```json\n{CALL}\n```",
        '{"name": "Ann Lee", "arguments": {}}',
        '{"name": "read_file", "arguments": {}, "response": "x"}',
        '{"name": "read_file", "arguments": "a.txt"}',
        '{"name": "read_file"}',
        CALL[:-1],
        "[]",
        "",
    ],
)
def test_words_about_a_call_are_no_call(text: str) -> None:
    assert written_call(text, TOOLS) is None


def test_a_call_of_a_tool_that_is_not_there_is_a_call() -> None:
    call = written_call('{"name": "list_files", "arguments": {}}', TOOLS)
    assert call is not None and call.name == "list_files"


def heard(text: str, tools: list[str], step: int = 3) -> tuple[list[str], ReplyAssembly]:
    reply = ReplyAssembly(most_text=10_000, most_calls=8, tools=tools)
    body = ReplyBody(reply, ChatReader(reply).take, text=10_000, wire=1_000_000)
    pieces = []
    for at in range(0, len(text), step):
        chunk = {"choices": [{"delta": {"content": text[at : at + step]}}]}
        pieces += body.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    pieces += body.feed(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    pieces += body.close()
    return [piece.text for piece in pieces if isinstance(piece, TextDelta)], reply


def test_a_written_call_is_not_shown() -> None:
    words, reply = heard(f"```json\n{CALL}\n```", TOOLS)
    end = reply.end()
    assert not words and end.ending is Ending.CALLS
    assert [(call.name, call.arguments) for call in end.calls] == [("read_file", '{"path": "a.txt"}')]


@pytest.mark.parametrize(
    "text", ["Hello there.", '```json\n{"a": 1}\n``` is JSON.', f"{CALL} – so.", CALL[:-1]]
)
def test_other_words_arrive_whole(text: str) -> None:
    words, reply = heard(text, TOOLS)
    assert "".join(words) == text and not reply.end().calls


def test_words_that_cannot_become_a_call_are_not_held_back() -> None:
    assert len(heard("Hello there, and more.", TOOLS)[0]) > 3
    assert len(heard('{"title": "x", "more": ' + "1" * 200 + "}", TOOLS)[0]) > 3


def test_without_tools_a_written_call_stays_text() -> None:
    words, reply = heard(CALL, [])
    assert "".join(words) == CALL and not reply.end().calls
