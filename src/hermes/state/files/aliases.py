"""`channel_aliases.json` of a home: names that its owner gives to chats, {platform: {chat: name}}. Read again
when it has changed; a file that cannot be read names nothing, and the log says why."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.state.home.jsonfile import JsonFile

log = logging.getLogger("hermes.aliases")
FILE = "channel_aliases.json"
_LONGEST_NAME = 120


class ChannelAliases(JsonFile[dict[str, dict[str, str]]]):
    def __init__(self, home: Path) -> None:
        super().__init__(home / FILE, _names, lambda why: log.warning("aliases.unreadable why=%s", why))


def _names(tree: dict[str, Any]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for platform, chats in tree.items():
        if not isinstance(chats, dict):
            raise UserError(f"“{one_line(platform, 40)}” in {FILE} must hold chats and their names.")
        named = {chat: one_line(name, _LONGEST_NAME) for chat, name in chats.items() if isinstance(name, str)}
        found[platform.lower()] = {chat: name for chat, name in named.items() if chat and name}
    return found
