"""The one dispatcher of tools: what every call passes, whether the model made it or a tool made it inside
another call. A call is looked at once more when it starts, runs until its deadline, and its result is kept as
a record. Nobody can be asked in the middle of a call, so an inner call that would have to be is refused."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec
from msgspec import Struct

from hermes.agent.call_repair import read_arguments
from hermes.agent.run.approval import NOT_JUDGED, approval_prompt, is_granted
from hermes.agent.run.toolbox import TurnTools
from hermes.domain.chats.message import Attachment
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import CallId, new_question_id
from hermes.domain.models.usage import Usage, sum_usage
from hermes.domain.ports.agent import Run
from hermes.domain.system.border import Border, describe
from hermes.domain.text import one_line, storable
from hermes.domain.tools.tool import (
    Clarification,
    Effect,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    Waiting,
)
from hermes.domain.tools.toolbox import WITHDRAWN
from hermes.domain.turns.event import Asked, QuestionKind, ToolFinished, ToolOutput, ToolStarted
from hermes.domain.turns.session import speaker_of
from hermes.domain.turns.transcript import CallState
from hermes.domain.word import check_word, replace

log = logging.getLogger("hermes.tools")
NOT_ALLOWED = (
    "Not done: it would not be what was allowed, since the shell now stands elsewhere. "
    "Send it again with the full path or a workdir, so that it can be asked for."
)
ASKED_NOBODY = "Not done: it asks for something, and nobody is there to answer."
NOT_ASKED_INSIDE = (
    "{name} would have to be asked for, which is not possible inside another call. Call it itself."
)
STRONGER = (
    "{name} ({effect}) may not be called inside {outer} ({weaker}), which may be repeated after a crash."
)
LATE = "{name} was not done within {seconds:g} s and was stopped."
SILENT = "{name} showed no sign of life for {seconds:g} s and was stopped (agent.gateway_timeout)."
CALL_OVER = "{name} was not called: the call around it is over."
NO_MODEL_AFTER = "No model is asked: the call is over."
GRACE_SECONDS = 4.0
"""How long a call that is stopped may take to end before it is left to itself; a scope waits longer."""
_DEEPEST = 4
_STRENGTH = {Effect.READ: 0, Effect.KEYED: 1, Effect.ONCE: 2}

_LONGEST_REASON = 300
KeepStart = Callable[[ToolStarted], Awaitable[None]]
"""Returns when it is on disk."""
RoleModel = Callable[[str, str, Sequence[Attachment]], Awaitable[tuple[str, Usage]]]
"""Asks the model of a role: its answer, and what that took."""


class Dispatcher(Struct, frozen=True, kw_only=True):
    """Runs the calls of one run; those that were `begun` before it are repeated. `seconds` is how long a call
    may take that says nothing else, `silence` how long it may show no sign of life (0: as long as it may
    take)."""

    run: Run
    bench: TurnTools
    clock: Clock
    seconds: float
    silence: float = 0.0
    ask_model: RoleModel | None = None
    safe_links: Callable[[str], str] = str
    begun: Collection[CallId] = ()

    async def perform(
        self, state: CallState, output: Callable[[ToolOutput], None], keep: KeepStart
    ) -> ToolFinished | Asked:
        """The result of a started call, as it is recorded, or what it has to be told before; `keep` records
        the calls that it makes."""
        call, started = state.call, state.started
        assert started is not None
        notes, cut_off = _CallNotes(keep=keep), False
        try:
            result = await self._run(state, notes, output)
        except HermesError as error:
            result = ToolResult(text=str(error), failed=True)
        except TimeoutError as late:
            result, cut_off = ToolResult(text=str(late), failed=True), True
        except Exception as error:  # a plugin's code may raise anything
            log.exception("tool.broke tool=%s", call.name)
            result, cut_off = ToolResult(text=tell_broken(call, describe(error)), failed=True), True
        finally:
            notes.end()
        notes.see(result)
        if result.wants is not None and not self.run.turn.input.guidance.unattended:
            return Asked(
                question=new_question_id(),
                kind=QuestionKind.CLARIFY,
                text=storable(result.wants.text),
                options=result.wants.options,
                call=call.id,
                kept=result.kept,
                usage=sum_usage(notes.used) if notes.used else None,
            )
        if result.wants is not None:
            result = replace(result, text=f"{ASKED_NOBODY}\n{result.wants.text}", failed=True)
        return ToolFinished(
            call=call.id,
            text=storable(result.text),
            failed=result.failed,
            unknown=(cut_off or result.unknown) and started.effect is Effect.ONCE,
            attachments=result.attachments,
            outside=notes.outside,
            usage=sum_usage(notes.used) if notes.used else None,
            note=result.note,
            ended_badly=result.ended_badly,
        )

    async def _run(
        self, state: CallState, notes: _CallNotes, output: Callable[[ToolOutput], None]
    ) -> ToolResult:
        call = state.call
        tool = self._find(call.name)
        arguments = read_arguments(call.arguments) or {}
        await self._check_allowed(state, tool, arguments)
        seconds = tool.seconds or self.seconds

        def show(text: str) -> None:
            notes.sign()
            output(ToolOutput(call=call.id, text=text))

        context = self._context(state, tool, notes, show, seconds)
        return await _in_time(tool, context, arguments, seconds, notes, self.silence)

    def _find(self, name: str) -> Tool:
        tool = self.bench.now().get(name)
        if tool is None:
            raise UserError(WITHDRAWN.format(name=name))
        return tool

    def _context(
        self, state: CallState, tool: Tool, notes: _CallNotes, output: Callable[[str], None], seconds: float
    ) -> ToolContext:
        turn, started = self.run.turn, state.started
        assert started is not None
        context = ToolContext(
            agent=turn.agent,
            session=self.run.session.id,
            turn=turn.id,
            call_id=state.call.id,
            key=started.key,
            repeated=state.call.id in self.begun,
            output=lambda text: None if notes.over else output(text),
            source=speaker_of(turn),
            maker=turn.input.guidance.origin,
            deadline=self.clock.now() + timedelta(seconds=seconds),
            ask_model=_Models(self.ask_model, notes),
            safe_links=self.safe_links,
            tools=self.bench.now,
            answer=_answer_of(state),
        )
        inner = _InnerCalls(self, tool, context, notes, self.clock.monotonic() + seconds)
        return replace(context, call=inner.call)

    async def _check_allowed(self, state: CallState, tool: Tool, arguments: Mapping[str, object]) -> None:
        """A call is looked at once more when it starts: the shell may stand elsewhere by now."""
        ask = await approval_prompt(self.run, tool, arguments)
        if ask is None or await is_granted(self.run, self.bench.standing, ask):
            return
        asked, answered, started = state.asked, state.answered, state.started
        if started is not None and started.approved and started.digest == ask.digest and not ask.locked:
            return
        if asked is None or answered is None or not answered.verdict.allows or asked.digest != ask.digest:
            raise UserError(NOT_ALLOWED)

    async def perform_inner(
        self, around: _InnerCalls, context: ToolContext, name: str, arguments: Mapping[str, object]
    ) -> ToolResult:
        """A call that a tool makes. Its effect may not be stronger than that of the call around it, which
        would repeat it after a crash."""
        tool, outer = self._find(name), around.tool
        if around.depth > _DEEPEST:
            raise UserError(f"{name} was not called: calls are nested too deeply.")
        if _STRENGTH[tool.effect] > _STRENGTH[outer.effect]:
            raise UserError(
                STRONGER.format(name=name, effect=tool.effect, outer=outer.name, weaker=outer.effect)
            )
        bench = replace(self.bench, standing=await self.run.standing())
        ask = await approval_prompt(self.run, tool, arguments, tainted=around.notes.outside)
        if tool.asks is not None or name in bench.client:
            raise UserError(NOT_ASKED_INSIDE.format(name=name))
        if ask is not None and not await is_granted(self.run, bench.standing, ask):
            why = one_line(ask.text, _LONGEST_REASON)
            raise UserError(f"{NOT_ASKED_INSIDE.format(name=name)} It would be put to a person as: {why}")
        left = min(tool.seconds or self.seconds, around.until - self.clock.monotonic())
        log.info("tool.inner call=%s outer=%s tool=%s", context.call_id, outer.name, name)
        if tool.effect is not Effect.READ:
            words = one_line(json.dumps(arguments, ensure_ascii=False, default=str), _LONGEST_REASON)
            await around.notes.keep(
                ToolStarted(
                    call=context.call_id, name=name, effect=tool.effect, key=context.key, inside=words
                )
            )
        inner = replace(context, deadline=self.clock.now() + timedelta(seconds=left))
        until = self.clock.monotonic() + left
        within = _InnerCalls(self, tool, inner, around.notes, until, around.depth + 1)
        try:
            result = await _in_time(tool, replace(inner, call=within.call), arguments, left)
        except TimeoutError as late:
            raise UserError(str(late)) from None
        except HermesError:
            raise
        except Exception as error:  # as above
            log.exception("tool.broke tool=%s", name)
            raise UserError(f"{name} broke ({one_line(describe(error), _LONGEST_REASON)}).") from error
        finally:
            within.over = True
        around.notes.see(result)
        if result.wants is not None:
            raise UserError(NOT_ASKED_INSIDE.format(name=name))
        return replace(result, usage=None)  # it is counted


class _CallNotes(Struct):
    """What is learnt while a call runs: what models took, and whether it or a call inside read what was
    written elsewhere."""

    keep: KeepStart
    used: list[Usage] = msgspec.field(default_factory=list)
    outside: bool = False
    seen: float = 0.0
    """When it last showed a sign of life: it printed, made a call inside, or heard from a model."""
    over: bool = False
    """Whether the call has ended: what its tool was given is of no use from then on."""
    inner: set[asyncio.Task[ToolResult]] = msgspec.field(default_factory=set)

    def sign(self) -> None:
        self.seen = asyncio.get_running_loop().time()

    def end(self) -> None:
        """Calls inside that nobody waits for any more are stopped: they would be on no record."""
        self.over = True
        for task in self.inner:
            task.cancel()

    def see(self, result: ToolResult) -> None:
        self.sign()
        self.outside = self.outside or result.outside
        self.used += [] if result.usage is None else [result.usage]


@dataclass(slots=True)
class _InnerCalls:
    """The calls a tool makes inside one of its own, `until` its time is over by a clock that nobody sets.
    Each has a key that is the same if all are repeated."""

    dispatcher: Dispatcher
    tool: Tool
    context: ToolContext
    notes: _CallNotes
    until: float
    depth: int = 1
    made: int = field(default=0, init=False)
    over: bool = field(default=False, init=False)

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        if self.over or self.notes.over:
            raise UserError(CALL_OVER.format(name=name))
        self.made += 1
        self.notes.sign()
        context = replace(self.context, key=f"{self.context.key}/{self.made}")
        work = self.dispatcher.perform_inner(self, context, name, arguments)
        task = asyncio.create_task(work, name=f"inner call {name}")
        self.notes.inner.add(task)
        task.add_done_callback(self.notes.inner.discard)
        return await task


class _Models(Struct, frozen=True):
    """`ask_model` of one call: what it takes is counted with the call."""

    ask: RoleModel | None
    notes: _CallNotes

    async def __call__(self, role: str, text: str, attachments: Sequence[Attachment] = ()) -> str:
        if self.notes.over:
            raise UserError(NO_MODEL_AFTER)
        if self.ask is None:
            raise UserError(f"There is no model here for {role}.")
        answer, usage = await self.ask(role, text, attachments)
        self.notes.sign()
        self.notes.used.append(usage)
        return answer


async def _in_time(
    tool: Tool,
    context: ToolContext,
    arguments: Mapping[str, object],
    seconds: float,
    notes: _CallNotes | None = None,
    silence: float = 0.0,
) -> ToolResult:
    """In a task of its own, for a tool may hold on to its own: it is not waited for longer than it has, nor
    longer than it may be silent."""
    running = asyncio.create_task(_run_foreign(tool, context, arguments), name=f"run {tool.name}")
    running.add_done_callback(lambda done: done.cancelled() or done.exception())
    words = LATE.format(name=tool.name, seconds=seconds)
    try:
        if notes is None or not 0 < silence < seconds:
            await asyncio.wait((running,), timeout=max(seconds, 0.0))
        elif await _falls_silent(running, notes, seconds, silence):
            words = SILENT.format(name=tool.name, seconds=silence)
    finally:
        late = not running.done()
        if late:
            running.cancel()
            await asyncio.wait((running,), timeout=GRACE_SECONDS)
        if not running.done():
            log.error("tool.stuck tool=%s: it is left to itself", tool.name)
    if late and (not running.done() or running.cancelled() or running.exception() is not None):
        raise TimeoutError(words)
    try:
        result = running.result()
    except TimeoutError:
        raise UserError(f"{tool.name}: something it waited for did not come in time.") from None
    if not isinstance(result, ToolResult):
        raise UserError(f"{tool.name} gave back something that is no result.")
    try:
        checked = check_word(replace(result, data=None), ToolResult)
    except ValueError as error:
        why = one_line(str(error), 160)
        raise UserError(f"{tool.name} gave back something that is no result ({why}).") from error
    return replace(checked, data=result.data)


async def _falls_silent(
    running: asyncio.Task[ToolResult], notes: _CallNotes, seconds: float, silence: float
) -> bool:
    """Wait until a call is done, its time is over, or it has been silent for too long; whether that."""
    notes.sign()
    end = notes.seen + seconds
    while not running.done():
        now, quiet = asyncio.get_running_loop().time(), notes.seen + silence
        if now >= min(end, quiet):
            return quiet < end
        await asyncio.wait((running,), timeout=min(end, quiet) - now)
    return False


def _answer_of(state: CallState) -> tuple[str, str] | None:
    """What a call that asked for more is made again with."""
    asked, answered = state.asked, state.answered
    return (asked.kept, answered.text) if asked is not None and asked.kept and answered is not None else None


def tell_broken(call: ToolCall, why: str) -> str:
    return f"{call.name} broke ({one_line(why, 300)})."


async def _run_foreign(tool: Tool, context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    with Border():
        return await tool.run(context, arguments)


def waiting_for(run: Run, tool: Tool, arguments: Mapping[str, object]) -> Waiting | None:
    """What a call is answered by, if it comes from outside. Where nobody can be asked, no person is."""
    if tool.asks is None:
        return None
    try:
        with Border():
            wanted = tool.asks(arguments)
        if isinstance(wanted, Waiting):
            wanted = check_word(wanted, type(wanted))
    except HermesError:
        raise
    except Exception as error:  # as above
        log.exception("tool.asking_broke tool=%s", tool.name)
        raise UserError(NOT_JUDGED.format(name=tool.name, error=type(error).__name__)) from error
    return None if isinstance(wanted, Clarification) and run.turn.input.guidance.unattended else wanted
