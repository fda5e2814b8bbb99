"""What the terminal asks of a gateway, and the gateway of this very process as an answer to it.

The terminal knows no store and no agent: it says words, watches turns, answers, stops, runs commands. A new
conversation begins with its first words, so that looking in leaves nothing behind. Several terminals may talk
with one gateway; each is in a session of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from hashlib import sha256
from secrets import token_hex
from typing import Protocol, TypeGuard

from msgspec import Struct

from hermes.control.commands.run import CallerReply
from hermes.control.gateway import Gateway
from hermes.control.sessions.callers import Caller, open_turns
from hermes.control.sessions.submission import NewRequest, SessionTarget, Submission
from hermes.control.turn.questions import AnswerResult, settled_of
from hermes.domain.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.event import Asked, FeedItem, Record, Verdict
from hermes.domain.ids import MAIN_AGENT, AgentId, QuestionId, SessionId, TurnId
from hermes.domain.session import Session
from hermes.domain.turn import Answer, Turn, TurnInput
from hermes.domain.word import replace
from hermes.stream.fold.questions import for_people

PLATFORM = LOCAL_DOOR
LOCAL = "local"
_PREFIX = "said_"


class GatewayGone(Unreachable):
    """The gateway is not there (any more); `maybe_done` says that it may have heard the request."""


class Presence(StrEnum):
    """Whether the gateway of a conversation is there, is waited for, or is waited for no longer, in the words
    by which people hear of it."""

    HERE = "It is back."
    AWAY = "The gateway is gone; waiting for it …"
    LOST = (
        "The gateway did not come back. "
        "Start it (hermes gateway run, or only hermes); what was said goes on then."
    )


class Door(Protocol):
    """A conversation with an agent. Words have a key: said again with it, they are the same words."""

    async def say(self, text: str, key: str) -> Turn: ...

    def watch(self, turn: TurnId, after: int) -> AsyncIterator[FeedItem]: ...

    async def answer(self, question: QuestionId, verdict: Verdict, text: str) -> AnswerResult: ...

    async def stop(self, turn: TurnId) -> bool: ...

    async def command(self, text: str) -> CallerReply: ...


async def _never_gone() -> None:
    """The gateway of this process is there as long as the process is."""


def new_words_key() -> str:
    return token_hex(12)


class SessionChoice(Struct, frozen=True, kw_only=True):
    """How somebody wants to come in: into a new conversation (with what is unfinished first, if `attach`),
    into the latest, or into the one they name."""

    named: str | None = None
    latest: bool = False
    attach: bool = True
    model: str | None = None


class ResumedSession(Struct, frozen=True, kw_only=True):
    """What there is for somebody who comes in: an earlier session with its unfinished turns and which of
    their questions are settled, or nothing; and the names of the commands that their agent has."""

    session: Session | None = None
    turns: tuple[Turn, ...] = ()
    settled: frozenset[QuestionId] = frozenset()
    commands: tuple[str, ...] = ()


class Visit(ResumedSession, frozen=True, kw_only=True):
    """Somebody is in, through this door. `back` waits for a gateway that is `GatewayGone`."""

    door: Door
    back: Callable[[], Awaitable[None]] = _never_gone

    def asks(self, record: Record) -> TypeGuard[Asked]:
        """Whether somebody here is to answer this."""
        return isinstance(record, Asked) and for_people(record) and record.question not in self.settled


def local_caller(agent: AgentId = MAIN_AGENT) -> Caller:
    """The person at this machine's terminal."""
    address = Address(platform=PLATFORM, chat=LOCAL)
    return Caller(agent=agent, source=Source(address=address, kind=SourceKind.PRIVATE, user=LOCAL))


async def find_session_to_resume(gateway: Gateway, caller: Caller, wish: SessionChoice) -> ResumedSession:
    """Find what somebody wants to go on with. What another terminal is just watching is left to it."""
    agent, wanted = caller.agent, wish.named
    if wanted is None and wish.latest:
        wanted = await gateway.read(agent, lambda tx: tx.bindings.get(caller.key))
        if wanted is None:
            raise UserError("There is no conversation to continue yet.", hint="Start one with: hermes")
    attaches = wanted is None and wish.attach
    joined = await gateway.read(agent, lambda tx: open_turns(tx, caller, None)) if attaches else []
    if any(gateway.feeds.is_watched(turn.id) for turn in joined):
        joined = []
    if joined:
        wanted = joined[0].session
    commands = await gateway.command_names(caller)
    if wanted is None:
        return ResumedSession(commands=commands)
    session = await gateway.enter(caller, wanted, wish.model)
    turns = await gateway.read(agent, lambda tx: open_turns(tx, caller, session.id))
    # What has ended since it was found is shown all the same.
    turns = [*(turn for turn in joined if turn.id not in {one.id for one in turns}), *turns]
    settled = await gateway.read(agent, lambda tx: settled_of(tx, turns))
    return ResumedSession(session=session, turns=tuple(turns), settled=settled, commands=commands)


async def enter_embedded(gateway: Gateway, caller: Caller, wish: SessionChoice) -> Visit:
    """Come in to the gateway of this process."""
    found = await find_session_to_resume(gateway, caller, wish)
    session = None if found.session is None else found.session.id
    door = EmbeddedDoor(gateway, caller, session, wish.model)
    return Visit(
        door=door, session=found.session, turns=found.turns, settled=found.settled, commands=found.commands
    )


class EmbeddedDoor:
    """The gateway of this process. Without a session, the next words begin one, for `model`."""

    def __init__(
        self, gateway: Gateway, caller: Caller, session: SessionId | None = None, model: str | None = None
    ) -> None:
        self._gateway = gateway
        self._caller = caller
        self._session = session
        self._model = model

    async def say(self, text: str, key: str) -> Turn:
        caller, session = self._caller, self._session
        model = self._model if session is None else None
        words = Submission(
            agent=caller.agent,
            source=caller.source,
            input=TurnInput(text=text),
            place=SessionTarget(session=session, bind=True, model=model),
            busy=None,
            request=NewRequest(
                prefix=_PREFIX,
                owner=str(caller.source.address),
                key=key,
                fingerprint=sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            ),
        )
        turn = await self._gateway.submit(words)
        self._session = turn.session
        return turn

    def watch(self, turn: TurnId, after: int) -> AsyncIterator[FeedItem]:
        return self._gateway.watch(self._caller.agent, turn, after)

    async def answer(self, question: QuestionId, verdict: Verdict, text: str) -> AnswerResult:
        given = Answer(question=question, verdict=verdict, text=text, by=self._caller.source.person)
        return await self._gateway.answer(self._caller.agent, given)

    async def stop(self, turn: TurnId) -> bool:
        return await self._gateway.stop_turn(self._caller.agent, turn, "interrupted")

    async def command(self, text: str) -> CallerReply:
        if self._session is None:
            self._session = (await self._gateway.enter(self._caller, None, self._model)).id
        replied = await self._gateway.command(replace(self._caller, session=self._session), text)
        self._session = replied.session
        return replied
