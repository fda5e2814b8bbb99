"""What the terminal asks of a gateway, and the gateway of this very process as an answer to it.

The terminal knows no store and no agent: it says words, watches turns, answers, stops, runs commands. A new
conversation begins with its first words, so that looking in leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from hermes.control.doors import Caller, Replied
from hermes.control.gateway import Gateway
from hermes.control.questions import Outcome
from hermes.control.submission import Submission
from hermes.domain.address import LOCAL_DOOR, Address, Kind, Source
from hermes.domain.errors import UserError
from hermes.domain.event import Asked, Record, Seen, Verdict
from hermes.domain.ids import MAIN_AGENT, AgentId, QuestionId, TurnId
from hermes.domain.session import Session
from hermes.domain.turn import Answer, Turn, TurnInput
from hermes.stream.fold import for_people

PLATFORM = LOCAL_DOOR
LOCAL = "local"


class Door(Protocol):
    """A conversation with an agent."""

    async def say(self, text: str) -> Turn: ...

    def watch(self, turn: TurnId, after: int) -> AsyncIterator[Seen]: ...

    async def answer(self, question: QuestionId, verdict: Verdict, text: str) -> Outcome: ...

    async def stop(self, turn: TurnId) -> bool: ...

    async def command(self, text: str) -> Replied: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How somebody wants to come in: into a new conversation (with what is unfinished first, if `attach`),
    into the latest, or into the one they name."""

    named: str | None = None
    latest: bool = False
    attach: bool = True
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Somebody is in: the door, the session if it is an earlier one, its unfinished turns, and which of their
    questions are settled."""

    door: Door
    session: Session | None = None
    turns: tuple[Turn, ...] = ()
    settled: frozenset[QuestionId] = frozenset()

    def asks(self, record: Record) -> TypeGuard[Asked]:
        """Whether somebody here is to answer this."""
        return isinstance(record, Asked) and for_people(record) and record.question not in self.settled


Enter = Callable[[Wish], Awaitable[Visit]]


def local_caller(agent: AgentId = MAIN_AGENT) -> Caller:
    """The person at this machine's terminal."""
    address = Address(platform=PLATFORM, chat=LOCAL)
    return Caller(agent=agent, source=Source(address=address, kind=Kind.PRIVATE, user=LOCAL))


async def enter_embedded(gateway: Gateway, caller: Caller, wish: Wish) -> Visit:
    """Come in to the gateway of this process."""
    wanted = wish.named
    if wanted is None and wish.latest:
        wanted = await gateway.bound(caller)
        if wanted is None:
            raise UserError("There is no conversation to continue yet.", hint="Begin one with: hermes")
    turns = await gateway.unfinished(caller) if wanted is None and wish.attach else []
    if turns:
        wanted = turns[0].session
    if wanted is None:
        return Visit(door=EmbeddedDoor(gateway, caller, begun=False, model=wish.model))
    session = await gateway.enter(caller, wanted, wish.model)
    turns = await gateway.unfinished(caller, session.id)
    settled = await gateway.settled(caller.agent, turns)
    return Visit(door=EmbeddedDoor(gateway, caller), session=session, turns=tuple(turns), settled=settled)


class EmbeddedDoor:
    """The gateway of this process. `begun` False: the next words begin a new session."""

    def __init__(
        self, gateway: Gateway, caller: Caller, *, begun: bool = True, model: str | None = None
    ) -> None:
        self._gateway = gateway
        self._caller = caller
        self._begun = begun
        self._model = model

    async def say(self, text: str) -> Turn:
        await self._begin()
        caller = self._caller
        words = Submission(agent=caller.agent, source=caller.source, input=TurnInput(text=text), busy=None)
        return await self._gateway.submit(words)

    def watch(self, turn: TurnId, after: int) -> AsyncIterator[Seen]:
        return self._gateway.watch(self._caller.agent, turn, after)

    async def answer(self, question: QuestionId, verdict: Verdict, text: str) -> Outcome:
        given = Answer(question=question, verdict=verdict, text=text, by=self._caller.source.person)
        return await self._gateway.answer(self._caller.agent, given)

    async def stop(self, turn: TurnId) -> bool:
        return await self._gateway.stop_turn(self._caller.agent, turn, "interrupted")

    async def command(self, text: str) -> Replied:
        await self._begin()
        return await self._gateway.command(self._caller, text)

    async def _begin(self) -> None:
        if not self._begun:
            await self._gateway.enter(self._caller, None, self._model)
            self._begun = True
