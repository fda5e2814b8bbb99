"""The registry as a platform's own menu of commands: what chats there may use, in the platform's spelling."""

from __future__ import annotations

import re

from hermes.control.commands.registry import COMMANDS, SlashCommand, known_commands, usable
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
    for_all = {known.name for known in usable(anybody, settings)}
    known = [one for one in known_commands(settings) if not one.terminal and one.name not in _HIDDEN]
    fitting = [one for one in known if _fits(_spelled(one, limits), limits)]
    kept = sorted(fitting, key=lambda one: one.name not in COMMANDS)[: limits.most]
    return tuple(
        MenuEntry(
            name=_spelled(one, limits),
            summary=one_line(one.summary, limits.summary),
            takes_text=bool(one.usage),
            admin=one.name not in for_all,
        )
        for one in sorted(kept, key=lambda one: one.name)
    )


def _spelled(known: SlashCommand, limits: MenuLimits) -> str:
    return known.name.replace("-", limits.dash)


def _fits(name: str, limits: MenuLimits) -> bool:
    return len(name) <= limits.name and _NAME.fullmatch(name) is not None
