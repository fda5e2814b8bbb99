"""The session actors of a gateway, one for each session that has work, and what they share.

Here they are woken and started; transcripts stay warm between their lives; a turn that may have crashed the
process is tried alone; a turn over which its actor breaks each time is failed without it. What one actor does
is in `turn/actor.py`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from hermes.control.core import GatewayCore
from hermes.control.feed import Feeds
from hermes.control.outbound.answers import AnswerWriter
from hermes.control.outbound.delivery import Delivery
from hermes.control.turn.children import follow_family
from hermes.control.turn.claim import WENT_WRONG, Claim
from hermes.control.turn.inbound_files import AttachmentFetcher
from hermes.control.turn.stopping import CloseTurns, Conclude, give_up_turns, refuse_turns
from hermes.control.workers import FailurePolicy, Worker, Workers
from hermes.domain.chats.rows import UnreadableTurn
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, ModelSaid, ToolFinished, UserSaid
from hermes.domain.turns.transcript import MARKS, summed_upto, turn_entries
from hermes.domain.turns.turn import Turn

log = logging.getLogger("hermes.session")
ActorKey = tuple[AgentId, SessionId]
StartActor = Callable[[ActorKey, "Actors", Claim | None], Worker]
ALONE_SECONDS = 3.0
"""How long others wait for a suspect, and it for them. What kills a process does so at once, as a rule."""
_RECORD_BYTES = 700
_SESSION_BYTES = 500
_WORTH_KEEPING = 32


class WarmSession(Struct, kw_only=True):
    """`born` is when the session was begun, once known: a later one of the same name is another session.
    Unless it is `whole`, the records before its last summary were not read."""

    records: list[Entry] = msgspec.field(default_factory=list)
    memory: dict[str, object] = msgspec.field(default_factory=dict)
    bytes: int = _SESSION_BYTES
    born: datetime | None = None
    whole: bool = True

    def add(self, entries: list[Entry]) -> None:
        self.records.extend(entries)
        self.bytes += sum(map(weigh, entries))

    def trim(self) -> None:
        """Let go of what a summary tells of, as if the session were read anew; the last turn stays whole."""
        upto = summed_upto(entry for entry in self.records if isinstance(entry.record, MARKS))
        first = turn_entries(self.records, self.records[-1].turn)[0].seq if self.records else 0
        left = [entry for entry in self.records if entry.seq > min(upto, first - 1)]
        if len(left) < len(self.records):
            self.records, self.whole, self.bytes = [], False, _SESSION_BYTES
            self.add(left)


def weigh(entry: Entry) -> int:
    """Roughly what an entry takes in memory; prompts double the text."""
    record = entry.record
    size = _RECORD_BYTES
    if isinstance(record, UserSaid | ModelSaid | ToolFinished):
        size += 2 * len(record.text)
    if isinstance(record, ModelSaid) and record.kept is not None:
        size += 2 * len(record.kept.text)
    return size


class WarmSessions:
    """Transcripts (and what the agent keeps with them) of the sessions that were used last, up to a number of
    bytes. Losing one costs a read, nothing else."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: OrderedDict[SessionId, WarmSession] = OrderedDict()
        self._bytes = 0

    def __contains__(self, session: object) -> bool:
        return session in self._sessions

    def take(self, session: SessionId) -> WarmSession | None:
        """Take a session out; whoever has it owns it."""
        warm = self._sessions.pop(session, None)
        if warm is not None:
            self._bytes -= warm.bytes
        return warm

    def keep(self, session: SessionId, warm: WarmSession) -> None:
        self.take(session)
        if warm.bytes > self._limit:
            return
        if len(warm.records) < _WORTH_KEEPING:
            # What little there is of it is told anew in no time.
            warm.memory.clear()
        self._sessions[session] = warm
        self._bytes += warm.bytes
        while self._bytes > self._limit:
            _, oldest = self._sessions.popitem(last=False)
            self._bytes -= oldest.bytes


class Quarantine:
    """How a turn that may have crashed the process is tried again: alone. A suspect waits until every turn
    that has begun has added a record, and no other turn begins until the suspect has added one itself. So a
    crash in that time has one possible cause, and the next life can count it. Both waits are short: a slow
    model must not hold up everybody else, and a crash among several is not counted."""

    def __init__(self) -> None:
        self._one_suspect = asyncio.Lock()
        self._suspect: SessionId | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._fresh: set[SessionId] = set()
        self._none_fresh = asyncio.Event()
        self._none_fresh.set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def open(self) -> bool:
        """Whether turns may begin: no suspect is alone, or about to be."""
        return self._open.is_set()

    async def begin(self, session: SessionId) -> None:
        """A turn of this session is about to begin; waits while a suspect of another is alone."""
        # Waits for this suspect, not for the next one too: many suspects must not starve everybody else.
        if session != self._suspect:
            await self._open.wait()
        self.note(session)

    def note(self, session: SessionId) -> None:
        self._fresh.add(session)
        self._none_fresh.clear()

    async def isolate(self, session: SessionId) -> None:
        """Wait for a suspect's turn to be alone; it is until `settle`, or until its time is over."""
        await self._one_suspect.acquire()
        self._suspect = session
        self._open.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALONE_SECONDS):
                    await self._none_fresh.wait()
        except asyncio.CancelledError:
            self._let_go()
            raise
        self._timer = asyncio.get_running_loop().call_later(ALONE_SECONDS, self._let_go)

    def settle(self, session: SessionId) -> None:
        """The turn of this session has added a record, or does not run (any more)."""
        self._fresh.discard(session)
        if not self._fresh:
            self._none_fresh.set()
        if session == self._suspect:
            self._let_go()

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._suspect = self._timer = None
        self._open.set()
        self._one_suspect.release()


@dataclass(slots=True, kw_only=True)
class Actors:
    """The actors of a gateway, and what they share. `start_actor` makes the actor of a session
    (`SessionActor`); `epoch` is the number of this life of the gateway."""

    core: GatewayCore
    feeds: Feeds
    warm: WarmSessions
    answers: AnswerWriter
    delivery: Delivery
    fetcher: AttachmentFetcher
    start_actor: StartActor
    epoch: int = 0
    ring_compression: Callable[[ActorKey], None] = lambda key: None
    """Tells whoever compresses in the background that a session is nearly too long."""
    ring_speech: Callable[[TurnId], None] = lambda turn: None
    """Tells whoever speaks answers that there is one to be spoken."""
    quarantine: Quarantine = field(default_factory=Quarantine)
    workers: Workers[ActorKey] = field(init=False)

    def __post_init__(self) -> None:
        self.workers = Workers(
            start=self._start,
            page=self._due,
            places=self.core.live.now.gateway.max_running,
            name="session",
            loops=self.core.loops,
            remedy=FailurePolicy(head=self._head, give_up=self._give_up),
        )

    def begin(self, epoch: int) -> None:
        """A life of the gateway has begun: look for turns that earlier ones left."""
        self.epoch = epoch
        self.workers.search()

    def ring(self, agent: AgentId, session: SessionId, fresh: bool = False) -> None:
        """There is work in a session; `fresh` says that nothing was ever said in it, so there is nothing to
        read."""
        if fresh:
            self.warm.keep(session, WarmSession())
        self.workers.ring((agent, session))

    def enter(self, claim: Claim) -> None:
        """Start an actor in a held place, with the claim on the first turn of its session in hand."""
        assert claim.turn is not None
        key = (claim.turn.agent, claim.turn.session)
        self.workers.enter(key, self.start_actor(key, self, claim))

    async def end_unreadable(self, error: UnreadableTurn) -> None:
        """Somebody met a turn that cannot be read: nobody is to wait for it."""
        if error.agent in self.core.agents:
            await self._give_up((error.agent, error.session), error)

    async def refuse(self, key: ActorKey, why: UserError) -> None:
        """The agent of a session is gone or cannot be built: whoever waits for its turns is told. Which other
        agents there are concerns only the operator."""
        log.warning("session.no_agent session=%s why=%s", key[1], why)
        now, reason = self.core.clock.now(), str(why) if key[0] in self.core.agents else why.message
        await self._close(key, lambda conclude: refuse_turns(key[1], reason, now, conclude))

    def conclude(
        self, rung: list[ActorKey], tx: Tx, turn: Turn, entries: Sequence[Entry], new: int = 1
    ) -> None:
        """What the commit that ends or parks a turn writes for its chat, its children and its parent; `rung`
        takes whom to ring behind it. The last `new` of the entries are of this commit."""
        self.answers.write(tx, turn, entries, new)
        rung += follow_family(tx, turn, entries, self.core.clock.now())

    def ring_all(self, rung: Iterable[ActorKey]) -> None:
        for agent, session in rung:
            self.ring(agent, session)

    def _start(self, key: ActorKey) -> Worker:
        return self.start_actor(key, self, None)

    async def _due(self, after: int, limit: int) -> list[tuple[int, ActorKey]]:
        due = await self.core.store.read(lambda tx: tx.recovery.due(after, limit))
        return [(row.n, (row.agent, row.session)) for row in due]

    async def _head(self, key: ActorKey) -> TurnId | None:
        agent, session = key
        turns = await self.core.store.scoped(agent).read(lambda tx: tx.turns.open_of(session, 1))
        return turns[0].id if turns else None

    async def _give_up(self, key: ActorKey, error: Exception) -> None:
        """Fail the turn that is first in a session, or those that cannot be read. Whoever waits for it is
        told, and what is behind it is tried."""
        reason = "" if isinstance(error, UnreadableTurn) else WENT_WRONG.format(error=type(error).__name__)
        await self._close(
            key, lambda conclude: give_up_turns(key[1], reason, self.core.clock.now(), conclude)
        )

    async def _close(self, key: ActorKey, closing: Callable[[Conclude], CloseTurns]) -> None:
        """End turns that no actor ends, and tell whoever waits for them."""
        agent, session = key
        rung: list[ActorKey] = []
        ended = await self.core.store.scoped(agent).write(closing(partial(self.conclude, rung)), ends=True)
        self.ring_all(rung)
        self.warm.take(session)
        for turn, new in ended:
            self.core.events.emit_records(agent, session, new)
            for entry in new:
                self.feeds.open(turn.id).publish(entry)
            self.feeds.end(turn.id)
            self.delivery.ring_reply(turn)
