"""The gateway as entry and app see it: one object to call, which starts its parts in order and stops them in
order. `wiring.py` builds the parts; they call each other directly, never through here.

Start: a new epoch → intake, expiry and upkeep → actors and lanes look for what earlier lives left. Nothing
waits for anything else: a turn that resumes holds up no new message. Stop: intake closes → running turns
reach a record → chats whose answer is unfinished are told → lanes drain → the epoch is closed as clean."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from hermes.control.commands.menu import show_menu
from hermes.control.commands.progress import ProgressBoard
from hermes.control.commands.registry import SlashCommand, usable
from hermes.control.commands.run import give_command
from hermes.control.core import Agents, no_such_agent
from hermes.control.doors.following import watch_turn
from hermes.control.handoff.requests import HANDOFF_SECONDS, handoff_words
from hermes.control.jobs.editing import JobDesk, is_own
from hermes.control.outbound.notices import begin_life, tell_unfinished
from hermes.control.people.routing import route
from hermes.control.sessions import callers
from hermes.control.sessions.administration import remove_session
from hermes.control.sessions.callers import Caller
from hermes.control.sessions.repeats import SubmittedTurn
from hermes.control.sessions.submission import Submission, check_size
from hermes.control.turn.inbound_files import MOST_INLINE
from hermes.control.turn.passwords import PasswordDesk
from hermes.control.turn.questions import answer
from hermes.control.turn.stopping import stop_session, stop_turn
from hermes.control.usage import count_usage
from hermes.control.wiring import GatewayParts, WiredGateway
from hermes.control.workers import TaskSet, end_tasks
from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.command_line import CallerReply
from hermes.domain.chats.handoff import HandoffState
from hermes.domain.chats.message import Attachment, Inbound
from hermes.domain.chats.rows import OpenWork
from hermes.domain.errors import UserError
from hermes.domain.ids import EVERY_AGENT, AgentId, DeliveryId, SessionId, TurnId
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store, Tx
from hermes.domain.ports.world import Media
from hermes.domain.safety.concealing import concealed
from hermes.domain.text import storable
from hermes.domain.turns.event import FeedItem
from hermes.domain.turns.gateway_event import SessionRemoved, TurnWoken
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Answer, AnswerResult, Turn
from hermes.domain.word import replace

log = logging.getLogger("hermes.gateway")
T = TypeVar("T")
Continuation = TypeVar("Continuation", SubmittedTurn, SubmittedTurn | None)
STOP_SECONDS = 10.0


class Gateway(WiredGateway):
    def __init__(self, parts: GatewayParts) -> None:
        super().__init__(parts)
        self._menus = TaskSet()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self._hurry = asyncio.Event()
        self.passwords = PasswordDesk()
        self.progress = ProgressBoard()

    # --- its life ---

    async def start(self) -> None:
        parts = self._parts
        now = parts.clock.now()
        boot = await parts.store.write(lambda tx: begin_life(tx, parts.live.now, now))
        log.info("gateway.start epoch=%d unclean=%s", boot.epoch, boot.unclean)
        await self.processes.tell_lost()
        self._tasks = [
            parts.loops.keep("intake", self.intake.live),
            parts.loops.keep("expiry", self.questions.live),
            parts.loops.keep("cron", self.cron.live),
            parts.loops.keep("handoffs", self.handoffs.live),
            parts.loops.keep("hook events", self.observers.live),
            parts.loops.keep("learning", self.learning.live),
            parts.loops.keep("processes", self.processes.live),
            *([] if self.titles is None else [parts.loops.keep("titles", self.titles.live)]),
            *self.chores.begin(parts.loops),
        ]
        self.actors.begin(boot.epoch)
        self.compressions.workers.search()
        self.spoken.workers.search()

    async def stop(
        self, grace: float = STOP_SECONDS, *, restarts: bool = False, broken: bool = False
    ) -> None:
        """Come to rest; `restarts` says that another life is to follow at once, and people are told so. A
        stop that nobody asked for is `broken`: what ran counts as crashed, or it might end every life to
        come."""
        if self._closing or not self._tasks:
            return
        self._closing = True
        await end_tasks(self._tasks)
        await self.intake.close()
        await self.handoffs.close()
        await self.compressions.workers.close(0.0, self._hurry)
        await self.flushes.workers.close(0.0, self._hurry)
        await self.spoken.workers.close(0.0, self._hurry)
        busy = tuple(self.actors.workers.active)
        await self.actors.workers.close(grace, self._hurry)
        parts = self._parts
        for to in await tell_unfinished(parts, busy, self.actors.epoch, restarts=restarts):
            self.delivery.ring(to)
        await self.cron.close()
        await self._menus.close()
        await self.delivery.close(grace, self._hurry)
        await parts.loops.attempt("hook events", self.observers.tell_waiting, "last events")
        ended = parts.clock.now()
        if not broken:
            await parts.store.write(lambda tx: tx.recovery.close(self.actors.epoch, ended))
        log.info("gateway.stop epoch=%d clean=%s", self.actors.epoch, not broken)

    def hurry(self) -> None:
        """A stop that is under way gives up its grace; what is cut off goes on after the next start."""
        self._hurry.set()

    # --- platforms ---

    async def accept(self, account: str, items: Sequence[Inbound], cursor: str | None) -> None:
        """Store what a platform delivered; returns after the commit, and only then may it be acknowledged."""
        conceal = self._parts.conceal.loaded
        clean = [concealed(replace(item, text=storable(item.text)), conceal) for item in items]
        now = self._parts.clock.now()

        def accept(tx: Tx) -> int:
            return tx.inbox.add(account, clean, cursor, now)

        new = await self._parts.store.write(accept, first=True)
        if new:
            self.intake.ring()

    async def cursor(self, account: str) -> str | None:
        return await self._parts.store.read(lambda tx: tx.inbox.cursor(account))

    def attach(self, account: str, platform: Platform) -> None:
        parts = self._parts
        self.delivery.attach(account, platform)
        self._menus.begin(show_menu(parts, account, platform), f"menu {account}")
        self.handoffs.ring()
        self.actors.workers.search()  # turns may wait for files of this account

    def detach(self, account: str) -> None:
        self.accounts.up.pop(account, None)

    def reaches(self, to: Address) -> bool:
        """Whether its account is up now; if not, what is sent there waits."""
        return to.credential in self.accounts.up

    # --- doors that know who and whom ---

    @property
    def agents(self) -> Agents:
        return self._parts.agents

    @property
    def busy_agents(self) -> set[AgentId]:
        """Those that have a turn or a job's script under way."""
        return {agent for agent, _ in self.actors.workers.active} | self.cron.busy_agents

    @property
    def default_agent(self) -> AgentId:
        return self._parts.live.now.default_agent

    def hosts(self, agent: AgentId) -> bool:
        """Whether there is such an agent that people may speak with."""
        return agent in self._parts.agents and self._parts.live.now.speaks(agent)

    def check_speaks(self, agent: AgentId) -> None:
        """A `UserError` if nobody can speak with it."""
        if not self.hosts(agent):
            raise no_such_agent(agent, filter(self._parts.live.now.speaks, self._parts.agents))

    @property
    def aliases(self) -> Mapping[str, str]:
        """Names that a turn may give as its model, and the models behind them."""
        return self._parts.aliases

    async def route(self, source: Source, text: str = "", maker: Source | None = None) -> AgentId:
        """The agent that words from there belong to, which name none. Hooks may be asked."""
        parts = self._parts
        inbound = Inbound(delivery=DeliveryId("-"), source=source, text=text, at=parts.clock.now())
        return await route(inbound, parts.live.now, parts.agents, parts.select, maker)

    async def keep_media(self, agent: AgentId, data: bytes, mime: str) -> Attachment:
        """Store a picture that a door was given; what this returns can go with a message."""
        return (await (await self._media(agent)).put(data, mime)).attached()

    async def keep_file(self, agent: AgentId, data: bytes, name: str | None) -> Attachment:
        """As `keep_media`, for any file: what it is its bytes tell, and its turn brings it to where its
        commands see it."""
        media, limit = await self._media(agent), self._parts.live.now.gateway.max_inbound_media_bytes
        item = await media.receive(lambda sink: sink(data), limit=limit)
        inline = item.mime.startswith("text/") and len(data) <= MOST_INLINE
        text = storable(data.decode("utf-8", "replace")) if inline else ""
        return replace(item.attached(name), pending=True, text=text)

    async def _media(self, agent: AgentId) -> Media:
        media = (await self._parts.agents.get(agent)).media
        if media is None:
            raise UserError(f"The agent “{agent}” keeps no files.")
        return media

    async def submit(self, words: Submission) -> Turn:
        """A turn for a terminal or an API client, in one commit; its feed is open before this returns."""
        return (await self.ask(words)).turn

    async def ask(self, words: Submission) -> SubmittedTurn:
        """As `submit`, telling also whether this was asked before."""
        runtime = await self._parts.agents.get(words.agent)
        check_size(words.input.text, self._parts.live.now.gateway.max_message_chars)
        return await self.submitter.ask(runtime, words)

    @property
    def keeps(self) -> timedelta:
        """How long a client may come back to its request."""
        return timedelta(days=self._parts.live.now.gateway.dedupe_days)

    async def read(self, agent: AgentId, query: Callable[[Tx], T]) -> T:
        """Ask something of an agent's part of the store, or of all of it (`EVERY_AGENT`). What an agent left
        that is gone can be read, too."""
        return await self._parts.store.scoped(agent).read(query)

    async def write(self, agent: AgentId, unit: Callable[[Tx], T]) -> T:
        """Change something in an agent's part of the store that no actor has to hear of."""
        return await self._store(agent).write(unit, first=True)

    async def command(self, caller: Caller, text: str, key: str = "") -> CallerReply:
        """A slash command of a door that shows the reply itself and watches the turn it may have made; how it
        stands before that is told under the `key`."""
        self._check(caller.agent)
        platforms = tuple(self._parts.capabilities)
        with self.progress.at_work(key):
            replied = await give_command(
                self._parts, caller, storable(text), self.info(), platforms, partial(self.progress.tell, key)
            )
        for turn in (replied.turn, replied.beside):
            if turn is not None:
                self.feeds.open(turn.id)
        for session in {replied.before, replied.session, *replied.wakes}:
            self.actors.ring(caller.agent, session)
        return await self._handed_over(caller.agent, replied) if replied.handoff else replied

    async def commands(self, caller: Caller) -> list[SlashCommand]:
        """The commands that a caller may use, for completion."""
        runtime = await self._parts.agents.get(caller.agent)
        return usable(caller.source, self._parts.live.now, runtime)

    async def _handed_over(self, agent: AgentId, replied: CallerReply) -> CallerReply:
        """Wait for the hand-off, so that its door can say where the conversation went, and leave. The worker
        gives up one that takes too long, also if nobody waits any more."""
        self.handoffs.ring()
        handoff = await self.handoffs.settled(agent, replied.handoff, HANDOFF_SECONDS + STOP_SECONDS)
        if handoff is None:
            return replied
        return replace(
            replied,
            text=handoff_words(handoff),
            session=handoff.left or replied.session,
            over=handoff.state is HandoffState.COMPLETED,
        )

    async def wake(
        self, agent: AgentId, session: SessionId, text: str, cause: TurnId | None = None
    ) -> Turn | None:
        """Something a session waited for has happened: it hears of it in a turn of its own, which may do what
        the turn that caused it might."""
        now = self._parts.clock.now()
        turn = await self._store(agent).write(lambda tx: callers.wake_session(tx, session, text, now, cause))
        if turn is not None:
            self.announce_woken(turn)
        return turn

    async def woken_turns(self) -> AsyncGenerator[Turn]:
        """The turns that no door began, as they come."""
        async with contextlib.aclosing(self.events.follow(TurnWoken)) as events:
            async for event in events:
                if isinstance(event, TurnWoken):
                    turn = await self.read(event.agent, partial(_get_turn, event.turn))
                    if turn is not None:
                        yield turn

    def show_woken(self, show: Callable[[Turn], None]) -> None:
        """Show each of them from now on until the gateway stops."""

        async def follow() -> None:
            async for turn in self.woken_turns():
                show(turn)

        self._tasks.append(self._parts.loops.keep("woken turns", follow))

    async def enter(self, caller: Caller, wanted: str | None, model: str | None = None) -> Session:
        """Put a door into a session: the one it wants by id or title, or a new one."""
        now = self._parts.clock.now()
        store = self._store(caller.agent)
        into, news = await store.write(
            lambda tx: callers.enter_session(tx, caller, wanted, model, now), first=True
        )
        self.events.emit_all(news)
        return into

    def watch(
        self, agent: AgentId, turn: TurnId, after: int = 0, *, live: bool = True
    ) -> AsyncIterator[FeedItem]:
        """A turn from record `after` on: what is stored, then what happens (without `live` only what is
        stored of it), to its end."""
        return watch_turn(self.feeds, self._parts.store.scoped(agent), turn, after, live=live)

    async def answer(self, agent: AgentId, given: Answer) -> AnswerResult:
        now, given = self._parts.clock.now(), concealed(given, self._parts.conceal.loaded)
        outcome = await self._store(agent).write(lambda tx: answer(tx, given, now), ends=True)
        if outcome.session is not None:
            self.actors.ring(agent, outcome.session)
        return outcome

    async def go_on(
        self, agent: AgentId, unit: Callable[[Tx], Continuation], refused: Exception | None = None
    ) -> Continuation:
        """Write what lets a waiting turn continue (`TakeToolResults`, `ContinueTurn`), and wake it. If it is
        `refused`, nothing that resumes a turn is written."""

        def write(tx: Tx) -> Continuation:
            going = unit(tx)
            if refused is not None and going is not None and going.resumed:
                raise refused
            return going

        going = await self._store(agent).write(write, ends=True)
        if going is not None:
            if going.resumed:
                self.feeds.drive(going.turn.id)
            self.actors.ring(agent, going.turn.session)
        return going

    async def stop_turn(self, agent: AgentId, turn: TurnId, reason: str) -> bool:
        store = self._parts.store.scoped(agent)
        stopping = await store.write(lambda tx: stop_turn(tx, turn, reason), ends=True)
        if stopping is not None:
            self.actors.ring(agent, stopping.session)
        return stopping is not None

    async def delete_session(self, agent: AgentId, session: SessionId) -> None:
        """Delete a session; what runs in it is stopped first. What an actor still holds of it is void: its
        next write is refused, and a later session of the same name is another."""
        store = self._parts.store.scoped(agent)
        why = "its session was deleted"
        stopping = await store.write(lambda tx: stop_session(tx, session, why), ends=True)
        self.actors.ring(agent, session)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                for turn in stopping:
                    async for _ in self.watch(agent, turn.id, live=False):
                        pass
        for open_turn in await store.write(lambda tx: remove_session(tx, session), ends=True):
            self.feeds.end(open_turn)
        self.actors.warm.take(session)
        self.events.emit(SessionRemoved(agent=agent, session=session))

    async def count_usage(self) -> None:
        """Bring the sums of what models took up to date."""
        await count_usage(self._parts.store)

    async def open_work(self) -> OpenWork:
        """How much is not done yet, of all agents."""
        return await self._parts.store.read(lambda tx: tx.recovery.open_work())

    # --- inside ---

    def _check(self, agent: AgentId) -> None:
        if agent not in self._parts.agents and agent != EVERY_AGENT:
            raise no_such_agent(agent, self._parts.agents)

    def _store(self, agent: AgentId) -> Store:
        self._check(agent)
        return self._parts.store.scoped(agent)

    def jobs(self, agent: AgentId) -> JobDesk:
        self._check(agent)
        return self.cron.desk(agent)

    def jobs_of(self, agent: AgentId, source: Source | None) -> JobDesk:
        """The jobs of an agent for who speaks here: their own, or all if they are an admin."""
        admin = source is not None and self._parts.around.is_admin(source)
        return self.jobs(agent).seen_by(lambda job: admin or is_own(job, source), source)


def _get_turn(turn: TurnId, tx: Tx) -> Turn | None:
    return tx.turns.get(turn)
