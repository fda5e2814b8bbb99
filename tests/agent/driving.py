"""A run without a gateway: records are numbered and kept in a list, as the actor would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hermes.agent.run.loop import AgentLoop, LoopLimits
from hermes.agent.run.speech import RetryBackoff
from hermes.control.turn.stopping import cut_off
from hermes.control.workers import RunScope
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.clock import SystemClock
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.models.call_options import CallOptions
from hermes.domain.ports.agent import PersonNotes, Provider, Run, no_notes
from hermes.domain.tools.tool import Effect, StandingGrants, Tool, ToolContext, ToolResult
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.event import Asked, Entry, Live, ModelSaid, Record, Stopped, UserSaid
from hermes.domain.turns.session import Session
from hermes.domain.turns.transcript import number_records, view_turn
from hermes.domain.turns.turn import NO_GUIDANCE, Cause, Guidance, Turn, TurnInput

AT = datetime(2026, 1, 2, tzinfo=UTC)
EAGER = RetryBackoff(first=0.01, longest=0.02)
SESSION = Session(id=SessionId("s"), agent=AgentId("main"), created_at=AT, updated_at=AT, owner="me")

ME = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="me")


def quick(**changes: object) -> LoopLimits:
    return LoopLimits(patience=EAGER, **changes)  # type: ignore[arg-type]


@dataclass
class Driver:
    """One session. `say` runs a turn to its end and returns its records; live events are kept in `live`."""

    loop: AgentLoop
    session: Session = SESSION
    entries: list[Entry] = field(default_factory=list)
    live: list[Live] = field(default_factory=list)
    memory: dict[str, object] = field(default_factory=dict)
    turns: int = 0
    guidance: Guidance = NO_GUIDANCE
    options: CallOptions | None = None
    granted: frozenset[str] = frozenset()
    person_notes: PersonNotes = no_notes

    def turn(self) -> Turn:
        return Turn(
            id=TurnId(f"turn_{self.turns}"),
            session=self.session.id,
            agent=self.session.agent,
            cause=Cause.MESSAGE,
            input=TurnInput(guidance=self.guidance, options=self.options),
            created_at=AT,
            source=ME,
        )

    async def _standing(self) -> StandingGrants:
        return StandingGrants(digests=self.granted)

    def add(self, *records: Record) -> None:
        self.entries += number_records(self.entries, self.turn().id, records, AT)

    async def say(self, text: str) -> list[Record]:
        self.turns += 1
        self.add(UserSaid(text=text))
        return await self.go()

    async def go(self, commits: int | None = None) -> list[Record]:
        """Pull the run to its end, or stop dead after so many commits."""
        scope = RunScope()
        turn = self.turn()
        run = Run(
            session=self.session,
            turn=turn,
            transcript=self.entries,
            scope=scope,
            memory=self.memory,
            standing=self._standing,
            person_notes=self.person_notes,
        )
        events = self.loop.run(run)
        try:
            async for event in events:
                if not isinstance(event, tuple):
                    self.live.append(event)
                    continue
                self.add(*event)
                if commits is not None:
                    commits -= 1
                    if not commits:
                        break
                if isinstance(event[-1], Asked):
                    break
        finally:
            await events.aclose()
            await scope.close()
        return self.records()

    def records(self) -> list[Record]:
        return [entry.record for entry in self.entries if entry.turn == self.turn().id]

    async def interrupt(self, text: str, after: float) -> None:
        """Say something and stop the turn in the middle, as a person does."""
        self.turns += 1
        self.add(UserSaid(text=text))
        task = asyncio.create_task(self.go())
        await asyncio.sleep(after)
        task.cancel()
        await asyncio.wait([task])
        heard = "".join(getattr(event, "text", "") for event in self.live)
        said = ModelSaid(text=heard, partial=True) if heard else None
        self.add(*cut_off(view_turn(self.entries, self.turn().id), said), Stopped(reason="interrupted"))


def tool(name: str, *, text: str = "", parallel: bool = False, effect: Effect = Effect.READ) -> Tool:
    """A tool that says what it was called with."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text=text or f"{name}: {dict(arguments)}")

    return Tool(name=name, description=name, parameters={}, run=run, parallel=parallel, effect=effect)


def loop_of(provider: Provider, *tools: Tool, limits: LoopLimits | None = None) -> AgentLoop:
    return AgentLoop(
        provider=provider,
        toolbox=Toolbox(tools),
        model="fake-model",
        system="Be brief.",
        clock=SystemClock(),
        limits=limits or quick(),
    )
