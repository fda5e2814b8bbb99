"""The demo model's rules: the same transcript gives the same reply, and it says once what it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from hermes.agent.models.demo import FOOTER, DemoProvider, demo_reply
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import CallId, TurnId
from hermes.domain.models.call_options import NO_OPTIONS, CallOptions, JsonAnswer
from hermes.domain.ports.agent import ModelEnd, ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Ending, Entry, ModelSaid, Record, TextDelta, ToolFinished, UserSaid
from hermes.testing.provider_suite import PORT_CHECKS

TOOLS = ("read_file", "write_file", "search_files", "session_search", "terminal", "clarify", "todo")


def finished(text: str, *, failed: bool = False, unknown: bool = False) -> ToolFinished:
    return ToolFinished(call=CallId("c"), text=text, failed=failed, unknown=unknown)


def entries(*records: Record) -> list[Entry]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Entry(seq=seq, turn=TurnId("t"), at=at, record=record) for seq, record in enumerate(records, start=1)
    ]


@pytest.mark.parametrize(
    ("words", "tool", "arguments"),
    [
        ("list files", "read_file", {"path": "."}),
        ("What is here?", "read_file", {"path": "."}),
        ("ls src", "read_file", {"path": "src"}),
        ("list the files in src", "read_file", {"path": "src"}),
        ("read README.md", "read_file", {"path": "README.md"}),
        ("show me the file `a b.txt`", "read_file", {"path": "a b.txt"}),
        ("write notes.txt: buy milk", "write_file", {"path": "notes.txt", "content": "buy milk\n"}),
        ("create a file n.md with one\ntwo", "write_file", {"path": "n.md", "content": "one\ntwo\n"}),
        ("write buy milk to notes.txt", "write_file", {"path": "notes.txt", "content": "buy milk\n"}),
        ("run: ls -la | wc -l", "terminal", {"command": "ls -la | wc -l"}),
        ("Run: read x", "terminal", {"command": "read x"}),
        ("$ date", "terminal", {"command": "date"}),
        ("find TODO (now)", "search_files", {"pattern": r"TODO\ \(now\)"}),
        ("find *.py", "search_files", {"pattern": "*.py", "target": "files"}),
        ("search history milk", "session_search", {"query": "milk"}),
        ('Search the history for: "red apples"', "session_search", {"query": '"red apples"'}),
        ("what did I say about the red apples?", "session_search", {"query": "red apples"}),
        ("What have I told you about Kant?!", "session_search", {"query": "Kant"}),
    ],
)
def test_words_become_calls(words: str, tool: str, arguments: dict[str, object]) -> None:
    reply = demo_reply(entries(UserSaid(text=words)), TOOLS)
    assert [call.name for call in reply.calls] == [tool]
    assert json.loads(reply.calls[0].arguments) == arguments
    assert reply == demo_reply(entries(UserSaid(text=words)), TOOLS)


def test_two_files_are_read_together() -> None:
    reply = demo_reply(entries(UserSaid(text="read a.txt and b.txt")), TOOLS)
    assert [json.loads(call.arguments)["path"] for call in reply.calls] == ["a.txt", "b.txt"]
    assert len({call.id for call in reply.calls}) == 2


def test_questions_and_plans() -> None:
    ask = demo_reply(entries(UserSaid(text="ask me something")), TOOLS)
    assert ask.calls[0].name == "clarify" and json.loads(ask.calls[0].arguments)["options"]
    plan = demo_reply(entries(UserSaid(text="todo: wash, dry")), TOOLS)
    items = json.loads(plan.calls[0].arguments)["items"]
    assert [(item["text"], item["status"]) for item in items] == [("wash", "in_progress"), ("dry", "pending")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("help", "list files"),
        ("hello!", "list files"),
        ("what do you think of Kant", "only know a few phrases"),
        ("", "only know a few phrases"),
        ("count to 12", "1 2 3 4 5 6 7 8 9 10 11 12"),
        ("count to 0", "1\n"),
        ("count to 999999999", " 1000\n"),
    ],
)
def test_plain_answers_say_what_they_are(words: str, told: str) -> None:
    reply = demo_reply(entries(UserSaid(text=words)), TOOLS)
    assert told in reply.text and reply.text.endswith(f"\n\n{FOOTER}") and not reply.calls
    assert "not an AI" in FOOTER and "hermes setup" in FOOTER


def test_a_tool_that_is_switched_off_is_told_of() -> None:
    reply = demo_reply(entries(UserSaid(text="run: ls")), ("read_file",))
    assert "`terminal`" in reply.text and not reply.calls and reply.text.endswith(FOOTER)


@pytest.mark.parametrize(
    ("name", "arguments", "result", "told"),
    [
        ("terminal", {"command": "ls"}, finished("a\nb"), "I ran `ls`:\n\n```\na\nb\n```"),
        ("read_file", {"path": "x"}, finished("````\n"), "`````\n````\n`````"),
        ("clarify", {}, finished("blue"), "You answered: blue"),
        ("session_search", {"query": "a b"}, finished("x"), "I searched for `a b`:\n\n```\nx\n```"),
        ("terminal", {}, finished("Denied", failed=True), "did not work: Denied"),
        ("terminal", {}, finished("?", failed=True, unknown=True), "did not repeat it"),
        ("read_file", {"path": "x"}, finished("y" * 9999), "the rest is not shown"),
    ],
)
def test_results_are_told(name: str, arguments: dict[str, str], result: ToolFinished, told: str) -> None:
    call = ToolCall(id=CallId("c"), name=name, arguments=json.dumps(arguments))
    said = entries(UserSaid(text="go"), ModelSaid(calls=(call,)), result)
    reply = demo_reply(said, ())
    assert told in reply.text and reply.text.endswith(FOOTER) and not reply.calls


def test_words_that_steer_are_a_new_wish() -> None:
    call = ToolCall(id=CallId("c"), name="read_file", arguments='{"path": "x"}')
    done = finished("text")
    said = entries(
        UserSaid(text="read x"), ModelSaid(calls=(call,)), done, UserSaid(text="run: ls", steering=True)
    )
    assert demo_reply(said, TOOLS).calls[0].name == "terminal"


async def hear(text: str, said: str = "", options: CallOptions = NO_OPTIONS) -> tuple[list[str], ModelEnd]:
    request = ModelRequest(
        model="demo",
        system="",
        entries=entries(UserSaid(text=text)),
        tools=(),
        spoken=said,
        options=options,
    )
    pieces = [piece async for piece in DemoProvider(delay=0).call(request)]
    end = pieces.pop()
    assert isinstance(end, ModelEnd)
    return [piece.text for piece in pieces if isinstance(piece, TextDelta)], end


async def test_it_speaks_word_by_word() -> None:
    pieces, end = await hear("count to 20")
    whole = demo_reply(entries(UserSaid(text="count to 20")), ()).text
    assert "".join(pieces) == whole and len(pieces) == 21 and end.model == "demo"
    assert len((await hear("help"))[0]) <= 61


async def test_it_ends_where_the_client_wants_it_to() -> None:
    pieces, end = await hear("count to 20", options=CallOptions(max_tokens=3))
    assert ("".join(pieces), end.ending, end.usage.completion) == ("1 2 3 ", Ending.LENGTH, 3)
    pieces, end = await hear("count to 20", options=CallOptions(stop=("9", "5")))
    assert ("".join(pieces), end.ending) == ("1 2 3 4 ", Ending.STOP)


@pytest.mark.parametrize("options", [CallOptions(json=JsonAnswer()), CallOptions(must_call=("get_weather",))])
async def test_what_it_cannot_do_is_refused(options: CallOptions) -> None:
    with pytest.raises(ModelFault, match="set up a real model") as refused:
        await hear("hello", options=options)
    assert refused.value.kind is FaultKind.BAD_REQUEST and refused.value.quote


@pytest.mark.parametrize("length", [1, 4, 51, 52, 60])
async def test_a_broken_stream_goes_on_where_it_stopped(length: int) -> None:
    whole = demo_reply(entries(UserSaid(text="count to 20")), ()).text
    pieces, _ = await hear("count to 20", said=whole[:length])
    assert whole[:length] + "".join(pieces) == whole


@pytest.mark.parametrize("check", PORT_CHECKS, ids=lambda check: check.__name__)
async def test_it_is_a_provider(check) -> None:
    await check(DemoProvider(delay=0.0))


def test_it_says_once_in_a_conversation_what_it_is() -> None:
    first = demo_reply(entries(UserSaid(text="hello")), TOOLS)
    assert first.text.endswith(f"\n\n{FOOTER}")
    told = entries(UserSaid(text="hello"), ModelSaid(text=first.text), UserSaid(text="count to 3"))
    assert demo_reply(told, TOOLS).text == "1 2 3"
