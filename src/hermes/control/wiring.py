"""Building a gateway: what it is built from, and its parts, each given what it needs of the others. Nothing
runs yet; `Gateway` starts and stops the parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from hermes.control.chores import Chore, Chores, forgetting, tidying
from hermes.control.commands.menu import menu_entries
from hermes.control.commands.registry import NOTHING_AROUND, GatewayInfo
from hermes.control.doors.submitter import Submitter
from hermes.control.feed import Feeds, GatewayCounters
from hermes.control.handoff.worker import HandoffWorker
from hermes.control.hooks.dispatch import Hooks
from hermes.control.inbound.intake import Intake, IntakeContext
from hermes.control.jobs.runs import RUN_SESSIONS
from hermes.control.jobs.targets import ResolveTargets, named_targets
from hermes.control.jobs.ticker import Cron
from hermes.control.outbound.accounts import PausedAccounts, PlatformAccounts
from hermes.control.outbound.answers import AnswerWriter
from hermes.control.outbound.context import OutboundContext
from hermes.control.outbound.delivery import Delivery
from hermes.control.outbound.sending import MessageSender
from hermes.control.outbound.targets import Aliases
from hermes.control.people.routing import SelectAgent
from hermes.control.runtime import Runtime
from hermes.control.sessions.expiry import Flush, SessionExpiry, flush_nothing
from hermes.control.turn.actor import SessionActor
from hermes.control.turn.actors import ActorContext, Actors, WarmSessions
from hermes.control.turn.inbound_files import AttachmentFetcher
from hermes.control.turn.questions import QuestionExpiry
from hermes.control.workers import Supervisor
from hermes.domain.capabilities import Capabilities, MenuEntry, MenuLimits
from hermes.domain.clock import Clock
from hermes.domain.event import Entry
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Store
from hermes.domain.settings.settings import Settings

_MEGABYTE = 1024 * 1024


async def _forget_nothing(agent: AgentId, session: SessionId) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """What a gateway is built from."""

    store: Store
    runtimes: Mapping[AgentId, Runtime]
    settings: Settings
    clock: Clock
    loops: Supervisor
    """Keeps the long-lived loops going, also those of whoever builds the gateway."""
    capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    select: SelectAgent | None = None
    hooks: Hooks = field(default_factory=Hooks)
    owner: str = "gateway"
    """Who holds the lease of the ticker."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names that a turn may give as its model, and the models behind them."""
    accounts: Collection[str] | None = None
    """The platform accounts it has, up or not; those of `capabilities` if nobody says."""
    channel_names: Callable[[], Aliases] = dict
    """Names that somebody gave to chats; may look at a file."""
    committed: Callable[[AgentId, SessionId, Sequence[Entry]], None] | None = None
    """Told of every record once it is stored; must return at once."""
    forgotten: Callable[[AgentId, SessionId], Awaitable[None]] = _forget_nothing
    """Told of every session that somebody deleted, to delete what it keeps of it."""
    around: GatewayInfo = NOTHING_AROUND
    """What commands may know; the models are filled in from `aliases`."""
    chores: Sequence[Chore] = ()
    """Further upkeep: what only the composition root knows how to do."""
    restart: Callable[[], None] = lambda: None
    """Called when somebody who may has asked that the process begin anew; must return at once."""
    flush: Flush = flush_nothing
    """Told of every session that is over by itself, before it is marked as ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredGateway:
    """The living parts of a gateway, connected and not started."""

    feeds: Feeds
    counters: GatewayCounters
    delivery: Delivery
    actors: Actors
    intake: Intake
    submitter: Submitter
    sender: MessageSender
    paused: PausedAccounts
    questions: QuestionExpiry
    sessions: SessionExpiry
    cron: Cron
    handoffs: HandoffWorker
    chores: Chores
    accounts: PlatformAccounts
    info: Callable[[], GatewayInfo]
    """What commands may know, as it is at this moment."""


def wire(parts: GatewayParts) -> WiredGateway:
    feeds, counters = Feeds(), GatewayCounters()
    accounts = PlatformAccounts(parts.capabilities, parts.accounts)
    outbound = OutboundContext(
        store=parts.store, clock=parts.clock, settings=parts.settings, hooks=parts.hooks
    )
    delivery = Delivery(accounts, outbound, parts.loops, counters, partial(_menu, parts.settings))
    actors = _wire_actors(parts, feeds, delivery, accounts)
    targets = named_targets(parts.channel_names, parts.accounts or ())
    info = partial(_gateway_info, parts, accounts, targets)
    cron = _wire_cron(parts, actors, targets)
    paused = PausedAccounts(parts.store)
    sessions = SessionExpiry(
        runtimes=parts.runtimes,
        settings=parts.settings,
        clock=parts.clock,
        flush=parts.flush,
        hooks=parts.hooks,
    )
    feeds.listen(counters.see)
    if parts.committed is not None:
        feeds.listen(parts.committed)
    feeds.listen(cron.heard, RUN_SESSIONS)
    return WiredGateway(
        feeds=feeds,
        counters=counters,
        delivery=delivery,
        actors=actors,
        intake=_wire_intake(parts, actors, accounts, info(), (cron.ring, paused.changed)),
        submitter=Submitter(store=parts.store, settings=parts.settings, actors=actors),
        sender=MessageSender(
            store=parts.store,
            clock=parts.clock,
            settings=parts.settings,
            accounts=lambda: accounts.names,
            aliases=parts.channel_names,
            capabilities=accounts.capabilities,
            ring=delivery.lanes.ring,
            wake=actors.ring,
        ),
        paused=paused,
        questions=QuestionExpiry(store=parts.store, clock=parts.clock, ring=actors.ring),
        sessions=sessions,
        cron=cron,
        handoffs=_wire_handoffs(parts, actors, accounts),
        chores=_chores(parts, sessions),
        accounts=accounts,
        info=info,
    )


def _wire_intake(
    parts: GatewayParts,
    actors: Actors,
    accounts: PlatformAccounts,
    info: GatewayInfo,
    commanded: Sequence[Callable[[], None]],
) -> Intake:
    context = IntakeContext(
        store=parts.store,
        clock=parts.clock,
        settings=parts.settings,
        runtimes=parts.runtimes,
        actors=actors,
        lanes=actors.context.delivery.lanes,
        accounts=accounts,
        commanded=commanded,
        restart=parts.restart,
        select=parts.select,
        info=info,
        hooks=parts.hooks,
        loops=parts.loops,
    )
    return Intake(context)


def _wire_cron(parts: GatewayParts, actors: Actors, targets: ResolveTargets) -> Cron:
    return Cron(
        store=parts.store,
        runtimes=parts.runtimes,
        settings=parts.settings,
        clock=parts.clock,
        loops=parts.loops,
        owner=parts.owner,
        outcomes=actors.context.answers,
        targets=targets,
        wake_session=actors.ring,
        wake_lane=actors.context.delivery.lanes.ring,
    )


def _wire_handoffs(parts: GatewayParts, actors: Actors, accounts: PlatformAccounts) -> HandoffWorker:
    return HandoffWorker(
        runtimes=parts.runtimes,
        settings=parts.settings,
        loops=parts.loops,
        select=parts.select,
        platform=accounts.platform,
        wake_session=actors.ring,
        wake_lane=actors.context.delivery.lanes.ring,
    )


def _wire_actors(parts: GatewayParts, feeds: Feeds, delivery: Delivery, accounts: PlatformAccounts) -> Actors:
    context = ActorContext(
        feeds=feeds,
        warm=WarmSessions(parts.settings.gateway.cache_mb * _MEGABYTE),
        answers=AnswerWriter(settings=parts.settings, clock=parts.clock, capabilities=accounts.capabilities),
        delivery=delivery,
        clock=parts.clock,
        fetcher=AttachmentFetcher(platform=accounts.platform, clock=parts.clock, settings=parts.settings),
        hooks=parts.hooks,
        loops=parts.loops,
    )
    return Actors(
        store=parts.store,
        runtimes=parts.runtimes,
        context=context,
        start_actor=SessionActor,
        limit=parts.settings.gateway.max_running,
    )


def _chores(parts: GatewayParts, sessions: SessionExpiry) -> Chores:
    age = timedelta(days=parts.settings.gateway.dedupe_days)
    forget, tidy = forgetting(parts.store, parts.clock, age), tidying(parts.runtimes, parts.clock)
    return Chores(parts.clock, [forget, sessions.chore, tidy, *parts.chores])


def _menu(settings: Settings, platform: str, limits: MenuLimits) -> Sequence[MenuEntry]:
    return menu_entries(platform, settings, limits)


def _gateway_info(parts: GatewayParts, accounts: PlatformAccounts, targets: ResolveTargets) -> GatewayInfo:
    return replace(
        parts.around,
        models=parts.aliases,
        accounts=accounts.names,
        is_up=lambda account: account in accounts.up,
        targets=targets,
    )
