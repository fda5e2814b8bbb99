"""What every provider must do, checked against the fake model server.

`CHECKS` are coroutine functions of a `Make`, which is given the server's address and makes a provider that
gives up after so many seconds of silence. Each raises AssertionError where the provider fails.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.event import Ending, Entry, ModelSaid, TextDelta, ThoughtDelta, Usage, UserSaid
from hermes.domain.ids import CallId, TurnId
from hermes.domain.message import Attachment, MediaKind
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.tool import Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.turn import EarlierMessage, Speaker
from hermes.testing.model_script import FAULTS, WORDS, Call, Fault, Pace, Reply, Script, Then, echo
from hermes.testing.model_server import Ended, FakeModelServer, refusing_address, unreachable_address

QUICK = 0.4
"""Seconds a provider waits for anything where nothing comes."""
LONG = 30.0
"""And where something comes, however slow the machine is."""
PATIENCE = 40.0
KEY = "sk-test-0123456789abcdef"


class ClosingProvider(Protocol):
    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]: ...

    async def close(self) -> None: ...


Make = Callable[[str, float], ClosingProvider]
"""From a base address to a provider that uses `KEY` and gives up after so many seconds of silence, and after
four times as many in all."""


@dataclass(slots=True, kw_only=True)
class Heard:
    """One call to its end."""

    pieces: list[TextDelta | ThoughtDelta] = field(default_factory=list)
    end: ModelEnd | None = None
    error: HermesError | None = None

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces if isinstance(piece, TextDelta))

    @property
    def thought(self) -> str:
        return "".join(piece.text for piece in self.pieces if isinstance(piece, ThoughtDelta))

    @property
    def whole(self) -> ModelEnd:
        assert self.error is None, f"failed: {self.error!r}"
        assert self.end is not None, "the call ended without its end"
        return self.end


async def _unused(context: ToolContext, arguments: object) -> ToolResult:
    raise AssertionError("providers do not run tools")


A_TOOL = Tool(
    name="write_file",
    description="Write a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    run=_unused,
)


def ask(*words: str, tools: Sequence[Tool] = (), said: str = "") -> ModelRequest:
    """A request in which a person and the model take turns, beginning with the person."""
    turn, at = TurnId("turn_suite"), datetime(2026, 1, 1, tzinfo=UTC)
    entries = [
        Entry(
            seq=place,
            turn=turn,
            at=at,
            record=ModelSaid(text=word) if place % 2 else UserSaid(text=word),
        )
        for place, word in enumerate(words)
    ]
    return ModelRequest(model="fake-model", system="Be brief.", entries=entries, tools=tools, spoken=said)


def patience(fault: Fault) -> float:
    """How long a provider that meets this may be silent: nothing but its deadline ends some of them."""
    said = fault.reply
    stalls = isinstance(said, Reply) and said.cut is not None and said.cut.then is Then.STALL
    return QUICK if stalls or (isinstance(said, Reply) and said.endless is not None) else LONG


async def hear(provider: ClosingProvider, request: ModelRequest) -> Heard:
    """Call once, within patience."""
    heard = Heard()
    try:
        async with asyncio.timeout(PATIENCE):
            async for piece in provider.call(request):
                assert heard.end is None, "something came after the end"
                if isinstance(piece, ModelEnd):
                    heard.end = piece
                else:
                    heard.pieces.append(piece)
    except HermesError as error:
        heard.error = error
    return heard


@asynccontextmanager
async def _serving(
    make: Make, script: Script = echo, seconds: float = LONG
) -> AsyncIterator[tuple[FakeModelServer, ClosingProvider]]:
    async with FakeModelServer(script, key=KEY) as server:
        provider = make(server.base_url, seconds)
        try:
            yield server, provider
        finally:
            await provider.close()


# --- what is said and heard ------------------------------------------------------------------------


async def check_text(make: Make) -> None:
    async with _serving(make) as (server, provider):
        heard = await hear(provider, ask("Grüße 😀"))
        assert heard.text == "Grüße 😀"
        assert heard.whole.ending is Ending.STOP and not heard.whole.calls
        assert [one["role"] for one in server.requests[0].messages] == ["system", "user"]
        assert server.requests[0].model == "fake-model"


async def check_stream_pieces(make: Make) -> None:
    """Words are handed on while the model still speaks."""
    reply = Reply(text="a b c d", pace=Pace(sizes=(2,), between=0.05))
    async with _serving(make, [reply]) as (_, provider):
        heard = await hear(provider, ask("go"))
        assert heard.text == "a b c d"
        assert len(heard.pieces) >= 3, "the words came in one piece"


async def check_gathered_pieces(make: Make) -> None:
    """What arrives together is handed on together."""
    reply = Reply(text="x" * 2_000, pace=Pace(sizes=(2,)))
    async with _serving(make, [reply]) as (_, provider):
        heard = await hear(provider, ask("go"))
        assert heard.text == "x" * 2_000
        assert len(heard.pieces) < 1_000, "each word was a piece of its own"


async def check_calls(make: Make) -> None:
    calls = (Call(id="c1", name="write_file", arguments='{"path": "a"}'), Call(id="c2", name="write_file"))
    reply = Reply(text="Wait.", calls=calls, pace=Pace(sizes=(3,)))
    async with _serving(make, [reply]) as (server, provider):
        heard = await hear(provider, ask("go", tools=[A_TOOL]))
        assert heard.text == "Wait."
        found = [(call.id, call.name, call.arguments) for call in heard.whole.calls]
        assert found == [("c1", "write_file", '{"path": "a"}'), ("c2", "write_file", "{}")]
        body = server.requests[0].body
        assert [tool["function"]["name"] for tool in body["tools"]] == ["write_file"]


async def check_usage(make: Make) -> None:
    usage = Usage(prompt=100, completion=20, cached=64, reasoning=5)
    async with _serving(make, [Reply(text="ok", usage=usage)]) as (_, provider):
        assert (await hear(provider, ask("go"))).whole.usage == usage


async def check_thoughts(make: Make) -> None:
    async with _serving(make, [Reply(text="four", reasoning="two and two")]) as (_, provider):
        heard = await hear(provider, ask("go"))
        assert (heard.thought, heard.text) == ("two and two", "four")


async def check_length(make: Make) -> None:
    async with _serving(make, [Reply(text="too", finish="length")]) as (_, provider):
        assert (await hear(provider, ask("go"))).whole.ending is Ending.LENGTH


async def check_continuation(make: Make) -> None:
    """Words that were heard before a break go along, and the model is asked to go on."""
    async with _serving(make, [Reply(text=" and more")]) as (server, provider):
        heard = await hear(provider, ask("go", said="some words"))
        assert heard.text == " and more"
        last = server.requests[0].messages[-2:]
        assert [one["role"] for one in last] == ["assistant", "user"]
        assert last[0]["content"] == "some words"


async def check_history_is_told_first(make: Make) -> None:
    """What a client says came before stands between the system prompt and the transcript, and is valid."""
    call = ToolCall(id=CallId("c1"), name="write_file", arguments='{"path": "a"}')
    history = (
        EarlierMessage(by=Speaker.USER, text="before"),
        EarlierMessage(by=Speaker.AGENT, calls=(call, ToolCall(id=CallId("c2"), name="write_file"))),
        EarlierMessage(by=Speaker.TOOL, call=CallId("c1"), text="written"),
        EarlierMessage(by=Speaker.TOOL, call=CallId("c9"), text="nobody asked"),
        EarlierMessage(by=Speaker.AGENT, text="Done."),
    )
    async with _serving(make) as (server, provider):
        assert (await hear(provider, replace(ask("now"), history=history))).text == "now"
        sent = server.requests[0].messages
        roles = ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
        assert [one["role"] for one in sent] == roles, sent
        assert [one.get("tool_call_id") for one in sent[3:5]] == ["c1", "c2"]
        assert (sent[1]["content"], sent[3]["content"], sent[5]["content"]) == ("before", "written", "Done.")


async def check_images(make: Make) -> None:
    """Images are shown where there is something to show; otherwise it is told in words that there was one."""
    address, data = "https://example.org/cat.png", "data:image/png;base64,AAAA"
    images = tuple(
        Attachment(kind=MediaKind.IMAGE, ref=ref, name=name, sha256=sha256)
        for ref, name, sha256 in ((address, None, None), ("r", None, "ab"), ("r", "lost.png", "cd"))
    )
    request = ask("look")
    said = replace(request.entries[0], record=UserSaid(text="look", attachments=images))
    async with _serving(make, [Reply(text="a cat")]) as (server, provider):
        asked = replace(request, entries=[said], images={"ab": data})
        assert (await hear(provider, asked)).text == "a cat"
        words, *shown = server.requests[0].messages[-1]["content"]
        assert words["text"].startswith("look") and "lost.png" in words["text"], words
        assert [one["image_url"]["url"] for one in shown] == [address, data], shown


async def check_connection_is_used_again(make: Make) -> None:
    async with _serving(make) as (server, provider):
        before = _sockets()
        for number in range(5):
            assert (await hear(provider, ask(f"number {number}"))).text == f"number {number}"
        assert len(server.requests) == 5
        assert _sockets() - before <= 2, "each call opened a connection of its own"


async def check_many_at_once(make: Make) -> None:
    """Nobody waits for a free connection."""
    reply = Reply(text="ok", pace=Pace(first_byte=QUICK / 2))
    most = 0

    def answer(request: object) -> Reply:
        nonlocal most
        most = max(most, len(server.requests) - len(server.exchanges))
        return reply

    async with _serving(make, answer) as (server, provider):
        heard = await asyncio.gather(*(hear(provider, ask("go")) for _ in range(64)))
        assert [one.text for one in heard] == ["ok"] * 64
        # On a busy machine the first may be answered before the last is sent; more than that is a queue.
        assert most > 32, f"only {most} were at the model together"


async def check_a_large_paste(make: Make) -> None:
    async with _serving(make, lambda request: Reply(text=str(len(request.last_message)))) as (_, provider):
        assert (await hear(provider, ask("x" * 10_000_000))).text == "10000000"


# --- what goes wrong -------------------------------------------------------------------------------

_NAMED: tuple[tuple[str, type[HermesError]], ...] = (
    ("unauthorized", NeedsLogin),
    ("forbidden", NeedsLogin),
    ("model_not_found", Refused),
    ("context_too_long", Refused),
    ("quota_used_up", Refused),
    ("finish_content_filter", Refused),
    ("huge_line", Refused),
    ("rate_limited", Unreachable),
    ("server_error", Unreachable),
    ("overloaded", Unreachable),
    ("html_error_page", Unreachable),
)


async def check_errors_are_named_by_what_to_do(make: Make) -> None:
    for name, kind in _NAMED:
        async with _serving(make, [FAULTS[name].reply]) as (_, provider):
            heard = await hear(provider, ask("go"))
            assert isinstance(heard.error, kind), f"{name}: {heard.error!r}"


async def check_retry_after(make: Make) -> None:
    expected = (("rate_limited_for_seconds", 2.0), ("rate_limited_until_date", 3.0), ("rate_limited", None))
    for name, seconds in expected:
        async with _serving(make, [FAULTS[name].reply]) as (_, provider):
            begun = time.monotonic()
            error = (await hear(provider, ask("go"))).error
            took = time.monotonic() - begun
            assert isinstance(error, Unreachable)
            if seconds is None:
                assert error.after is None
            else:
                # A date is told in whole seconds, and time passes until it is read.
                assert error.after is not None, "it was told when"
                assert seconds - took - 1.5 < error.after < seconds + 1.5 or error.after == 0, error.after


async def check_every_fault(make: Make) -> None:
    """Each fault ends as it is described, within the deadlines, and an answer is whole."""
    for name, fault in FAULTS.items():
        async with _serving(make, [fault.reply], patience(fault)) as (_, provider):
            heard = await hear(provider, ask("go", tools=[A_TOOL]))
            _judge(name, fault, heard)


def _judge(name: str, fault: Fault, heard: Heard) -> None:
    if fault.ends == "error":
        assert heard.error is not None, f"{name} was taken for an answer: {heard.text!r}"
        return
    end = heard.whole
    reply = fault.reply
    assert isinstance(reply, Reply)
    expected = (reply.text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert heard.text == expected, f"{name}: {heard.text!r}"
    assert bool(end.calls) == bool(reply.calls), name


async def check_no_key_in_errors(make: Make) -> None:
    for name in ("unauthorized", "forbidden", "server_error"):
        async with _serving(make, [FAULTS[name].reply]) as (_, provider):
            error = (await hear(provider, ask("go"))).error
            assert error is not None and KEY not in f"{error!r} {error.__cause__!r}"


async def check_nobody_there(make: Make) -> None:
    with refusing_address() as address:
        await _is_unreachable(make(address, LONG))
    with unreachable_address() as address:
        await _is_unreachable(make(address, QUICK))


async def _is_unreachable(provider: ClosingProvider) -> None:
    try:
        heard = await hear(provider, ask("go"))
        assert isinstance(heard.error, Unreachable), heard.error
    finally:
        await provider.close()


# --- what is left behind -----------------------------------------------------------------------------


async def check_cancelling_closes_the_connection(make: Make) -> None:
    slow = Reply(text=WORDS * 50, pace=Pace(sizes=(3,), between=0.02))
    async with _serving(make, [slow]) as (server, provider):
        task = asyncio.create_task(hear(provider, ask("go")))
        await _until(lambda: bool(server.requests), "it is not asked")
        assert not server.exchanges
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), "cancellation was swallowed"
        await _until(lambda: bool(server.exchanges), "the connection stays open")
        assert server.exchanges[0].ended is Ended.CLIENT_LEFT


async def check_nothing_is_left(make: Make) -> None:
    tasks, sockets = len(asyncio.all_tasks()), _sockets()
    names = ("stall_after_words", "close_after_words", "server_error", "invalid_json_line", "comments")
    for name in names:
        fault = FAULTS[name]
        async with _serving(make, [fault.reply], patience(fault)) as (_, provider):
            await hear(provider, ask("go"))
    gc.collect()
    await _until(lambda: len(asyncio.all_tasks()) <= tasks, "tasks were left behind")
    await _until(lambda: _sockets() <= sockets, "sockets were left open")


async def _until(what: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, otherwise
        await asyncio.sleep(0.01)


def _sockets() -> int:
    """How many sockets this process has open; 0 where that cannot be seen."""
    folder = "/proc/self/fd"
    found = 0
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            found += os.readlink(f"{folder}/{name}").startswith("socket:")
        except OSError:
            continue
    return found


CHECKS: tuple[Callable[[Make], Awaitable[None]], ...] = (
    check_text,
    check_stream_pieces,
    check_gathered_pieces,
    check_calls,
    check_usage,
    check_thoughts,
    check_length,
    check_continuation,
    check_history_is_told_first,
    check_images,
    check_connection_is_used_again,
    check_many_at_once,
    check_a_large_paste,
    check_errors_are_named_by_what_to_do,
    check_retry_after,
    check_every_fault,
    check_no_key_in_errors,
    check_nobody_there,
    check_cancelling_closes_the_connection,
    check_nothing_is_left,
)
