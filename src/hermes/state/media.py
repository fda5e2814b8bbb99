"""Fetched files, named by their content: the index of them, and the folder they lie in."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.rows import MediaItem
from hermes.state.codec import stamp, unstamp
from hermes.state.db import Db
from hermes.state.wholefile import write_whole


class MediaTable:
    def __init__(self, db: Db, agent: AgentId) -> None:
        self._db = db
        self._agent = agent

    def add(self, item: MediaItem) -> None:
        self._db.run(
            "INSERT INTO media VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            self._agent,
            item.sha256,
            item.path,
            item.size,
            item.mime,
            stamp(item.stored_at),
        )

    def get(self, sha256: str) -> MediaItem | None:
        row = self._db.one(
            "SELECT path, size, mime, stored_at FROM media WHERE agent = ? AND sha256 = ?",
            self._agent,
            sha256,
        )
        if row is None:
            return None
        path, size, mime, stored_at = row
        return MediaItem(sha256=sha256, path=path, size=size, mime=mime, stored_at=unstamp(stored_at))


def store_file(folder: Path, data: bytes, mime: str, clock: Clock) -> MediaItem:
    """Write the bytes under their hash, whole or not at all. Blocking: call it off the loop."""
    digest = hashlib.sha256(data).hexdigest()
    path = folder / digest[:2] / digest
    if not path.exists():
        write_whole(path, data)
    return MediaItem(
        sha256=digest,
        path=str(path.relative_to(folder)),
        size=len(data),
        mime=mime,
        stored_at=clock.now(),
    )


def read_file(folder: Path, item: MediaItem) -> bytes:
    path = folder / item.path
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise UserError(f"The file {item.sha256[:12]}… is no longer in the media folder.")
    return path.read_bytes()
