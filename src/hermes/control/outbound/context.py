"""What every part of outbound works with."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.control.hooks.dispatch import Hooks
from hermes.domain.clock import Clock
from hermes.domain.ports.store import Store
from hermes.domain.settings.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundContext:
    store: Store
    clock: Clock
    settings: Settings
    hooks: Hooks
