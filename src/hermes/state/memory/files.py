"""The agent's own files: MEMORY.md, USER.md, SOUL.md in its home."""

from __future__ import annotations

from pathlib import Path

PLACES = {"MEMORY.md": "memories", "USER.md": "memories", "SOUL.md": "."}


class MemoryFiles:
    def __init__(self, home: Path) -> None:
        self._home = home

    def read(self, name: str) -> str:
        path = self._home / PLACES[name] / name
        return path.read_text("utf-8", "replace") if path.is_file() else ""
