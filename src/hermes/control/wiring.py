"""Building a gateway: what it is built from, and its parts, each given what it needs of the others. Nothing
runs yet; `Gateway` starts and stops the parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial

from msgspec import field

from hermes.control.chores import Chore, Chores, forgetting, pruning, tidying
from hermes.control.commands.registry import NOTHING_AROUND, GatewayInfo
from hermes.control.core import GatewayCore
from hermes.control.events import EventCounters
from hermes.control.feed import Feeds
from hermes.control.handoff.worker import HandoffWorker
from hermes.control.hooks.observers import HookObservers
from hermes.control.inbound.intake import Intake
from hermes.control.jobs.ticker import Cron
from hermes.control.outbound.accounts import PausedAccounts, PlatformAccounts
from hermes.control.outbound.answers import SPEECH, AnswerWriter
from hermes.control.outbound.delivery import Delivery
from hermes.control.outbound.notices import report_failed
from hermes.control.outbound.sending import MessageSender
from hermes.control.outbound.spoken import SpokenAnswers
from hermes.control.outbound.targets import Aliases, named_targets
from hermes.control.people.routing import SelectAgent
from hermes.control.people.standing import is_trusted
from hermes.control.sessions.awaited import AwaitedProcesses
from hermes.control.sessions.flush import MemoryFlush
from hermes.control.sessions.learning import MemoryLearning
from hermes.control.sessions.resets import SessionExpiry
from hermes.control.sessions.submission import Submitter
from hermes.control.sessions.titles import SessionTitles
from hermes.control.turn.actor import SessionActor
from hermes.control.turn.actors import Actors, WarmSessions
from hermes.control.turn.compressing import BackgroundCompression
from hermes.control.turn.inbound_files import AttachmentFetcher
from hermes.control.turn.questions import QuestionExpiry
from hermes.control.usage import counting
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.turns.gateway_event import CommandRun, TurnEnded, TurnWoken
from hermes.domain.turns.session import RUN_SESSIONS
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace

_MEGABYTE = 1024 * 1024


class GatewayParts(GatewayCore, frozen=True, kw_only=True):
    """What a gateway is built from."""

    capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    select: SelectAgent | None = None
    owner: str = "gateway"
    """Who holds the lease of the ticker."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Names that a turn may give as its model, and the models behind them."""
    accounts: Collection[str] | None = None
    """The platform accounts it has, up or not; those of `capabilities` if nobody says."""
    channel_names: Callable[[], Aliases] = dict
    """Names that somebody gave to chats; may look at a file."""
    around: GatewayInfo = NOTHING_AROUND
    """What commands may know."""
    chores: Sequence[Chore] = ()
    """Further upkeep: what only the composition root knows how to do."""
    restart: Callable[[], None] = lambda: None
    """Called when somebody who may has asked that the process begin anew; must return at once."""
    titled: bool = True
    """Whether sessions get titles by themselves."""


class WiredGateway:
    """The living parts of a gateway, connected and not started."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self.feeds, self.events, self.counters = Feeds(), parts.events, EventCounters(parts.events)
        self.accounts = PlatformAccounts(parts.capabilities, parts.accounts)
        self.delivery = Delivery(parts, self.accounts)
        self.actors = self._wire_actors(parts)
        self.compressions = BackgroundCompression(parts, self.actors.ring)
        self.actors.ring_compression = self.compressions.workers.ring
        self.spoken = SpokenAnswers(parts, self.accounts.capabilities, self.delivery.ring)
        self.actors.ring_speech = lambda turn: self.spoken.workers.ring(f"{SPEECH}{turn}")
        self.submitter = Submitter(actors=self.actors)
        self.resting = PausedAccounts(parts.store)
        self.questions = QuestionExpiry(store=parts.store, clock=parts.clock, ring=self.actors.ring)
        self.courier = MessageSender(
            store=parts.store,
            clock=parts.clock,
            live=parts.live,
            accounts=lambda: self.accounts.names,
            aliases=parts.channel_names,
            capabilities=self.accounts.capabilities,
            ring=self.delivery.ring,
            wake=self.actors.ring,
            trusts=lambda who: is_trusted(who, parts.live.now),
        )
        self._targets = named_targets(parts.channel_names, parts.accounts)
        self.cron = Cron(
            core=parts,
            owner=parts.owner,
            outcomes=self.actors.answers,
            targets=self._targets,
            wake_session=self.actors.ring,
            wake_lane=self.delivery.ring,
        )
        self.handoffs = HandoffWorker(
            core=parts,
            select=parts.select,
            platform=self.accounts.up.get,
            wake_session=self.actors.ring,
            wake_lane=self.delivery.ring,
        )
        self.intake = Intake(
            core=parts,
            actors=self.actors,
            accounts=self.accounts,
            restart=parts.restart,
            select=parts.select,
            info=self.info(),
        )
        self.observers = HookObservers(parts.hooks, parts.events, parts.store)
        self.sessions_expiry = SessionExpiry(core=parts)
        self.flushes = MemoryFlush(parts, self.actors.ring)
        self.learning = MemoryLearning(parts)
        self.processes = AwaitedProcesses(parts, self.announce_woken)
        self.titles = SessionTitles(parts) if parts.titled else None
        self.chores = self._wire_chores(parts)
        self.events.listen(self.cron.heard, TurnEnded, sessions=RUN_SESSIONS)
        for ring in (self.cron.heard, self.resting.heard):
            self.events.listen(ring, CommandRun)

    def _wire_actors(self, parts: GatewayParts) -> Actors:
        accounts, live, clock = self.accounts, parts.live, parts.clock
        return Actors(
            core=parts,
            feeds=self.feeds,
            warm=WarmSessions(parts.live.now.gateway.cache_mb * _MEGABYTE),
            answers=AnswerWriter(live=live, clock=clock, capabilities=accounts.capabilities),
            delivery=self.delivery,
            fetcher=AttachmentFetcher(platform=accounts.up.get, clock=clock, live=live),
            start_actor=SessionActor,
        )

    def _wire_chores(self, parts: GatewayParts) -> Chores:
        age = timedelta(days=parts.live.now.gateway.dedupe_days)
        forget, tidy = forgetting(parts.store, parts.clock, age), tidying(parts)
        usual = [forget, self.sessions_expiry.chore, self.flushes.chore, tidy, pruning(parts)]
        usual.append(counting(parts.store))

        async def report(name: str, why: str) -> None:
            queue = partial(report_failed, what=name, why=why, settings=parts.live.now, now=parts.clock.now())
            for to in await parts.store.write(queue):
                self.delivery.ring(to)

        return Chores(parts.clock, [*usual, *parts.chores], report)

    def announce_woken(self, turn: Turn) -> None:
        """A turn that no door began is stored: it begins, and whoever shows such turns hears of it."""
        self.feeds.open(turn.id)
        self.events.emit(TurnWoken(agent=turn.agent, session=turn.session, turn=turn.id))
        self.actors.ring(turn.agent, turn.session)

    def info(self) -> GatewayInfo:
        """What commands may know, as it is at this moment."""
        return replace(
            self._parts.around,
            accounts=self.accounts.names,
            receiving=self.accounts.receiving,
            is_up=lambda account: account in self.accounts.up,
            targets=self._targets,
        )
