"""The registry as a platform's own menu of commands: what chats there may use, in the platform's spelling."""

from __future__ import annotations

import re

from hermes.control.commands.registry import COMMANDS, known_commands, usable
from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.capabilities import MenuEntry, MenuLimits
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line

_HIDDEN = ("start",)
"""Sent by platforms themselves."""
_NAME = re.compile(r"[a-z0-9_-]+")


def menu_entries(platform: str, settings: Settings, limits: MenuLimits) -> tuple[MenuEntry, ...]:
    """The commands by name. One whose name does not fit is left out; it works all the same, as does what is
    more than the platform takes, and that is never one of ours before one of the settings."""
    anybody = Source(address=Address(platform=platform, chat="-"), kind=SourceKind.PRIVATE)
    for_all = {slash.name for slash in usable(anybody, settings)}
    offered = [
        (slash, slash.name.replace("-", limits.dash))
        for slash in known_commands(settings)
        if not slash.terminal and slash.name not in _HIDDEN
    ]
    fitting = [(slash, name) for slash, name in offered if _fits(name, limits)]
    # The sort is stable: commands stay ordered by name, ours before those of the settings.
    kept = sorted(fitting, key=lambda pair: pair[0].name not in COMMANDS)[: limits.most]
    return tuple(
        MenuEntry(
            name=name,
            summary=one_line(slash.summary, limits.summary),
            takes_text=bool(slash.usage),
            admin=slash.name not in for_all,
        )
        for slash, name in sorted(kept, key=lambda pair: pair[0].name)
    )


def _fits(name: str, limits: MenuLimits) -> bool:
    return len(name) <= limits.name and _NAME.fullmatch(name) is not None
