"""Settling the model's calls: which need an approval, then in groups, each on record before it runs.

Calls that may run together form a group; any other call is a group of its own. A group's starts are one
commit, then its tools run, then each result is a commit as it comes. A call found started but not finished
is the trace of a crash: `read` and `keyed` ones run again under the same key, `once` ones never do. A call
that cannot run at all (no such tool, unreadable arguments, too many) is answered without being started.
Calls of the client's own tools are the last group: they are asked for together, in one commit, once all
others are settled, and the client's answers are their results.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from hermes.agent.call_repair import read_arguments
from hermes.agent.run.delta_queue import DeltaQueue
from hermes.agent.run.toolbox import Toolbox, are_chats_named
from hermes.domain.errors import HermesError, UserError
from hermes.domain.event import (
    AgentEvent,
    Asked,
    ModelSaid,
    QuestionKind,
    Record,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Verdict,
)
from hermes.domain.ids import SessionId, new_question_id
from hermes.domain.ports.agent import Run
from hermes.domain.session import speaker_of
from hermes.domain.text import one_line, storable
from hermes.domain.tool import Approval, ApprovalPrompt, Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.transcript import CallState, TurnView, session_grants

UNKNOWN_OUTCOME = (
    "Interrupted: this call was started and its outcome is unknown. It was not repeated. "
    "Check the state before you try again."
)
NO_RESULT = "The client gave no result for this call."
NO_ANSWER = "Nobody answered. Silence is not consent: do not go on as if it had been allowed."
NOT_ALLOWED = (
    "Not done: it would not be what was allowed, since the shell now stands elsewhere. "
    "Send it again with the full path or a workdir, so that it can be asked for."
)
CALLS_AT_ONCE = 8


async def call_steps(run: Run, reply: ModelSaid, bench: Toolbox) -> tuple[Record, ...]:
    """What is committed together with a reply that has calls: the opening of its first group."""
    states = [CallState(call=call) for call in reply.calls]
    return tuple(await _Group(run=run, bench=bench, states=states).opening())


@dataclass(slots=True, kw_only=True)
class CallRunner:
    """Takes the open calls of a turn as far as they go without a person."""

    run: Run
    bench: Toolbox
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
        results: DeltaQueue[ToolFinished | ToolOutput] = DeltaQueue()
        left = len(running)
        for state in running:
            self._spawn(state, results)
        async for item in results:
            if isinstance(item, ToolOutput):
                yield item
                continue
            yield (item,)
            left -= 1
            if not left:
                return

    def _spawn(self, state: CallState, results: DeltaQueue[ToolFinished | ToolOutput]) -> None:
        name, call = state.call.name, state.call.id

        def broke(why: str) -> None:
            results.put(ToolFinished(call=call, text=f"{name} broke ({one_line(why, 300)}).", failed=True))

        self.run.scope.spawn(self._perform(state, results), f"tool {name}", broke)

    async def _perform(self, state: CallState, results: DeltaQueue[ToolFinished | ToolOutput]) -> None:
        call, started = state.call, state.started
        assert started is not None
        context = ToolContext(
            agent=self.run.turn.agent,
            session=self.run.session.id,
            turn=self.run.turn.id,
            call=call.id,
            key=started.key,
            output=lambda text: results.put(ToolOutput(call=call.id, text=text)),
        )
        try:
            tool = self.bench.tools.get(call.name)
            if tool is None:
                raise UserError(f"The tool {call.name} is no longer there.")
            arguments = read_arguments(call.arguments) or {}
            await self._check_allowed(state, tool, arguments)
            result = await tool.run(context, arguments)
        except HermesError as error:
            result = ToolResult(text=str(error), failed=True)
        results.put(ToolFinished(call=call.id, text=storable(result.text), failed=result.failed))

    async def _check_allowed(self, state: CallState, tool: Tool, arguments: Mapping[str, object]) -> None:
        """A call is looked at once more when it starts: the shell may stand elsewhere by now."""
        ask = _ask(self.run.session.id, tool, arguments)
        if ask is None or await _is_granted(self.run, self.bench, ask):
            return
        asked, answered = state.asked, state.answered
        if asked is None or answered is None or not answered.verdict.allows or asked.digest != ask.digest:
            raise UserError(NOT_ALLOWED)


class _Group:
    """The next calls to settle together: those already under way, else the first that may share a commit."""

    def __init__(self, *, run: Run, bench: Toolbox, states: list[CallState]) -> None:
        self._run = run
        self._bench = bench
        self._places = {state.call.id: place for place, state in enumerate(states)}
        open_states = [state for state in states if state.finished is None]
        self.members = [state for state in open_states if state.started is not None]
        if not self.members:
            self._gather([state for state in open_states if not self._is_clients(state.call)])
        if not self.members:
            self.members = open_states

    async def opening(self) -> list[Record]:
        """The records that must be on disk before anything of this group happens; none if all are there."""
        if any(state.started is not None for state in self.members):
            return []
        return [await self._open(state) for state in self.members if state.asked is None or state.answered]

    def _gather(self, open_states: list[CallState]) -> None:
        to_run = 0
        for state in open_states:
            if not self._fault(state.call):
                together = self._runs_beside(state.call)
                if to_run and not together:
                    return
                to_run = to_run + 1 if together else CALLS_AT_ONCE
            self.members.append(state)
            if to_run >= CALLS_AT_ONCE:
                return

    def _is_clients(self, call: ToolCall) -> bool:
        return call.name in self._bench.client and not self._fault(call)

    def _fault(self, call: ToolCall) -> str:
        return self._bench.fault(call, self._places[call.id])

    def _runs_beside(self, call: ToolCall) -> bool:
        """Whether a call may run beside others: parallel, and in need of nobody's word."""
        tool = self._bench.tools[call.name]
        if not tool.parallel or tool.asks is not None:
            return False
        try:
            return _ask(self._run.session.id, tool, read_arguments(call.arguments) or {}) is None
        except UserError:
            return False

    async def _open(self, state: CallState) -> Record:
        call = state.call
        fault = self._fault(call)
        if fault:
            return ToolFinished(call=call.id, text=fault, failed=True)
        if call.name in self._bench.client:
            return _asked_of_client(state)
        tool = self._bench.tools[call.name]
        if state.answered is not None:
            return _heard(self._run, state, tool)
        try:
            return await _question(self._run, call, self._bench) or _start(self._run, call, tool)
        except UserError as error:
            return ToolFinished(call=call.id, text=str(error), failed=True)


async def _is_granted(run: Run, bench: Toolbox, ask: ApprovalPrompt) -> bool:
    speaker = speaker_of(run.turn)
    person = None if speaker is None else speaker.person
    granted = bench.standing.allows(ask.digest) or ask.digest in session_grants(run.transcript, person)
    return granted or await are_chats_named(run, ask)


async def _question(run: Run, call: ToolCall, bench: Toolbox) -> Asked | None:
    """What a person must say before this call happens, if anything."""
    tool = bench.tools[call.name]
    arguments = read_arguments(call.arguments) or {}
    if tool.asks is not None:
        wanted = tool.asks(arguments)
        return Asked(
            question=new_question_id(),
            kind=QuestionKind.CLARIFY,
            text=wanted.text,
            options=wanted.options,
            call=call.id,
        )
    ask = _ask(run.session.id, tool, arguments)
    if ask is None or await _is_granted(run, bench, ask):
        return None
    more = "" if ask.more is None else await ask.more(run.session.id)
    return Asked(
        question=new_question_id(),
        kind=QuestionKind.APPROVAL,
        text=f"{ask.text}\n{more}" if more else ask.text,
        options=(Verdict.ONCE.value, Verdict.SESSION.value, Verdict.ALWAYS.value, Verdict.DENY.value),
        call=call.id,
        digest=ask.digest,
    )


def _asked_of_client(state: CallState) -> Record:
    call, answered = state.call, state.answered
    if answered is None:
        return Asked(
            question=new_question_id(),
            kind=QuestionKind.CLIENT_TOOL,
            text=f"{call.name} {call.arguments}",
            call=call.id,
        )
    if answered.verdict is Verdict.REPLY:
        return ToolFinished(call=call.id, text=answered.text)
    return ToolFinished(call=call.id, text=NO_RESULT, failed=True)


def close_lost_calls(view: TurnView) -> tuple[ToolFinished, ...]:
    """At the start of a run: results for the calls that a crash cut off and that must not happen twice."""
    return tuple(
        ToolFinished(call=state.call.id, text=UNKNOWN_OUTCOME, failed=True, unknown=True)
        for state in view.leftovers
        if state.started is not None and state.started.effect is Effect.ONCE
    )


def _heard(run: Run, state: CallState, tool: Tool) -> Record:
    """What an answer makes of a call: it runs, it is refused, or the answer is its result."""
    answered = state.answered
    assert answered is not None
    if answered.verdict.allows:
        return _start(run, state.call, tool)
    if answered.verdict is Verdict.REPLY:
        return ToolFinished(call=state.call.id, text=answered.text)
    if answered.verdict is Verdict.DENY:
        reason = f" Reason: {answered.text}" if answered.text else ""
        return ToolFinished(call=state.call.id, text=f"Denied by the user.{reason}", failed=True)
    return ToolFinished(call=state.call.id, text=NO_ANSWER, failed=True)


def _start(run: Run, call: ToolCall, tool: Tool) -> ToolStarted:
    return ToolStarted(call=call.id, name=tool.name, effect=tool.effect, key=f"{run.turn.id}:{call.id}")


def _ask(session: SessionId, tool: Tool, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
    if isinstance(tool.approval, Approval):
        if tool.approval is Approval.NEVER:
            return None
        text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
        return ApprovalPrompt(text=f"{tool.name} {text}", digest=f"{tool.name}:{text}")
    return tool.approval(session, arguments)
