"""The gateway: what doors talk to. It owns the parts that live, starts them in order and stops them in order.

Start: a new epoch → intake, expiry and upkeep → actors and lanes look for what earlier lives left. Nothing
waits for anything else: a turn that resumes holds up no new message. Stop: intake closes → running turns
reach a record → chats whose answer is unfinished are told → lanes drain → the epoch is closed as clean."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from hermes.control.chores import Chores, forgetting, tidying
from hermes.control.commands.registry import CommandContext, GatewayInfo
from hermes.control.doors.continuing import ContinuedTurn
from hermes.control.doors.slash_commands import CallerReply, give_command
from hermes.control.doors.submitter import ActorKey, Submitter
from hermes.control.doors.watching import watch_turn
from hermes.control.feed import Feeds
from hermes.control.handoff.requests import handoff_words
from hermes.control.handoff.worker import HandoffWorker
from hermes.control.inbound.intake import Intake, IntakeContext
from hermes.control.jobs.editing import JobDesk, is_own
from hermes.control.jobs.targets import named_targets
from hermes.control.jobs.ticker import Cron
from hermes.control.outbound.lanes import Delivery
from hermes.control.outbound.paused_accounts import PausedAccounts
from hermes.control.outbound.restart_notices import begin_life, tell_unfinished
from hermes.control.outbound.sending import MessageSender
from hermes.control.people.routing import route
from hermes.control.runtime import Runtime
from hermes.control.sessions.administration import remove_session, stop_turn, stop_turns
from hermes.control.sessions.callers import (
    Caller,
    choose_model,
    enter_session,
    entering_news,
    open_turns,
    wake_session,
)
from hermes.control.sessions.expiry import SessionExpiry
from hermes.control.sessions.submission import Submission, SubmittedTurn, check_size
from hermes.control.tally import GatewayCounters
from hermes.control.turn.abandoned import BrokenTurns
from hermes.control.turn.actor import ActorContext, SessionActor
from hermes.control.turn.chat_context import place_prompt
from hermes.control.turn.ending import AnswerWriter
from hermes.control.turn.inbound_files import AttachmentFetcher
from hermes.control.turn.questions import AnswerResult, QuestionExpiry, answer, settled_of
from hermes.control.turn.session_cache import WarmSession, WarmSessions
from hermes.control.wiring import GatewayParts
from hermes.control.workers import FailurePolicy, Workers
from hermes.domain.address import DEFAULT_ACCOUNT, Address, Source
from hermes.domain.capabilities import Capabilities
from hermes.domain.errors import UserError
from hermes.domain.event import Entry, FeedItem
from hermes.domain.ids import AgentId, DeliveryId, QuestionId, SessionId, TurnId
from hermes.domain.message import Attachment, Inbound
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Tx
from hermes.domain.rows import OpenWork
from hermes.domain.session import Session
from hermes.domain.text import storable
from hermes.domain.turn import Answer, Turn

log = logging.getLogger("hermes.gateway")
T = TypeVar("T")
Continuation = TypeVar("Continuation", SubmittedTurn, ContinuedTurn | None)
STOP_SECONDS = 10.0
HANDOFF_SECONDS = 20.0
_MEGABYTE = 1024 * 1024


class Gateway:
    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self.feeds = Feeds()
        self.tally = GatewayCounters()
        self._warm = WarmSessions(parts.settings.gateway.cache_mb * _MEGABYTE)
        self._delivery = Delivery(
            store=parts.store,
            loops=parts.loops,
            settings=parts.settings,
            tally=self.tally,
            hooks=parts.hooks,
        )
        self._outcomes = AnswerWriter(
            settings=parts.settings,
            clock=parts.clock,
            capabilities=self.capabilities,
            ring_lane=self._delivery.ring,
            begin=self._delivery.begin,
        )
        self._actors: Workers[ActorKey] = Workers(
            start=self._actor,
            page=self._due,
            places=parts.settings.gateway.max_running,
            name="session",
            loops=parts.loops,
            remedy=FailurePolicy(head=self._giving_up().head, give_up=self._giving_up().end),
        )
        self.sessions_expiry = SessionExpiry(
            runtimes=parts.runtimes,
            settings=parts.settings,
            clock=parts.clock,
            flush=parts.flush,
            hooks=parts.hooks,
        )
        self.courier = MessageSender(
            store=parts.store,
            clock=parts.clock,
            settings=parts.settings,
            accounts=self._accounts,
            aliases=parts.channel_names,
            capabilities=self.capabilities,
            ring=self._delivery.ring,
            wake=self._ring_known,
        )
        self.sends = self._delivery.sends
        self.resting = PausedAccounts(parts.store)
        self._job_targets = named_targets(parts.channel_names, parts.accounts or ())
        self.cron = self._make_cron()
        self.handoffs = self._make_handoffs()
        forget, tidy = forgetting(parts.store, parts.clock, self.keeps), tidying(parts.runtimes, parts.clock)
        self.chores = Chores(parts.clock, [forget, self.sessions_expiry.chore, tidy, *parts.chores])
        self._around: ActorContext | None = None
        self._intake: Intake | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._epoch = 0
        self._closing = False
        self._hurry = asyncio.Event()
        self._listeners: list[Callable[[Turn], None]] = []
        self._entrance: Submitter | None = None

    def _make_cron(self) -> Cron:
        parts = self._parts
        return Cron(
            store=parts.store,
            runtimes=parts.runtimes,
            settings=parts.settings,
            clock=parts.clock,
            loops=parts.loops,
            owner=parts.owner,
            outcomes=self._outcomes,
            targets=self._job_targets,
            wake_session=self._ring_known,
            wake_lane=self._delivery.ring,
        )

    def _make_handoffs(self) -> HandoffWorker:
        parts = self._parts
        return HandoffWorker(
            runtimes=parts.runtimes,
            settings=parts.settings,
            clock=parts.clock,
            select=parts.select,
            platform=self._delivery.platform,
            wake_session=self._ring_known,
            wake_lane=self._delivery.ring,
        )

    # --- its life ---

    async def start(self) -> None:
        parts = self._parts
        now = parts.clock.now()
        boot = await parts.store.write(lambda tx: begin_life(tx, parts.settings, now))
        self._epoch = boot.epoch
        log.info("gateway.start epoch=%d unclean=%s", boot.epoch, boot.unclean)
        self._around = ActorContext(
            feeds=self.feeds,
            warm=self._warm,
            outcomes=self._outcomes,
            clock=parts.clock,
            epoch=boot.epoch,
            committed=self._committed,
            fetching=AttachmentFetcher(
                platform=self._delivery.platform, clock=parts.clock, settings=parts.settings
            ),
            place=partial(place_prompt, self.capabilities),
            hooks=parts.hooks,
            loops=parts.loops,
        )
        self._entrance = Submitter(
            store=parts.store,
            settings=parts.settings,
            around=self._around,
            actors=self._actors,
            ring=self._ring_session,
        )
        world = IntakeContext(
            store=parts.store,
            clock=parts.clock,
            settings=parts.settings,
            runtimes=parts.runtimes,
            capabilities=self.capabilities,
            ring_session=self._ring_session,
            ring_lane=self._delivery.ring,
            end_turn=self._giving_up().end_unreadable,
            ring_jobs=self._commanded,
            restart=parts.restart,
            select=parts.select,
            around=self._commands_around,
            hooks=parts.hooks,
            loops=parts.loops,
        )
        self._intake = Intake(world)
        expiry = QuestionExpiry(store=parts.store, clock=parts.clock, ring=self._ring_known)
        self._tasks = [
            parts.loops.keep("intake", self._intake.live),
            parts.loops.keep("expiry", expiry.live),
            parts.loops.keep("cron", self.cron.live),
            parts.loops.keep("handoffs", self.handoffs.live),
            *self.chores.begin(parts.loops),
        ]
        self._actors.search()

    async def stop(self, grace: float = STOP_SECONDS, *, restarts: bool = False) -> None:
        """Come to rest; `restarts` says that another life is to follow at once, and people are told so."""
        if self._closing or self._intake is None:
            return
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._intake.close()
        busy = self._actors.keys
        await self._actors.close(grace, self._hurry)
        for to in await tell_unfinished(self._parts, busy, self._epoch, restarts=restarts):
            self._delivery.ring(to)
        await self.cron.close()
        await self._delivery.close(grace, self._hurry)
        now = self._parts.clock.now()
        await self._parts.store.write(lambda tx: tx.recovery.close(self._epoch, now))
        log.info("gateway.stop epoch=%d", self._epoch)

    def hurry(self) -> None:
        """A stop that is under way gives up its grace; what is cut off goes on after the next start."""
        self._hurry.set()

    # --- platforms ---

    async def accept(self, account: str, items: Sequence[Inbound], cursor: str | None) -> None:
        """Store what a platform delivered; returns after the commit, and only then may it be acknowledged."""
        clean = [replace(item, text=storable(item.text)) for item in items]
        now = self._parts.clock.now()

        def accept(tx: Tx) -> int:
            return tx.inbox.add(account, clean, cursor, now)

        new = await self._parts.store.write(accept, first=True)
        if new and self._intake is not None:
            self._intake.ring()

    async def cursor(self, account: str) -> str | None:
        return await self._parts.store.read(lambda tx: tx.inbox.cursor(account))

    def attach(self, account: str, platform: Platform) -> None:
        self._delivery.attach(account, platform)
        self.handoffs.ring()
        self._actors.search()  # turns may wait for files of this account

    def detach(self, account: str) -> None:
        self._delivery.detach(account)

    def capabilities(self, to: Address) -> Capabilities:
        """What can be done there: as the account says itself while it is up, for servers differ."""
        up = self._delivery.platform(to.credential)
        told = self._parts.capabilities.get(to.platform) if up is None else up.capabilities
        return told or _NO_ABILITIES

    def knows(self, to: Address) -> bool:
        """Whether there is such a platform at all, and such an account of it."""
        named = to.account != DEFAULT_ACCOUNT
        return to.platform in self._parts.capabilities and (not named or to.credential in self._accounts())

    def reaches(self, to: Address) -> bool:
        """Whether its account is up now; if not, what is sent there waits."""
        return to.credential in self._delivery.accounts

    def _accounts(self) -> Collection[str]:
        said = self._parts.accounts
        return {*(self._parts.capabilities if said is None else said), *self._delivery.accounts}

    # --- doors that know who and whom ---

    @property
    def aliases(self) -> Mapping[str, str]:
        """Names that a turn may give as its model, and the models behind them."""
        return self._parts.aliases

    async def route(self, source: Source, text: str = "", maker: Source | None = None) -> AgentId:
        """The agent that words from there belong to, which name none. Hooks may be asked."""
        parts = self._parts
        inbound = Inbound(delivery=DeliveryId("-"), source=source, text=text, at=parts.clock.now())
        return (await route(inbound, parts.settings, parts.runtimes, parts.select, maker)).agent

    async def keep_media(self, agent: AgentId, data: bytes, mime: str) -> Attachment:
        """Store a file that a door was given; what this returns can go with a message."""
        media = self._runtime(agent).media
        if media is None:
            raise UserError(f"The agent “{agent}” keeps no files.")
        return (await media.put(data, mime)).attached()

    async def submit(self, words: Submission) -> Turn:
        """A turn for a terminal or an API client, in one commit; its feed is open before this returns."""
        return (await self.ask(words)).turn

    async def ask(self, words: Submission) -> SubmittedTurn:
        """As `submit`, telling also whether this was asked before."""
        runtime = self._runtime(words.agent)
        check_size(words.input.text, self._parts.settings.gateway.max_message_chars)
        assert self._entrance is not None
        return await self._entrance.ask(runtime, words)

    @property
    def keeps(self) -> timedelta:
        """How long a request can be come back to."""
        return timedelta(days=self._parts.settings.gateway.dedupe_days)

    async def read(self, agent: AgentId, query: Callable[[Tx], T]) -> T:
        """Ask something of an agent's part of the store."""
        return await self._runtime(agent).store.read(query)

    async def write(self, agent: AgentId, unit: Callable[[Tx], T]) -> T:
        """Change something in an agent's part of the store that no actor has to hear of."""
        return await self._runtime(agent).store.write(unit, first=True)

    def deliver(self, to: Address) -> None:
        """Something was put into the outbox for this chat."""
        self._delivery.ring(to)

    async def command(self, caller: Caller, text: str) -> CallerReply:
        """A slash command of a door that shows the reply itself and watches the turn it may have made."""
        runtime, parts = self._runtime(caller.agent), self._parts
        about = CommandContext(
            settings=parts.settings,
            model=runtime.model,
            now=parts.clock.now(),
            platforms=tuple(parts.capabilities),
            gateway=self._commands_around,
        )
        replied = await give_command(runtime.store, caller, storable(text), about, parts.hooks)
        if replied.turn is not None:
            self.feeds.open(replied.turn.id)
        for session in {replied.before, replied.session, *replied.wakes}:
            self._ring_known(caller.agent, session)
        self._commanded()
        return await self._handed_over(caller.agent, replied) if replied.handoff else replied

    async def _handed_over(self, agent: AgentId, replied: CallerReply) -> CallerReply:
        """Wait a moment for the hand-off, so that its door can say where the conversation went."""
        self.handoffs.ring()
        known = await self.handoffs.settled(agent, replied.handoff, HANDOFF_SECONDS)
        if known is None:
            return replied
        return replace(replied, text=handoff_words(known), session=known.left or replied.session)

    async def wake(self, agent: AgentId, session: SessionId, text: str) -> Turn | None:
        """Something a session waited for has happened: it hears of it in a turn of its own."""
        now = self._parts.clock.now()
        turn = await self._runtime(agent).store.write(lambda tx: wake_session(tx, session, text, now))
        if turn is not None:
            self.feeds.open(turn.id)
            for listener in list(self._listeners):
                listener(turn)
            self._ring_known(agent, session)
        return turn

    def listen(self, listener: Callable[[Turn], None]) -> Callable[[], None]:
        """A door wants to know of turns that it did not begin itself, until it calls what this returns."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    async def enter(self, caller: Caller, wanted: str | None, model: str | None = None) -> Session:
        """Put a door into a session: the one it wants by id or title, or a new one."""
        now = self._parts.clock.now()
        store = self._runtime(caller.agent).store
        into = await store.write(
            lambda tx: choose_model(tx, enter_session(tx, caller, wanted, now), model), first=True
        )
        self._parts.hooks.tell_all(entering_news(caller, into, now))
        return into

    async def bound(self, caller: Caller) -> SessionId | None:
        """The session that a door was in last."""
        return await self._runtime(caller.agent).store.read(lambda tx: tx.bindings.get(caller.key))

    async def unfinished(self, caller: Caller, session: SessionId | None = None) -> list[Turn]:
        """The open turns of a session, or of the caller's newest session that has any."""
        return await self._runtime(caller.agent).store.read(lambda tx: open_turns(tx, caller, session))

    async def settled(self, agent: AgentId, turns: Sequence[Turn]) -> frozenset[QuestionId]:
        """The questions of these turns that are answered or withdrawn, on record yet or not."""
        return await self._runtime(agent).store.read(lambda tx: settled_of(tx, turns))

    def watch(
        self, agent: AgentId, turn: TurnId, after: int = 0, *, live: bool = True
    ) -> AsyncIterator[FeedItem]:
        """A turn from record `after` on: what is stored, then what happens (without `live` only what is
        stored of it), to its end."""
        return watch_turn(self.feeds, self._runtime(agent).store, turn, after, live=live)

    async def answer(self, agent: AgentId, given: Answer) -> AnswerResult:
        now = self._parts.clock.now()
        outcome = await self._runtime(agent).store.write(lambda tx: answer(tx, given, now), ends=True)
        if outcome.session is not None:
            self._ring_known(agent, outcome.session)
        return outcome

    async def go_on(self, agent: AgentId, unit: Callable[[Tx], Continuation]) -> Continuation:
        """Write what lets a turn that waits go on (by `Bringing` or `Continuing`), and wake its session."""
        going = await self._runtime(agent).store.write(unit, ends=True)
        if going is not None:
            self._ring_known(agent, going.turn.session)
        return going

    async def stop_turn(self, agent: AgentId, turn: TurnId, reason: str) -> bool:
        """Ask a turn to stop; False if it had ended already."""
        store = self._runtime(agent).store
        stopping = await store.write(lambda tx: stop_turn(tx, turn, reason), ends=True)
        if stopping is not None:
            self._ring_known(agent, stopping.session)
        return stopping is not None

    async def delete_session(self, agent: AgentId, session: SessionId) -> None:
        """Forget a session for good; what goes on in it is stopped first. What an actor still holds of it is
        void: its next write is refused, and a later session of the same name is another."""
        store = self._runtime(agent).store
        why = "its session was deleted"
        stopping = await store.write(lambda tx: stop_turns(tx, session, why), ends=True)
        self._ring_known(agent, session)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                for turn in stopping:
                    async for _ in self.watch(agent, turn, live=False):
                        pass
        for turn in await store.write(lambda tx: remove_session(tx, session), ends=True):
            self.feeds.end(turn)
        self._warm.take(session)
        await self._parts.forgotten(agent, session)

    async def open_work(self) -> OpenWork:
        """How much is not done yet, of all agents."""
        return await self._parts.store.read(lambda tx: tx.census.count())

    # --- inside ---

    def _commanded(self) -> None:
        self.cron.ring()
        self.resting.changed()

    @property
    def _commands_around(self) -> GatewayInfo:
        return replace(
            self._parts.around,
            models=self._parts.aliases,
            accounts=self._accounts(),
            is_up=lambda account: account in self._delivery.accounts,
            targets=self._job_targets,
        )

    def _committed(self, agent: AgentId, session: SessionId, entries: Sequence[Entry]) -> None:
        self.tally.see(entries)
        self._parts.committed(agent, session, entries)
        self.cron.heard(agent, session, entries)

    def _runtime(self, agent: AgentId) -> Runtime:
        runtime = self._parts.runtimes.get(agent)
        if runtime is None:
            known = ", ".join(sorted(self._parts.runtimes))
            raise UserError(f"There is no agent “{agent}”.", hint=f"Known: {known}.")
        return runtime

    def jobs(self, agent: AgentId) -> JobDesk:
        """The jobs of an agent, to look at and to change."""
        self._runtime(agent)
        return self.cron.desk(agent)

    def jobs_of(self, agent: AgentId, source: Source | None) -> JobDesk:
        """The jobs of an agent for who speaks here: their own, or all if they are an admin."""
        admin = source is not None and self._parts.around.is_admin(source)
        return replace(self.jobs(agent), sees=lambda job: admin or is_own(job, source))

    def _giving_up(self) -> BrokenTurns:
        return BrokenTurns(
            runtimes=self._parts.runtimes,
            clock=self._parts.clock,
            outcomes=self._outcomes,
            warm=self._warm,
            feeds=self.feeds,
            committed=self._committed,
        )

    def _actor(self, key: ActorKey) -> SessionActor:
        agent, session = key
        assert self._around is not None
        return SessionActor(session, self._runtime(agent), self._around)

    def _ring_session(self, agent: AgentId, session: SessionId, fresh: bool) -> None:
        if fresh:
            # Nothing was ever said in it, so there is nothing to read.
            self._warm.keep(session, WarmSession())
        self._ring_known(agent, session)

    def _ring_known(self, agent: AgentId, session: SessionId) -> None:
        if agent in self._parts.runtimes:
            self._actors.ring((agent, session))

    async def _due(self, after: int, limit: int) -> list[tuple[int, ActorKey]]:
        due = await self._parts.store.read(lambda tx: tx.recovery.due(after, limit))
        return [(row.n, (row.agent, row.session)) for row in due if row.agent in self._parts.runtimes]


_NO_ABILITIES = Capabilities()
