"""Settling the model's calls: in groups, in order, each started on record before it runs.

Calls that may run together form a group; any other call is a group of its own. A group's starts are one
commit, then its tools run, then each result is a commit as it comes. A call found started but not finished
is the trace of a crash: `read` and `keyed` ones run again under the same key, `once` ones never do.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from hermes.agent.handover import Handover
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
from hermes.domain.ids import new_question_id
from hermes.domain.ports import Run
from hermes.domain.tool import Approval, Ask, Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.transcript import CallState, TurnView, session_grants

UNKNOWN_OUTCOME = (
    "Interrupted: this call was started and its outcome is unknown. It was not repeated. "
    "Check the state before you try again."
)
NO_ANSWER = "Nobody answered. Silence is not consent: do not go on as if it had been allowed."
CALLS_AT_ONCE = 8


def call_steps(
    run: Run, said: ModelSaid, tools: Mapping[str, Tool]
) -> tuple[Record, ...]:
    """What is committed together with a reply that has calls: the opening of its first group."""
    states = [CallState(call=call) for call in said.calls]
    return tuple(_opening(run, _group(states, tools), tools))


@dataclass(slots=True, kw_only=True)
class Settle:
    """Takes the open calls of a turn as far as they go without a person."""

    run: Run
    tools: Mapping[str, Tool]
    asked: bool = False

    async def steps(self, view: TurnView) -> AsyncIterator[AgentEvent]:
        group = _group(list(view.calls.values()), self.tools)
        opening = _opening(self.run, group, self.tools)
        if opening:
            yield tuple(opening)
            return
        waiting = [state for state in group if state.asked is not None and state.answered is None]
        if waiting:
            self.asked = True
            return
        results: Handover[ToolFinished | ToolOutput] = Handover()
        running = [state for state in group if state.started is not None]
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

    def _spawn(self, state: CallState, results: Handover[ToolFinished | ToolOutput]) -> None:
        name, call = state.call.name, state.call.id

        def broke(why: str) -> None:
            results.put(ToolFinished(call=call, text=f"{name} broke ({why}).", failed=True))

        self.run.scope.spawn(self._perform(state, results), f"tool {name}", broke)

    async def _perform(self, state: CallState, results: Handover[ToolFinished | ToolOutput]) -> None:
        call, started = state.call, state.started
        assert started is not None
        tool = self.tools[call.name]
        context = ToolContext(
            agent=self.run.turn.agent,
            session=self.run.session.id,
            turn=self.run.turn.id,
            call=call.id,
            key=started.key,
            output=lambda text: results.put(ToolOutput(call=call.id, text=text)),
        )
        try:
            result = await tool.run(context, read_arguments(call))
        except HermesError as error:
            result = ToolResult(text=str(error), failed=True)
        results.put(ToolFinished(call=call.id, text=result.text, failed=result.failed))


def _group(states: list[CallState], tools: Mapping[str, Tool]) -> list[CallState]:
    """The next calls to settle together: those already under way, else the first run of parallel ones."""
    open_states = [state for state in states if state.finished is None]
    under_way = [state for state in open_states if state.started is not None]
    if under_way or not open_states:
        return under_way
    group: list[CallState] = []
    for state in open_states[:CALLS_AT_ONCE]:
        together = _runs_beside(state.call, tools)
        if group and not together:
            break
        group.append(state)
        if not together:
            break
    return group


def _runs_beside(call: ToolCall, tools: Mapping[str, Tool]) -> bool:
    """Whether a call may share its group: known, parallel, and in need of nobody's word."""
    tool = tools.get(call.name)
    if tool is None or not tool.parallel or tool.asks is not None:
        return False
    try:
        return _ask(tool, read_arguments(call)) is None
    except UserError:
        return False


def _opening(
    run: Run, group: list[CallState], tools: Mapping[str, Tool]
) -> list[Record]:
    """The records that must be on disk before anything of this group happens; none if all are there."""
    if any(state.started is not None for state in group):
        return []
    return [_open(run, state, tools) for state in group if state.asked is None or state.answered]


def given_up(view: TurnView) -> tuple[ToolFinished, ...]:
    """At the start of a run: results for the calls that a crash cut off and that must not happen twice."""
    return tuple(
        ToolFinished(call=state.call.id, text=UNKNOWN_OUTCOME, failed=True, unknown=True)
        for state in view.leftovers
        if state.started is not None and state.started.effect is Effect.ONCE
    )


def _open(run: Run, state: CallState, tools: Mapping[str, Tool]) -> Record:
    call = state.call
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(tools)) or "none"
        return ToolFinished(call=call.id, text=f"There is no tool “{call.name}”. Known: {known}.", failed=True)
    try:
        arguments = read_arguments(call)
    except UserError as error:
        return ToolFinished(call=call.id, text=str(error), failed=True)
    if state.answered is not None:
        return _heard(run, state, tool)
    if tool.asks is not None:
        wanted = tool.asks(arguments)
        return Asked(
            question=new_question_id(),
            kind=QuestionKind.CLARIFY,
            text=wanted.text,
            options=wanted.options,
            call=call.id,
        )
    ask = _ask(tool, arguments)
    if ask is not None and ask.digest not in session_grants(run.transcript):
        return Asked(
            question=new_question_id(),
            kind=QuestionKind.APPROVAL,
            text=ask.text,
            options=(Verdict.ONCE.value, Verdict.SESSION.value, Verdict.ALWAYS.value, Verdict.DENY.value),
            call=call.id,
            digest=ask.digest,
        )
    return _start(run, call, tool)


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


def _ask(tool: Tool, arguments: Mapping[str, object]) -> Ask | None:
    if isinstance(tool.approval, Approval):
        if tool.approval is Approval.NEVER:
            return None
        text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
        return Ask(text=f"{tool.name} {text}", digest=f"{tool.name}:{text}")
    return tool.approval(arguments)


def read_arguments(call: ToolCall) -> Mapping[str, object]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError as error:
        raise UserError(f"The arguments of {call.name} are not JSON ({error}).", hint="Send one JSON object.") from None
    if not isinstance(arguments, dict):
        raise UserError(f"The arguments of {call.name} are not a JSON object.", hint="Send one JSON object.")
    return arguments
