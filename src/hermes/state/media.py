"""Fetched files, named by their content: the index of them, and the folder they lie in."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports import Store
from hermes.domain.rows import MediaItem
from hermes.domain.text import one_line
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


class MediaFiles:
    """The media port: an agent's files in one folder, known by rows of its store."""

    def __init__(self, folder: Path, store: Store, clock: Clock) -> None:
        self._folder = folder
        self._store = store
        self._clock = clock

    async def put(self, data: bytes, mime: str) -> MediaItem:
        """The file first, then its row: a crash between them leaves a file that the next one finds."""
        item = await asyncio.to_thread(store_file, self._folder, data, mime, self._clock)
        await self._store.write(lambda tx: tx.media.add(item))
        return item

    async def open(self, sha256: str) -> bytes:
        item = await self._store.read(lambda tx: tx.media.get(sha256))
        if item is None:
            raise UserError(f"There is no file {one_line(sha256, 12)}… in the media folder.")
        try:
            return await asyncio.to_thread(read_file, self._folder, item)
        except OSError as error:
            raise UserError(f"The file {sha256[:12]}… cannot be read ({error.strerror}).") from error


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
