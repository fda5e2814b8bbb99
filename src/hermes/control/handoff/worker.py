"""The worker of hand-offs: it opens a place in a chat and binds it to the conversation of the terminal.

The life of a hand-off is a row. The worker claims it with a lease, opens a thread (or uses the home channel
as it is, where threads are impossible or not permitted), and one transaction binds that place to the session,
adds the turn that says hello there, and completes the row. Nothing is copied. If the gateway dies on the way,
the lease runs out and the row is taken up again. One that is not done `until` its time is given up, whoever
waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from hermes.control.core import GatewayCore
from hermes.control.handoff.requests import HANDOFF_SECONDS, MOST_ATTEMPTS, home_of
from hermes.control.outbound.notices import notify
from hermes.control.outbound.targets import real_place
from hermes.control.people.routing import SelectAgent, chat_session_key, route
from hermes.control.sessions.callers import UNUSED
from hermes.control.turn.claim import next_session
from hermes.control.workers import end_tasks, pause_after, take_each, wait_for_ring
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Grade
from hermes.domain.chats.channels import Channel
from hermes.domain.chats.handoff import Handoff, HandoffState
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import HermesError, Lost, Refused, Unreachable, UserError
from hermes.domain.ids import EVERY_AGENT, AgentId, DeliveryId, SessionId
from hermes.domain.ports.platform import Platform, Threads
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.turns.gateway_event import HandoffCompleted
from hermes.domain.turns.session import Session, begin_session, make_turn, session_key
from hermes.domain.turns.turn import Cause, Guidance, ReplyPlace, TurnInput
from hermes.domain.word import replace

log = logging.getLogger("hermes.handoff")
LEASE_SECONDS = 10.0
"""Only the next life waits for it; this one knows what it is `_working` at."""
OPEN_SECONDS = 30.0
_LONGEST_SLEEP = 30.0
_ERROR = 500
_NOTICE = (
    "[This conversation was handed over from the terminal: it goes on here, in {place}, with everything that"
    " was said. Say in one or two sentences where things stand. Do nothing else yet.]"
)


@dataclass(slots=True, kw_only=True)
class HandoffWorker:
    """Looks for hand-offs that are due and does each in a task of its own, so that a slow or broken one holds
    up no other. `platform` finds the adapter of an account that is up; `wake_session` and `wake_lane` wake
    whoever has work after a commit."""

    core: GatewayCore
    select: SelectAgent | None
    platform: Callable[[str], Platform | None]
    wake_session: Callable[[AgentId, SessionId], None]
    wake_lane: Callable[[Address], None]
    _bell: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _looked_at: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _working: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _pauses: dict[str, tuple[int, float]] = field(init=False, default_factory=dict)
    """Those that broke: how often in a row, and until when (monotonic) each is left alone."""

    def ring(self) -> None:
        """There is a new one, or an account came up."""
        self._bell.set()

    async def live(self) -> None:
        while True:
            self._bell.clear()
            await wait_for_ring(self._bell, self.core.clock, await self.look(), "handoff")

    async def close(self) -> None:
        """Cut off what is under way; it is taken up again when its lease runs out."""
        await end_tasks(self._working.values())

    async def look(self) -> float:
        """Take up what is due; the seconds until there may be more."""
        waits, due, late = [_LONGEST_SLEEP], list[Handoff](), list[Handoff]()
        now, elapsed = self.core.clock.now(), self.core.clock.monotonic()
        for handoff in await self._store(EVERY_AGENT).read(lambda tx: tx.handoffs.open()):
            left = (_end(handoff) - now).total_seconds()
            if left <= 0:
                late.append(handoff)
                continue
            waits.append(left)
            if handoff.id in self._working or handoff.agent not in self.core.agents:
                continue
            _, until = self._pauses.get(handoff.id, (0, elapsed))
            wait = max((handoff.due_at - now).total_seconds(), until - elapsed)
            if wait > 0:
                waits.append(wait)
            else:
                due.append(handoff)
        await take_each(late, self._give_up)
        await take_each(due, self._take_up)
        return min(waits)

    async def _take_up(self, handoff: Handoff) -> None:
        if self.platform(handoff.account) is not None:
            task = asyncio.create_task(self._run(handoff), name=f"handoff {handoff.id}")
            self._working[handoff.id] = task
            task.add_done_callback(partial(self._done, handoff.id))
            return
        await self._change(handoff, handoff.state, f"{handoff.account} is not connected")

    async def _give_up(self, handoff: Handoff) -> None:
        """An attempt that is under way comes too late then."""
        why = handoff.error or f"{handoff.account} took too long"
        log.warning("handoff.failed id=%s why=%s", handoff.id, why)
        await self._change(handoff, HandoffState.FAILED, why)

    def _done(self, handoff: str, task: asyncio.Task[None]) -> None:
        self._working.pop(handoff, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.core.loops.note("handoffs", error, f"handoff {handoff}")
            failures = self._pauses.get(handoff, (0, 0.0))[0] + 1
            self._pauses[handoff] = failures, self.core.clock.monotonic() + pause_after(failures)
        else:
            self._pauses.pop(handoff, None)
            self.core.loops.clear("handoffs", f"handoff {handoff}")
        self._looked_at.set()
        self.ring()

    async def settled(self, agent: AgentId, handoff: str, seconds: float) -> Handoff | None:
        """The hand-off once it is settled, or as it is after so many seconds."""
        row: Handoff | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._looked_at.clear()
                    row = await self._store(agent).read(lambda tx: tx.handoffs.get(handoff))
                    if row is None or not row.state.open:
                        return row
                    await self._looked_at.wait()
        except TimeoutError:
            return row

    async def _change(
        self, row: Handoff, state: HandoffState, error: str, due: datetime | None = None
    ) -> None:
        changed = replace(row, state=state, error=error, due_at=due or row.due_at)
        if changed != row:
            await self._store(row.agent).write(lambda tx: tx.handoffs.change(row, changed))
        if not changed.state.open:
            self._looked_at.set()

    def _store(self, agent: AgentId) -> Store:
        return self.core.store.scoped(agent)

    async def _run(self, handoff: Handoff) -> None:
        """One attempt. Afterwards the row is completed, failed, or due again."""
        store, ident = self._store(handoff.agent), handoff.id
        claimed = await store.write(partial(_claim, ident, self.core.clock.now()))
        if claimed is None:
            return
        log.info("handoff.begun id=%s to=%s attempt=%d", ident, claimed.account, claimed.attempts)
        try:
            place = await self._place(claimed)
            arrival = CompleteHandoff(
                handoff=claimed, place=place, settings=self.core.live.now, now=self.core.clock.now()
            )
            done = await store.write(arrival.unit)
        except Lost:
            log.info("handoff.too_late id=%s", ident)
        except HermesError as error:
            await self._failed(claimed, error)
        else:
            log.info("handoff.completed id=%s to=%s", ident, done.to)
            self.wake_session(done.agent, done.session)
            self.wake_lane(place.source.address)
            news = HandoffCompleted(agent=done.agent, session=done.session, to=place.source.address)
            self.core.events.emit(news)

    async def _failed(self, claimed: Handoff, error: HermesError) -> None:
        """Try again later if the platform could not be reached, three times a round; else it has failed."""
        why = one_line(str(error), _ERROR).rstrip(".")
        if isinstance(error, Unreachable) and claimed.attempts % MOST_ATTEMPTS:
            wait = error.after if error.after is not None else 2.0**claimed.attempts
            due = self.core.clock.now() + timedelta(seconds=wait)
            return await self._change(claimed, HandoffState.PENDING, why, due)
        log.warning("handoff.failed id=%s why=%s", claimed.id, why)
        await self._change(claimed, HandoffState.FAILED, why)

    async def _place(self, handoff: Handoff) -> HandoffPlace:
        """The chat in which the conversation goes on, as messages from there will come. A thread is opened
        last, so that none is left empty."""
        settings, store = self.core.live.now, self._store(handoff.agent)
        home, channel = await store.read(partial(_home_and_channel, handoff.account, settings))
        session = await store.read(lambda tx: tx.sessions.get(handoff.session))
        if session is None:
            raise Refused("the conversation was deleted")
        kind = None if channel is None else channel.kind
        source = Source(
            address=home, kind=kind or SourceKind.GROUP, guild=(channel and channel.guild) or None
        )
        threads = self._threads(handoff.account)
        if threads is not None:
            private = kind is SourceKind.PRIVATE
            inside = replace(
                source, kind=SourceKind.PRIVATE if private else SourceKind.THREAD, parent_chat=home.chat
            )
            await self._check_agent(handoff, inside)
            opened = await _open_thread(threads, home, session)
            if opened is not None:
                return HandoffPlace(source=replace(inside, address=opened))
        await self._check_agent(handoff, source)
        return HandoffPlace(source=source, is_guessed=kind is None)

    async def _check_agent(self, handoff: Handoff, source: Source) -> None:
        inbound = Inbound(delivery=DeliveryId(handoff.id), source=source, at=handoff.created_at)
        agent = await route(inbound, self.core.live.now, self.core.agents, self.select)
        if agent != handoff.agent:
            raise UserError(
                f"{source.address} belongs to the agent “{agent}”, and this conversation to"
                f" “{handoff.agent}”."
            )

    def _threads(self, account: str) -> Threads | None:
        """Who opens threads there; None where there are none."""
        platform = self.platform(account)
        if platform is None:
            raise Unreachable(f"{account} is not connected")
        able = platform.capabilities.threads is not Grade.NONE
        return platform if able and isinstance(platform, Threads) else None


async def _open_thread(threads: Threads, home: Address, session: Session) -> Address | None:
    """A fresh thread in the home channel; None where that is refused."""
    name = session.title or f"Hermes {session.id}"
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            return await threads.open_thread(replace(home, thread=None), name)
    except TimeoutError:
        raise Unreachable("no thread was opened in time", maybe_done=True) from None
    except Refused as error:
        log.info("handoff.no_thread home=%s why=%s", home, error)
        return None


def _home_and_channel(account: str, settings: Settings, tx: Tx) -> tuple[Address, Channel | None]:
    home = real_place(tx, home_of(tx, account, settings))
    known = {one.address: one for one in tx.directory.channels()}
    whole = known.get(replace(home, thread=None))
    # A topic from which nobody wrote yet is as private as its chat.
    private = whole if whole is not None and whole.kind is SourceKind.PRIVATE else None
    return home, known.get(home, private)


def _end(handoff: Handoff) -> datetime:
    return handoff.until or handoff.created_at + timedelta(seconds=HANDOFF_SECONDS)


def _claim(ident: str, now: datetime, tx: Tx) -> Handoff | None:
    """Claim the hand-off; None if somebody has it, or it is over."""
    known = tx.handoffs.get(ident)
    if known is None or not known.state.open or known.due_at > now:
        return None
    if known.state is HandoffState.RUNNING and known.attempts % MOST_ATTEMPTS == 0:
        why = "the gateway stopped each time while it was being handed over"
        tx.handoffs.change(known, replace(known, state=HandoffState.FAILED, error=why))
        return None
    lease = now + timedelta(seconds=LEASE_SECONDS)
    claimed = replace(known, state=HandoffState.RUNNING, attempts=known.attempts + 1, due_at=lease)
    return claimed if tx.handoffs.change(known, claimed) else None


class HandoffPlace(Struct, frozen=True, kw_only=True):
    """Where a conversation goes. If it `is_guessed`, nobody has written from there yet, so what kind of chat
    it is will be known from the first message."""

    source: Source
    is_guessed: bool = False

    @property
    def kinds(self) -> tuple[SourceKind, ...]:
        """What messages from there may come as."""
        if not self.is_guessed:
            return (self.source.kind,)
        threaded = (SourceKind.THREAD,) if self.source.address.thread is not None else ()
        return (SourceKind.PRIVATE, SourceKind.GROUP, SourceKind.CHANNEL, *threaded)


class CompleteHandoff(Struct, frozen=True, kw_only=True):
    """The transaction that completes a hand-off. The place is bound to the conversation for everybody, also
    where people have sessions of their own otherwise: who had one there can go back to it."""

    handoff: Handoff
    place: HandoffPlace
    settings: Settings
    now: datetime

    def unit(self, tx: Tx) -> Handoff:
        handoff, source = self.handoff, self.place.source
        session = tx.sessions.get(handoff.session)
        if session is None:
            raise Lost("the conversation was deleted")
        done = replace(
            handoff, state=HandoffState.COMPLETED, to=source.address, left=self._leave(tx), error=""
        )
        if not tx.handoffs.change(handoff, done):
            raise Lost(f"hand-off {handoff.id} is somebody else's by now")
        before = self._bind(tx, session)
        # What the owner of the machine may do without asking is not for everybody in a chat.
        tx.sessions.save(replace(session, ended=None, expires_at=None, yolo=False, updated_at=self.now))
        self._say(tx, session, before)
        return done

    def _bind(self, tx: Tx, session: Session) -> list[SessionId]:
        """Bind the place to the session; those that it was bound to before."""
        source, agent = self.place.source, self.handoff.agent
        kinds = [replace(source, kind=kind) for kind in self.place.kinds]
        bound = {chat_session_key(one, agent, self.settings): one for one in kinds}
        for known in tx.directory.bound(source.address):
            bound |= {key: where for key, where in tx.bindings.of(known) if where.address == source.address}
        before = [tx.bindings.get(key) for key in bound]
        for key, where in bound.items():
            tx.bindings.bind(key, session.id, where, self.now)
        return [known for known in dict.fromkeys(before) if known not in (None, session.id)]

    def _leave(self, tx: Tx) -> SessionId:
        """A new session for who handed this one over."""
        key = session_key(self.handoff.source, self.handoff.agent)
        if tx.bindings.get(key) == self.handoff.session:
            fresh = next_session(tx, key, self.handoff.source, self.now)
        else:
            fresh = begin_session(key, self.handoff.source, self.now)
            tx.sessions.add(fresh)
        tx.sessions.save(replace(fresh, expires_at=self.now + UNUSED))
        return fresh.id

    def _say(self, tx: Tx, session: Session, before: list[SessionId]) -> None:
        handoff, place = self.handoff, self.place.source
        to = place.address
        if before:
            back = f"/resume {before[0]}" if len(before) == 1 else "/resume"
            text = f"A conversation comes over from the terminal. {back} goes back to yours."
            notify(tx, f"{handoff.id}:0", to, text, self.now)
        hello = TurnInput(text=_NOTICE.format(place=to), guidance=Guidance(unattended="deny"))
        reply = ReplyPlace(to=to)
        tx.turns.add(make_turn(session, Cause.HANDOFF, hello, self.now, source=place, reply=reply))
