"""What a gateway is built from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hermes.control.chores import Chore
from hermes.control.commands.registry import NOTHING_AROUND, GatewayInfo
from hermes.control.hooks.dispatch import Hooks
from hermes.control.outbound.targets import Aliases
from hermes.control.people.routing import SelectAgent
from hermes.control.runtime import Runtime
from hermes.control.sessions.expiry import Flush, flush_nothing
from hermes.control.workers import Supervisor
from hermes.domain.capabilities import Capabilities
from hermes.domain.clock import Clock
from hermes.domain.event import Entry
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Store
from hermes.domain.settings.settings import Settings


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
    committed: Callable[[AgentId, SessionId, Sequence[Entry]], None] = lambda agent, session, entries: None
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
