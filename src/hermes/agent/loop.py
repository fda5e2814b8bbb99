"""The run: a function of the transcript. It looks at the tail, takes the next step, yields it, looks again.

Open calls are settled; a complete reply without calls finishes the turn and never calls the model again;
anything else is said to the model. What needs a person yields `Asked` and ends the run: the answer starts
it anew. Nothing is remembered here between two looks at the transcript, so a crash changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from hermes.agent.calls import Settle, call_steps, given_up
from hermes.agent.speech import Speech
from hermes.domain.clock import Clock
from hermes.domain.event import AgentEvent, Ending, Failed, Finished, ModelSaid, Record
from hermes.domain.ports import ModelRequest, Provider, Run
from hermes.domain.tool import Tool
from hermes.domain.transcript import TurnView, view_turn, visible

CLOSING_WORDS = (
    "You have used all the steps of this turn. Do not call tools. Say what was done, what was found, "
    "and what is left."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """How long a run may go on."""

    iterations: int = 60
    retries: int = 3
    continuations: int = 4


class AgentLoop:
    """The agent port, driven by a provider and a set of tools."""

    def __init__(
        self,
        *,
        provider: Provider,
        tools: Sequence[Tool],
        model: str,
        system: str,
        clock: Clock,
        limits: LoopLimits | None = None,
    ) -> None:
        self._provider = provider
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._model = model
        self._system = system
        self._clock = clock
        self._limits = limits or LoopLimits()

    async def run(self, run: Run) -> AsyncIterator[AgentEvent]:
        leftovers = given_up(view_turn(run.transcript, run.turn.id))
        if leftovers:
            yield leftovers
        while True:
            view = view_turn(run.transcript, run.turn.id)
            if view.ended is not None:
                return
            if view.open_calls:
                settle = Settle(run=run, tools=self._tools)
                async for event in settle.steps(view):
                    yield event
                if settle.asked:
                    return
            elif view.last is not None and not view.heard_since and not view.last.calls:
                if not self._cut_short(view):
                    yield (Finished(note=_note(view)),)
                    return
                async for event in self._speak(run, view):
                    yield event
            else:
                async for event in self._speak(run, view):
                    yield event

    def _cut_short(self, view: TurnView) -> bool:
        """A reply that hit the model's length limit is continued, up to a bound."""
        return 0 < view.cuts <= self._limits.continuations

    async def _speak(self, run: Run, view: TurnView) -> AsyncIterator[AgentEvent]:
        """One reply of the model, with retries, and what follows from it in the same commit."""
        closing = view.replies >= self._limits.iterations
        if view.replies > self._limits.iterations:
            yield (Failed(reason=f"Stopped after {view.replies} steps without an answer."),)
            return
        request = ModelRequest(
            model=run.session.model or self._model,
            system=f"{self._system}\n\n{CLOSING_WORDS}" if closing else self._system,
            entries=visible(run.transcript),
            tools=() if closing else tuple(self._tools.values()),
        )
        speech = Speech(provider=self._provider, clock=self._clock, retries=self._limits.retries)
        async for live in speech.hear(request, run.scope):
            yield live
        if speech.problem:
            yield (Failed(reason=speech.problem),)
            return
        assert speech.said is not None
        yield self._after(run, speech.said, view)

    def _after(self, run: Run, said: ModelSaid, view: TurnView) -> tuple[Record, ...]:
        if said.calls:
            return (said, *call_steps(run, said, self._tools))
        if said.ending is Ending.LENGTH and view.cuts < self._limits.continuations:
            return (said,)
        return (said, Finished(note=_note(view)))


def _note(view: TurnView) -> str:
    if not view.unknown:
        return ""
    names = ", ".join(dict.fromkeys(view.unknown))
    return f"⚠️ Interrupted before its result was known, so it may or may not have happened: {names}."
