"""Settling the model's calls: which need an approval, then in groups, each on record before it runs.

Calls that may run together form a group; any other call is a group of its own. A group's starts are one
commit, then its tools run, then each result is a commit as it comes. A call found started but not finished
is the trace of a crash: `read` and `keyed` ones run again under the same key, `once` ones never do. A call
that cannot run at all (no such tool, unreadable arguments, too many) is answered without being started.
Calls that are answered from outside, by a person, a child turn or the client, are the last group: they are
asked for together, in one commit, and the answers are their results, in whatever order they come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from msgspec import Struct

from hermes.agent.call_repair import read_arguments
from hermes.agent.run.approval import approval_prompt, is_granted
from hermes.agent.run.children import child_of, children_result
from hermes.agent.run.delta_queue import DeltaQueue
from hermes.agent.run.dispatch import Dispatcher, tell_broken, waiting_for
from hermes.agent.run.links import without_links
from hermes.agent.run.taint import has_read_outside, named_hosts
from hermes.agent.run.toolbox import TurnTools
from hermes.domain.errors import UserError
from hermes.domain.ids import new_question_id
from hermes.domain.ports.agent import Run
from hermes.domain.tools.tool import (
    ChildTask,
    ChildTasks,
    Clarification,
    ClientCall,
    Effect,
    Tool,
    ToolCall,
    Waiting,
)
from hermes.domain.turns.event import (
    AgentEvent,
    Answered,
    Asked,
    ModelSaid,
    QuestionKind,
    Record,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Verdict,
)
from hermes.domain.turns.transcript import CallState, TurnView
from hermes.domain.word import replace

log = logging.getLogger("hermes.approvals")
UNKNOWN_OUTCOME = (
    "Interrupted: this call was started and its outcome is unknown. It was not repeated. "
    "Check the state before you try again."
)
NO_RESULT = "The client gave no result for this call."
NO_ANSWER = "Nobody answered. Silence is not consent: do not go on as if it had been allowed."
CALLS_AT_ONCE = 8
_ANSWERS = (Verdict.ONCE.value, Verdict.SESSION.value, Verdict.ALWAYS.value, Verdict.DENY.value)
_AS_BEFORE = "a person, before it asked for more"
_ONCE_ONLY = (Verdict.ONCE.value, Verdict.DENY.value)


async def call_steps(run: Run, reply: ModelSaid, bench: TurnTools) -> tuple[Record, ...]:
    """What is committed together with a reply that has calls: the opening of its first group."""
    states = [CallState(call=call) for call in reply.calls]
    return tuple(await _Group(run=run, bench=bench, states=states).opening())


class CallRunner(Struct, kw_only=True):
    """Takes the open calls of a turn as far as they go without a person."""

    run: Run
    bench: TurnTools
    dispatcher: Dispatcher
    asked: bool = False

    async def steps(self, view: TurnView) -> AsyncIterator[AgentEvent]:
        group = _Group(run=self.run, bench=self.bench, states=list(view.calls.values()))
        opening = await group.opening()
        if opening:
            yield tuple(opening)
            return
        running = [state for state in group.members if state.started is not None]
        if not running:
            self.asked = True
            return
        results: _Results = DeltaQueue()
        left, questions = len(running), []
        for state in running:
            self._spawn(state, results)
        async for item in results:
            if isinstance(item, ToolOutput):
                yield item
                continue
            if isinstance(item, _InnerStart):
                yield (item.record,)
                item.kept.set()
                continue
            left -= 1
            if isinstance(item, Asked):  # a turn that waits has nothing else going on
                questions.append(replace(item, text=_shown(self.run, item.text)))
            else:
                yield (item,)
            if not left:
                break
        if questions:
            yield tuple(questions)

    def _spawn(self, state: CallState, results: _Results) -> None:
        call, started = state.call, state.started
        unknown = started is not None and started.effect is Effect.ONCE

        def broke(why: str) -> None:
            words = tell_broken(call, why)
            results.put(ToolFinished(call=call.id, text=words, failed=True, unknown=unknown))

        self.run.scope.spawn(self._perform(state, results), f"tool {call.name}", broke)

    async def _perform(self, state: CallState, results: _Results) -> None:
        async def keep(record: ToolStarted) -> None:
            start = _InnerStart(record=record, kept=asyncio.Event())
            results.put(start)
            await start.kept.wait()

        results.put(await self.dispatcher.perform(state, results.put, keep))


class _InnerStart(Struct, frozen=True, kw_only=True):
    """A call that a running one is about to make, and what is set once that is on disk."""

    record: ToolStarted
    kept: asyncio.Event


_Results = DeltaQueue[ToolFinished | Asked | ToolOutput | _InnerStart]


class _Group:
    """The next calls to settle together: those already under way, else the first that may share a commit.
    What is answered from outside comes last, all of it together; but when somebody has to be asked for an
    approval before, people and children are asked in the same commit: the turn waits anyway."""

    def __init__(self, *, run: Run, bench: TurnTools, states: list[CallState]) -> None:
        self._run = run
        self._bench = bench
        self._places = {state.call.id: place for place, state in enumerate(states)}
        self._open_states = [state for state in states if state.finished is None]
        self._wanted = {state.call.id: self._waits_for(state.call) for state in self._open_states}
        self.members = [state for state in self._open_states if state.started is not None]

    async def opening(self) -> list[Record]:
        """The records that must be on disk before anything of this group happens; none if all are there.
        Questions are the last of them."""
        if self.members:
            return []
        waiting = [state for state in self._open_states if self._wanted[state.call.id] is not None]
        await self._gather([state for state in self._open_states if self._wanted[state.call.id] is None])
        if not self.members:
            self.members = waiting
        records = await self._open_all(self.members)
        if any(isinstance(record, Asked) for record in records) and self.members is not waiting:
            beside = [state for state in waiting if not self._is_clients(state)]
            records += await self._open_all([state for state in beside if state.asked is None])
        return sorted(records, key=_place)

    async def _open_all(self, states: list[CallState]) -> list[Record]:
        due = [state for state in states if state.asked is None or state.answered]
        return [record for state in due for record in await self._open(state)]

    async def _gather(self, open_states: list[CallState]) -> None:
        to_run = 0
        for state in open_states:
            if not self._fault(state.call):
                together = await self._runs_beside(state.call)
                if to_run and not together:
                    return
                to_run = to_run + 1 if together else CALLS_AT_ONCE
            self.members.append(state)
            if to_run >= CALLS_AT_ONCE:
                return

    def _waits_for(self, call: ToolCall) -> Waiting | None:
        """What answers a call from outside; nothing for one that runs, or that cannot run at all."""
        if self._fault(call):
            return None
        try:
            return waiting_for(self._run, self._bench.tools[call.name], read_arguments(call.arguments) or {})
        except UserError:
            return None

    def _is_clients(self, state: CallState) -> bool:
        return isinstance(self._wanted[state.call.id], ClientCall)

    def _fault(self, call: ToolCall) -> str:
        return self._bench.fault(call, self._places[call.id])

    async def _runs_beside(self, call: ToolCall) -> bool:
        """Whether a call may run beside others: parallel, and in need of nobody's word."""
        tool = self._bench.tools[call.name]
        if not tool.parallel or tool.asks is not None:
            return False
        try:
            arguments = read_arguments(call.arguments) or {}
            return await approval_prompt(self._run, tool, arguments) is None
        except UserError:
            return False

    async def _open(self, state: CallState) -> list[Record]:
        call = state.call
        asked, answered = state.asked, state.answered
        begun = asked is not None and bool(asked.kept)
        settled = answered is not None and not (begun and answered.verdict is Verdict.REPLY)
        if asked is not None and answered is not None and asked.kind is not QuestionKind.APPROVAL and settled:
            return [_result(state, asked.kind, answered)]  # whatever became of the tool meanwhile
        fault = self._fault(call)
        if fault:
            return [ToolFinished(call=call.id, text=fault, failed=True)]
        tool = self._bench.tools[call.name]
        if begun and answered is not None:
            allowed = _AS_BEFORE if state.allowed else ""
            return [replace(_start(self._run, call, tool), approved=allowed, digest=state.allowed)]
        if answered is not None:
            return [_start(self._run, call, tool) if answered.verdict.allows else _refused(call, answered)]
        try:
            wanted = waiting_for(self._run, tool, read_arguments(call.arguments) or {})
            if isinstance(wanted, ChildTask):
                wanted = ChildTasks(tasks=(wanted,))
            if isinstance(wanted, ChildTasks):
                tasks = [child_of(self._run, self._bench, tool, task) for task in wanted.tasks]
                return [_asked_outside(self._run, call, task) for task in tasks]
            if wanted is not None:
                return [_asked_outside(self._run, call, wanted)]
            return [await _approval(self._run, call, self._bench) or _start(self._run, call, tool)]
        except UserError as error:
            return [ToolFinished(call=call.id, text=str(error), failed=True)]


def _place(record: Record) -> int:
    """Questions are the last records of a commit, and what clients are asked for is the last of them."""
    if not isinstance(record, Asked):
        return 0
    return 2 if record.kind is QuestionKind.CLIENT_TOOL else 1


def _asked_outside(run: Run, call: ToolCall, wanted: Waiting) -> Asked:
    outside = has_read_outside(run)
    options: tuple[str, ...] = ()
    match wanted:
        case Clarification(text=text, options=options):
            kind = QuestionKind.CLARIFY
        case ChildTask(text=text):
            kind = QuestionKind.CHILD
        case ClientCall():
            kind, text = QuestionKind.CLIENT_TOOL, f"{call.name} {call.arguments}"
        case _:
            raise UserError(f"{call.name} waits for something that nobody gives.")
    if kind is QuestionKind.CLARIFY:
        text, options = _shown(run, text), tuple(_shown(run, option) for option in options)
    return Asked(
        question=new_question_id(),
        kind=kind,
        text=text,
        options=options,
        call=call.id,
        outside=outside and kind is QuestionKind.CHILD,
        child=wanted if isinstance(wanted, ChildTask) else None,
    )


def _shown(run: Run, text: str) -> str:
    """A question as it is put to people: no preview fetches an address of which nobody has yet approved."""
    if not has_read_outside(run):
        return text
    return without_links(text, named_hosts(run), whole=True)


async def _approval(run: Run, call: ToolCall, bench: TurnTools) -> Asked | ToolStarted | None:
    """What a person must allow before this call happens, if anything; its start, if a model allows it."""
    ask = await approval_prompt(run, bench.tools[call.name], read_arguments(call.arguments) or {})
    if ask is None or await is_granted(run, bench.standing, ask):
        return None
    more = "" if ask.more is None else await ask.more(run.session.id)
    text, opinion = f"{ask.text}\n{more}" if more else ask.text, None
    to_model = ask.to_model and not ask.locked and not has_read_outside(run)
    if bench.opinion is not None and to_model:
        opinion = await bench.opinion(ask, more)
        if opinion.allows:
            log.info("approval.by_model turn=%s call=%s: %s", run.turn.id, call.id, opinion.reason)
            started = _start(run, call, bench.tools[call.name])
            return replace(started, approved=opinion.reason, digest=ask.digest, usage=opinion.usage)
        text += f"\nA second model would not allow it: {opinion.reason}"
    return Asked(
        question=new_question_id(),
        kind=QuestionKind.APPROVAL,
        text=_shown(run, text),
        usage=None if opinion is None else opinion.usage,
        options=_ONCE_ONLY if ask.locked else _ANSWERS,
        call=call.id,
        digest=ask.digest,
    )


def close_lost_calls(view: TurnView) -> tuple[ToolFinished, ...]:
    """At the start of a run: results for the calls that a crash cut off and that must not happen twice."""
    return tuple(
        ToolFinished(
            call=state.call.id, text=f"{UNKNOWN_OUTCOME}{state.made_inside}", failed=True, unknown=True
        )
        for state in view.leftovers
        if state.started is not None and state.started.effect is Effect.ONCE
    )


def _result(state: CallState, kind: QuestionKind, answered: Answered) -> ToolFinished:
    """What comes of a call that was answered from outside."""
    call = state.call
    if kind is QuestionKind.CHILD:
        return children_result(state)
    if answered.verdict is Verdict.REPLY:
        return ToolFinished(call=call.id, text=answered.text, outside=answered.outside)
    if kind is QuestionKind.CLIENT_TOOL:
        return ToolFinished(call=call.id, text=NO_RESULT, failed=True)
    return _refused(call, answered)


def _refused(call: ToolCall, answered: Answered) -> ToolFinished:
    if answered.verdict is Verdict.DENY:
        reason = f" Reason: {answered.text}" if answered.text else ""
        return ToolFinished(call=call.id, text=f"Denied by the user.{reason}", failed=True)
    return ToolFinished(call=call.id, text=NO_ANSWER, failed=True)


def _start(run: Run, call: ToolCall, tool: Tool) -> ToolStarted:
    return ToolStarted(call=call.id, name=tool.name, effect=tool.effect, key=f"{run.turn.id}:{call.id}")
