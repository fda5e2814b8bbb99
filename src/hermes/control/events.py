"""Events: one port through which whoever cares hears what has happened (`domain/turns/gateway_event.py`).

Whoever emits does so after the commit and is never held up. A listener is called at once and must return at
once; one that raises is logged and shown in health, and the others hear the event all the same. Whoever needs
time follows instead: what it has not taken waits in a queue, and a full queue leaves events out and says how
many. Nothing here is stored, so nothing here decides anything; gates are calls."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from hermes.control.workers import Supervisor
from hermes.domain.chats.rows import OutState
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.turns.event import Answered, Asked, Entry, Failed, Finished, Record, Stopped, UserSaid
from hermes.domain.turns.gateway_event import (
    DeliveryEnded,
    EventsMissed,
    GatewayEvent,
    QuestionAnswered,
    QuestionAsked,
    RecordsStored,
    TurnBegan,
    TurnEnded,
)
from hermes.domain.turns.turn import TurnState

E = TypeVar("E", bound=GatewayEvent)
LOOP = "events"
MOST_WAITING = 1000
END_STATES: dict[type[Record], TurnState] = {
    Finished: TurnState.DONE,
    Failed: TurnState.FAILED,
    Stopped: TurnState.STOPPED,
}


class Events:
    def __init__(self, loops: Supervisor | None = None) -> None:
        self._loops = loops or Supervisor()
        self._listeners: dict[type, list[tuple[Callable[[Any], None], str]]] = {}

    def listen(
        self, listener: Callable[[E], None], *kinds: type[E], sessions: str = ""
    ) -> Callable[[], None]:
        """Call the listener with every event of these kinds, until what this returns is called. `sessions`:
        only with those of sessions whose id begins so."""
        entry = (listener, sessions)
        for kind in kinds:
            self._listeners.setdefault(kind, []).append(entry)

        def leave() -> None:
            for kind in kinds:
                self._listeners[kind] = [other for other in self._listeners[kind] if other is not entry]

        return leave

    async def follow(self, *kinds: type[E], most: int = MOST_WAITING) -> AsyncGenerator[E | EventsMissed]:
        """Every event of these kinds from the first step on. Of a follower that is so many events behind
        the newest are left out, and `EventsMissed` stands in their place."""
        waiting: deque[E] = deque()
        missed, bell = 0, asyncio.Event()

        def hear(event: E) -> None:
            nonlocal missed
            if missed or len(waiting) >= most:
                missed += 1
            else:
                waiting.append(event)
            bell.set()

        leave = self.listen(hear, *kinds)
        try:
            while True:
                await bell.wait()
                bell.clear()
                while waiting:
                    yield waiting.popleft()
                if missed:
                    count, missed = missed, 0
                    yield EventsMissed(count=count)
        finally:
            leave()

    def emit(self, event: GatewayEvent) -> None:
        """Something has happened and is stored."""
        for listener, sessions in self._listeners.get(type(event), ()):
            if sessions and not getattr(event, "session", "").startswith(sessions):
                continue
            try:
                listener(event)
            except Exception as error:  # whoever listens may not hurt who emits
                name = getattr(listener, "__qualname__", type(listener).__name__)
                self._loops.note(LOOP, error, f"{name}: {type(event).__name__}")

    def emit_all(self, events: Iterable[GatewayEvent]) -> None:
        for event in events:
            self.emit(event)

    def emit_records(self, agent: AgentId, session: SessionId, entries: Sequence[Entry]) -> None:
        """These records of one turn were stored."""
        if entries:
            turn, first, last = entries[0].turn, entries[0].seq, entries[-1].seq
            self.emit(RecordsStored(agent=agent, session=session, turn=turn, first=first, last=last))
            for entry in entries:
                self.emit_all(_meanings(agent, session, entry.turn, entry.record))


def _meanings(agent: AgentId, session: SessionId, turn: TurnId, record: Record) -> Iterator[GatewayEvent]:
    match record:
        case UserSaid(steering=False):
            yield TurnBegan(agent=agent, session=session, turn=turn)
        case Asked():
            yield QuestionAsked(
                agent=agent, session=session, turn=turn, question=record.question, kind=record.kind
            )
        case Answered():
            yield QuestionAnswered(
                agent=agent, session=session, turn=turn, question=record.question, verdict=record.verdict
            )
        case Finished() | Failed() | Stopped():
            yield TurnEnded(agent=agent, session=session, turn=turn, state=END_STATES[type(record)])
        case _:
            pass


class EventCounters:
    """What this life of the gateway has done so far: for metrics, never for decisions."""

    def __init__(self, events: Events) -> None:
        ends = (TurnState.DONE, TurnState.FAILED, TurnState.STOPPED)
        self.ended: Counter[TurnState] = Counter(dict.fromkeys(ends, 0))
        self.sent = self.undeliverable = 0
        events.listen(self._count_turn, TurnEnded)
        events.listen(self._count_delivery, DeliveryEnded)

    def _count_turn(self, event: TurnEnded) -> None:
        self.ended[event.state] += 1

    def _count_delivery(self, event: DeliveryEnded) -> None:
        self.sent += event.state is OutState.SENT
        self.undeliverable += event.state is OutState.DEAD
