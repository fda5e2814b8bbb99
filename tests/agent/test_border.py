"""Foreign code that ends itself, cancels itself, keeps what it was given or tells too much: it costs the
call that met it, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest

from hermes.agent.models.foreign import ForeignProvider
from hermes.agent.run import dispatch
from hermes.agent.tools.registry import LONGEST_RESULT, cap
from hermes.app.agents.redaction import redacting
from hermes.app.agents.tools import OpenSources
from hermes.control.commands import registry
from hermes.control.workers import RunScope, Supervisor
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import ModelFault, Unreachable
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import ModelSettings, Settings
from hermes.domain.system.border import Border, ForeignExit, contain
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.tools.toolbox import Toolbox
from hermes.execution.backend_life import KeptBackend
from hermes.state.settings.secrets import Secrets
from hermes.testing.clock import FakeClock, settle
from hermes.testing.provider_suite import ask
from tests.agent.test_tool_contract import acting, finish

ENDS = [
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    BaseExceptionGroup("g", [SystemExit(1)]),
]
ends = pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
SECRET = "sk-oh-so-secret"


SECRETS = Secrets({"KEY": SECRET})


def raising(error: BaseException) -> Callable[..., Any]:
    async def run(*arguments: object) -> Any:
        raise error

    return run


# --- the border itself ---


@ends
async def test_what_would_end_the_program_comes_out_as_an_error(end: BaseException) -> None:
    with pytest.raises(ForeignExit, match=f"it raised {type(end).__name__}"):
        await contain(raising(end)())


async def test_our_own_cancellation_passes_the_border() -> None:
    async def wait() -> None:
        with Border():
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await settle()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await wait()


# --- tools ---


@ends
async def test_a_tool_that_ends_the_program_fails_its_call_only(end: BaseException) -> None:
    chat, result = await finish(acting(raising(end)))
    assert result.failed and result.text == f"act broke (it raised {type(end).__name__})."
    assert chat.records()[-2].text == "done"


@ends
async def test_an_approval_that_ends_the_program_allows_nothing(end: BaseException) -> None:
    ran: list[object] = []

    async def act(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        ran.append(arguments)
        return ToolResult(text="ran")

    _, result = await finish(acting(act, approval=raising(end)))
    assert result.failed and "could not say what it needs first (ForeignExit)" in result.text and not ran


@ends
async def test_a_scope_tells_of_work_that_ends_by_itself(end: BaseException) -> None:
    scope, why = RunScope(), list[str]()
    scope.spawn(raising(end)(), "work", why.append)
    await settle()
    assert why == [f"it raised {type(end).__name__}"]
    scope.spawn(asyncio.sleep(60), "work", why.append)
    await scope.close()
    assert len(why) == 1


async def test_a_tool_that_holds_on_is_left_behind_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "GRACE_SECONDS", 0.01)
    let_go = asyncio.Event()

    async def hold(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                context.output("not I")
        return ToolResult(text="at last")

    chat, result = await finish(acting(hold, seconds=0.01))
    let_go.set()
    await settle()
    assert result.failed and result.unknown and "was not done within 0.01 s" in result.text
    assert chat.records()[-2].text == "done"


async def test_what_a_call_was_given_is_of_no_use_after_its_end() -> None:
    kept: list[ToolContext] = []
    ran: list[str] = []
    under_way = list[asyncio.Task[ToolResult]]()

    async def keep(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        kept.append(context)
        under_way.append(asyncio.ensure_future(context.call("slow", {})))
        await settle()
        return ToolResult(text="later")

    async def slow(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        ran.append("began")
        await asyncio.Event().wait()
        raise AssertionError

    chat, result = await finish(acting(keep), acting(slow, name="slow", effect=Effect.ONCE))
    await asyncio.wait(under_way)
    assert result.text == "later" and ran == ["began"] and under_way[0].cancelled()
    with pytest.raises(Exception, match="slow was not called: the call around it is over"):
        await kept[0].call("slow", {})
    with pytest.raises(Exception, match="the call is over"):
        await kept[0].ask_model("vision", "look")
    shown = len(chat.live)
    kept[0].output("late words")
    assert ran == ["began"] and len(chat.live) == shown


async def test_what_a_tool_breaks_of_is_told_without_secrets() -> None:
    tool = redacting(acting(raising(RuntimeError(f"boom {SECRET}"))), SECRETS)
    _, result = await finish(tool)
    assert result.failed and result.text == "act broke (RuntimeError: boom ‹secret›)."


async def test_files_of_a_result_are_told_without_secrets() -> None:
    file = Attachment(kind=MediaKind.FILE, ref="r", name=f"{SECRET}.txt", note=f"n {SECRET}", text=SECRET)

    async def act(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="here", attachments=(file,))

    _, result = await finish(redacting(acting(act), SECRETS))
    told = result.attachments[0]
    assert (told.name, told.note, told.text) == ("‹secret›.txt", "n ‹secret›", "‹secret›")


async def test_the_result_of_a_plugin_is_no_longer_than_one_of_ours() -> None:
    size = 5_000_000

    async def act(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="a" * (size - 5) + "the end"[-5:])

    _, result = await finish(redacting(acting(act), SECRETS))
    assert len(result.text) < LONGEST_RESULT + 100 and result.text.endswith("e end")
    assert f"{size - LONGEST_RESULT} characters left out" in result.text
    assert cap(result.text) == result.text


# --- providers, sources, commands, backends, loops ---


@ends
async def test_a_provider_that_ends_the_program_is_a_fault_of_the_model(end: BaseException) -> None:
    class Ending:
        async def call(self, request: ModelRequest) -> AsyncIterator[Any]:
            raise end
            yield

    def make(settings: ModelSettings) -> Any:
        raise end

    for maker in (lambda settings: Ending(), make):
        provider = ForeignProvider("mine", maker, ModelSettings(provider="mine"))
        with pytest.raises(ModelFault, match="provider mine failed"):
            async for _ in provider.call(ask("hi")):
                pass


class EagerSource:
    """Always says that its tools are others now; or ends, when it is opened."""

    def __init__(self, end: BaseException | None = None) -> None:
        self.end, self.asked = end, 0

    async def open(self) -> None:
        if self.end is not None:
            raise self.end

    async def tools(self) -> Sequence[Tool]:
        self.asked += 1
        return ()

    async def changed(self) -> None:
        return

    async def close(self) -> None:
        return


async def test_a_source_that_changes_all_the_time_leaves_the_loop_to_others() -> None:
    clock, source = FakeClock(), EagerSource()
    sources = OpenSources(toolbox=Toolbox(), sources={"lab": source}, loops=Supervisor(clock))
    await sources.open()
    await settle()
    assert source.asked == 1
    await clock.advance(1.0)
    assert source.asked == 2
    await sources.close()


@ends
async def test_a_source_that_ends_the_program_is_opened_again(end: BaseException) -> None:
    clock, source = FakeClock(), EagerSource(end)
    loops, box = Supervisor(clock), Toolbox()
    sources = OpenSources(toolbox=box, sources={"lab": source}, loops=loops)
    await sources.open()
    await settle()
    assert box.problems["lab"] == loops.states["tools of lab"].why == f"it raised {type(end).__name__}"
    source.end = None
    await clock.advance(1.0)
    assert source.asked == 1 and "lab" not in box.problems
    await sources.close()


@ends
async def test_a_source_of_commands_that_ends_the_program_brings_none(
    end: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def source(settings: Settings, runtime: object) -> Any:
        raise end

    mine = registry.SlashCommand(name="zz-mine", run=lambda call: registry.CommandReply(text=""), summary="")
    monkeypatch.setattr(registry, "SOURCES", [source, lambda settings, runtime: [mine]])
    assert mine in registry.known_commands(Settings())


@ends
async def test_a_backend_that_ends_the_program_is_unreachable(end: BaseException) -> None:
    class Ending:
        open = close = staticmethod(raising(end))

    with pytest.raises(Unreachable, match=f"it raised {type(end).__name__}"):
        await KeptBackend("box", Ending(), FakeClock()).use(raising(AssertionError()))  # type: ignore[arg-type]


@ends
async def test_a_loop_that_ends_the_program_goes_on(end: BaseException) -> None:
    clock, lives = FakeClock(), list[int]()

    async def live() -> None:
        lives.append(1)
        if len(lives) == 1:
            raise end

    loop = Supervisor(clock).keep("lab", live)
    await settle()
    await clock.advance(1.0)
    await asyncio.wait((loop,), timeout=5)
    assert len(lives) == 2 and loop.done() and not loop.cancelled()
