"""What every part of a gateway works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.control.hooks.dispatch import Hooks
from hermes.control.runtime import Runtime
from hermes.control.workers import Supervisor
from hermes.domain.clock import Clock
from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Store
from hermes.domain.settings.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCore:
    store: Store
    runtimes: Mapping[AgentId, Runtime]
    settings: Settings
    clock: Clock
    loops: Supervisor
    """Keeps the long-lived loops going, also those of whoever builds the gateway."""
    hooks: Hooks = field(default_factory=Hooks)
