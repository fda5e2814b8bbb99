"""What slash commands may know of the gateway around them."""

from __future__ import annotations

from pathlib import Path

from hermes.control.commands.registry import Around
from hermes.control.tiers import tier_of
from hermes.domain.settings import Settings


def commands_around(settings: Settings, version: str, home: Path) -> Around:
    return Around(
        is_admin=lambda source: tier_of(source, settings).owner,
        version=version,
        home=str(home),
    )
