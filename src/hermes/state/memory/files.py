"""The agent's own files: who it is (SOUL.md), and what it noted and was told (MEMORY.md, USER.md)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from hermes.domain.settings.settings import Profile

log = logging.getLogger("hermes.memory")
PLACES = {"MEMORY.md": "memories", "USER.md": "memories", "SOUL.md": "."}
TITLES = {"What you have noted": "MEMORY.md", "About the user": "USER.md"}


class MemoryFiles:
    """The built-in memory: two files in the agent's home."""

    def __init__(self, profile: Profile) -> None:
        self._home = profile.home

    async def notes(self) -> Mapping[str, str]:
        return await asyncio.to_thread(self._read_all)

    def _read_all(self) -> Mapping[str, str]:
        return {title: read_file(self._home, name) for title, name in TITLES.items()}


def read_file(home: Path, name: str) -> str:
    """One of the agent's files; empty if it is not there or cannot be read."""
    path = home / PLACES[name] / name
    try:
        return path.read_text("utf-8", "replace") if path.is_file() else ""
    except OSError as error:
        log.warning("memory.unreadable file=%s why=%s", name, error.strerror)
        return ""


def write_first_soul(home: Path, text: str) -> None:
    """Give a new agent a SOUL.md to change; one that is there stays."""
    try:
        with open(home / "SOUL.md", "x", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        return
    except OSError as error:
        log.warning("memory.no_soul why=%s", error.strerror)
