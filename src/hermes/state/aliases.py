"""`channel_aliases.json` of a home: names that its owner gives to chats, {platform: {chat: name}}. Read again
when it has changed; a file that cannot be read names nothing, and the log says why."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes.domain.text import one_line
from hermes.state.textfile import MOST_BYTES

log = logging.getLogger("hermes.aliases")
FILE = "channel_aliases.json"
_LONGEST_NAME = 120


class ChannelAliases:
    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._seen: tuple[int, int, int] | None = None
        self._names: dict[str, dict[str, str]] = {}

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Looks at the file: call it off the loop."""
        try:
            info = os.stat(self._path)
        except OSError:
            self._seen, self._names = None, {}
            return self._names
        seen = (info.st_mtime_ns, info.st_size, info.st_ino)
        if seen != self._seen:
            self._seen, self._names = seen, self._load(info.st_size)
        return self._names

    def _load(self, size: int) -> dict[str, dict[str, str]]:
        try:
            if size > MOST_BYTES:
                raise ValueError("it is too large")
            return _names(json.loads(self._path.read_bytes()))
        except (OSError, ValueError, RecursionError) as error:
            log.warning("aliases.unreadable file=%s why=%s", self._path, one_line(str(error), 200))
            return {}


def _names(tree: Any) -> dict[str, dict[str, str]]:
    if not isinstance(tree, dict):
        raise ValueError("it must hold {platform: {chat: name}}")
    found: dict[str, dict[str, str]] = {}
    for platform, chats in tree.items():
        if not isinstance(chats, dict):
            raise ValueError(f"“{platform}” must hold chats and their names")
        named = {chat: one_line(name, _LONGEST_NAME) for chat, name in chats.items() if isinstance(name, str)}
        found[platform.lower()] = {chat: name for chat, name in named.items() if chat and name}
    return found
