"""What every provider must do, checked against the fake model server.

`CHECKS` are coroutine functions of a `Make`, which is given the server's address and makes a provider that
gives up after so many seconds of silence. A provider of a wire format that the server does not speak is made
by a `DialectMake`. `PORT_CHECKS` need no server: they are for every provider, also one that asks nobody. Each
raises AssertionError where the provider fails.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import FaultKind, HermesError, ModelFault
from hermes.domain.ids import CallId, TurnId
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.tools.tool import Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.turns.event import Ending, Entry, ModelSaid, Notice, TextDelta, ThoughtDelta, UserSaid
from hermes.domain.turns.turn import EarlierMessage, Speaker
from hermes.domain.word import replace
from hermes.testing.model_dialects import Dialect
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectMake:
    """A `Make` whose providers speak another wire format, which the server then speaks too."""

    make: Make
    dialect: Dialect

    def __call__(self, base_url: str, seconds: float) -> ClosingProvider:
        return self.make(base_url, seconds)


@dataclass(slots=True, kw_only=True)
class Heard:
    """One call to its end."""

    pieces: list[TextDelta | ThoughtDelta | Notice] = field(default_factory=list)
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


async def hear(provider: Provider, request: ModelRequest) -> Heard:
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
    dialect = make.dialect if isinstance(make, DialectMake) else None
    async with FakeModelServer(script, key=KEY, dialect=dialect) as server:
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
    usage = Usage(prompt=100, completion=20, cached=64, reasoning=5, cache_written=16)
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


async def check_no_images(make: Make) -> None:
    """A model that takes no pictures is told of them in words."""
    seen = Attachment(kind=MediaKind.IMAGE, ref="https://example.org/cat.png", name="cat.png")
    request = ask("look")
    said = replace(request.entries[0], record=UserSaid(text="look", attachments=(seen,)))
    async with _serving(make) as (server, provider):
        assert (await hear(provider, replace(request, entries=[said], images=None))).error is None
        content = server.requests[0].messages[-1]["content"]
        assert isinstance(content, str) and "cat.png" in content and "example.org" not in content


async def check_kept(make: Make) -> None:
    """What a service wants back comes back as it was, but only to the same format and the same model."""
    details = ({"type": "reasoning.encrypted", "data": "c2VhbGVk", "index": 0},)
    call = Call(id="c1", name="write_file")
    async with _serving(make, lambda request: Reply(text="ok", details=details, calls=(call,))) as (
        server,
        provider,
    ):
        kept = (await hear(provider, ask("go", tools=[A_TOOL]))).whole.kept
        assert kept is not None and kept.text and kept.model == "fake-model"
        assert "c2VhbGVk" not in repr(kept), "what is kept is shown to nobody"
        plain = ask("go", "ok", "go on")
        for marked, model, comes_back in (
            (kept, "fake-model", True),
            (kept, "another-model", False),
            (replace(kept, format="another format"), "fake-model", False),
            (replace(kept, text="{nonsense"), "fake-model", False),
        ):
            reply = replace(plain.entries[1], record=ModelSaid(text="ok", kept=marked))
            entries = [plain.entries[0], reply, plain.entries[2]]
            assert (await hear(provider, replace(plain, entries=entries, model=model))).error is None
            said = server.requests[-1].messages[2]
            assert said["content"] == "ok", said
            assert said.get("reasoning_details") == (list(details) if comes_back else None), said


async def check_a_warm_prompt_keeps_its_bytes(make: Make) -> None:
    """What was sent before is the beginning of what is sent next, so that services can use it again."""
    memory: dict[str, object] = {}
    words = [f"word {number}" for number in range(9)]
    talk = ask(*words)
    async with _serving(make) as (server, provider):
        for end in (5, 7, 9):
            assert (
                await hear(provider, replace(talk, entries=talk.entries[:end], memory=memory))
            ).error is None
        assert (await hear(provider, talk)).error is None
        sent = [request.messages for request in server.requests]
        assert sent[1][: len(sent[0])] == sent[0] and sent[2][: len(sent[1])] == sent[1]
        assert sent[3] == sent[2], "a warm prompt is not the fresh one"


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

KINDS_BY_FAULT: Mapping[str, FaultKind] = {
    "unauthorized": FaultKind.BAD_KEY,
    "forbidden": FaultKind.BAD_KEY,
    "model_not_found": FaultKind.NO_MODEL,
    "context_too_long": FaultKind.TOO_LONG,
    "quota_used_up": FaultKind.NO_CREDIT,
    "finish_content_filter": FaultKind.FILTERED,
    "huge_line": FaultKind.BAD_REQUEST,
    "rate_limited": FaultKind.LIMITED_UNTIL,
    "rate_limited_for_a_day": FaultKind.LIMITED_UNTIL,
    "overloaded": FaultKind.BUSY,
    "server_error": FaultKind.BROKEN,
    "html_error_page": FaultKind.BROKEN,
    "close_after_words": FaultKind.BROKEN,
}
"""What kind of fault each of these is, whatever the wire format."""


async def check_faults_have_their_kinds(make: Make) -> None:
    for name, kind in KINDS_BY_FAULT.items():
        async with _serving(make, [FAULTS[name].reply]) as (_, provider):
            error = (await hear(provider, ask("go"))).error
            assert isinstance(error, ModelFault) and error.kind is kind, f"{name}: {error!r}"


async def check_retry_after(make: Make) -> None:
    expected = (("rate_limited_for_seconds", 2.0), ("rate_limited_until_date", 3.0), ("rate_limited", None))
    for name, seconds in expected:
        async with _serving(make, [FAULTS[name].reply]) as (_, provider):
            begun = time.monotonic()
            error = (await hear(provider, ask("go"))).error
            took = time.monotonic() - begun
            assert isinstance(error, ModelFault) and error.is_passing
            if seconds is None:
                assert error.after is None and error.until is None
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
        assert isinstance(heard.error, ModelFault) and heard.error.kind is FaultKind.BROKEN, heard.error
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
    check_no_images,
    check_kept,
    check_a_warm_prompt_keeps_its_bytes,
    check_connection_is_used_again,
    check_many_at_once,
    check_a_large_paste,
    check_faults_have_their_kinds,
    check_retry_after,
    check_every_fault,
    check_no_key_in_errors,
    check_nobody_there,
    check_cancelling_closes_the_connection,
    check_nothing_is_left,
)


# --- any provider --------------------------------------------------------------------------------------


async def check_port_reply(provider: Provider) -> None:
    """Words and then one end, which says what it took and who spoke."""
    heard = await hear(provider, ask("hello"))
    assert heard.text and heard.whole.ending is Ending.STOP
    assert heard.whole.model and heard.whole.usage.completion > 0


async def check_port_continuation(provider: Provider) -> None:
    """Words that were heard are not said again."""
    whole = (await hear(provider, ask("hello"))).text
    half = whole[: len(whole) // 2]
    rest = await hear(provider, ask("hello", said=half))
    assert rest.error is None and not rest.text.startswith(whole), "it began anew"


async def check_port_cancelling(provider: Provider) -> None:
    task = asyncio.create_task(hear(provider, ask("count to 900")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), "cancellation was swallowed"
    assert (await hear(provider, ask("hello"))).error is None, "it answers nobody any more"


PORT_CHECKS: tuple[Callable[[Provider], Awaitable[None]], ...] = (
    check_port_reply,
    check_port_continuation,
    check_port_cancelling,
)
