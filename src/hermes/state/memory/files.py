"""The agent's own files: MEMORY.md, USER.md, SOUL.md in its home. Small, whole, replaced atomically."""

from __future__ import annotations

from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.text import storable
from hermes.state.home.wholefile import write_whole

PLACES = {"MEMORY.md": "memories", "USER.md": "memories", "SOUL.md": "."}


class MemoryFiles:
    def __init__(self, home: Path) -> None:
        self._home = home

    def read(self, name: str) -> str:
        path = self._path(name)
        return path.read_text("utf-8", "replace") if path.is_file() else ""

    def write(self, name: str, text: str) -> None:
        path = self._path(name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, storable(text).encode())

    def _path(self, name: str) -> Path:
        if name not in PLACES:
            raise UserError(f"“{name}” is not a memory file.", hint=f"Known: {', '.join(PLACES)}.")
        return self._home / PLACES[name] / name
