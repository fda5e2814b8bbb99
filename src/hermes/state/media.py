"""Fetched files, named by their content: the index of them, and the folder they lie in.

A file that comes in pieces is written aside and moved under its hash once it is whole; what a killed process
left half done is thrown away by the next that receives something."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports import Sink, Store, Tx
from hermes.domain.rows import MediaItem
from hermes.domain.text import one_line, size_told
from hermes.state.codec import stamp, unstamp
from hermes.state.db import Db, Row
from hermes.state.sniff import LOOKED_AT, ending, sniff
from hermes.state.wholefile import sync_folder, write_whole

_INCOMING = ".incoming"
_AT_ONCE = 1024 * 1024
_COLUMNS = "sha256, path, size, mime, stored_at"


class MediaTable:
    def __init__(self, db: Db, agent: AgentId) -> None:
        self._db = db
        self._agent = agent

    def add(self, item: MediaItem) -> None:
        """One that comes again is as young as a new one."""
        self._db.run(
            "INSERT INTO media VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (agent, sha256) DO UPDATE SET stored_at = max(stored_at, excluded.stored_at)",
            self._agent,
            item.sha256,
            item.path,
            item.size,
            item.mime,
            stamp(item.stored_at),
        )

    def get(self, sha256: str) -> MediaItem | None:
        row = self._db.one(
            f"SELECT {_COLUMNS} FROM media WHERE agent = ? AND sha256 = ?", self._agent, sha256
        )
        return None if row is None else _item(row)

    def unused(self, before: datetime, limit: int) -> list[MediaItem]:
        """What is on its way names a file somewhere in its row; there are few such rows at any time."""
        rows = self._db.all(
            f"SELECT {_COLUMNS} FROM media WHERE agent = ?1 AND stored_at < ?2"
            " AND NOT EXISTS (SELECT 1 FROM media_uses u WHERE u.agent = ?1 AND u.sha256 = media.sha256)"
            " AND NOT EXISTS (SELECT 1 FROM turns t LEFT JOIN guidance g ON g.turn = t.id"
            " WHERE t.state IN ('accepted', 'running', 'waiting')"
            " AND (instr(CAST(t.input AS TEXT), media.sha256)"
            " OR instr(CAST(coalesce(g.body, '') AS TEXT), media.sha256)))"
            " AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.state IN ('due', 'attempting', 'unknown')"
            " AND instr(CAST(o.body AS TEXT), media.sha256))"
            " ORDER BY stored_at LIMIT ?3",
            self._agent,
            stamp(before),
            limit,
        )
        return [_item(row) for row in rows]

    def remove(self, sha256: str) -> None:
        self._db.run("DELETE FROM media WHERE agent = ? AND sha256 = ?", self._agent, sha256)


class MediaFiles:
    """The media port: an agent's files in one folder, known by rows of its store."""

    def __init__(self, folder: Path, store: Store, clock: Clock) -> None:
        self._folder = folder
        self._store = store
        self._clock = clock
        self._changing = asyncio.Lock()
        self._clean = False

    async def put(self, data: bytes, mime: str) -> MediaItem:
        """The row first, then its file: a crash between them leaves a row that nothing refers to."""
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        async with self._changing:
            item = await self._add(digest, len(data), mime, "")
            await asyncio.to_thread(store_file, self._folder, data, mime, self._clock, item.path)
        return item

    async def receive(self, pour: Callable[[Sink], Awaitable[None]], *, limit: int) -> MediaItem:
        async with self._changing:
            if not self._clean:
                await asyncio.to_thread(shutil.rmtree, self._folder / _INCOMING, ignore_errors=True)
                self._clean = True
        draft = await asyncio.to_thread(_Draft, self._folder / _INCOMING, limit)
        try:
            try:
                await pour(draft.take)
            except Exception:
                # Whoever poured may have put an error of its own around ours.
                draft.check()
                raise
            draft.check()
            async with self._changing:
                return await self._keep(draft)
        finally:
            await asyncio.to_thread(draft.drop)

    async def _keep(self, draft: _Draft) -> MediaItem:
        await asyncio.to_thread(draft.finish)
        mime = sniff(draft.head)
        item = await self._add(draft.digest, draft.size, mime, ending(mime))
        await asyncio.to_thread(draft.move, self._folder / item.path)
        return item

    async def _add(self, digest: str, size: int, mime: str, suffix: str) -> MediaItem:
        known = await self._store.read(lambda tx: tx.media.get(digest))
        path = f"{digest[:2]}/{digest}{suffix}" if known is None else known.path
        item = MediaItem(sha256=digest, path=path, size=size, mime=mime, stored_at=self._clock.now())
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

    def locate(self, item: MediaItem) -> str:
        return str((self._folder / item.path).absolute())

    async def remove_unused(self, before: datetime, limit: int = 100) -> int:
        """A file goes before its row: after a crash the row is found here again."""
        async with self._changing:
            items = await self._store.read(lambda tx: tx.media.unused(before, limit))
            for item in items:
                await asyncio.to_thread((self._folder / item.path).unlink, missing_ok=True)
            if items:
                await self._store.write(partial(_forget, items))
        return len(items)


class _Draft:
    """A file that is not whole yet. Its disk work is done in threads, one piece at a time."""

    def __init__(self, folder: Path, limit: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / secrets.token_hex(12)
        self._file = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._busy = threading.Lock()
        self._hash = hashlib.sha256()
        self._gathered = bytearray()
        self._limit = limit
        self._over = False
        self.size = 0
        self.head = b""

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    async def take(self, piece: bytes) -> None:
        self._over = self._over or self.size + len(piece) > self._limit
        self.check()
        self.size += len(piece)
        self.head += piece[: LOOKED_AT - len(self.head)]
        self._gathered += piece
        if len(self._gathered) >= _AT_ONCE:
            await asyncio.to_thread(self._flush)

    def check(self) -> None:
        if self._over:
            raise UserError(f"it is larger than {size_told(self._limit)}")

    def finish(self) -> None:
        self._flush()
        with self._busy:
            self._file.flush()
            os.fsync(self._file.fileno())

    def move(self, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(to)
        sync_folder(to.parent)

    def drop(self) -> None:
        with self._busy:
            self._file.close()
            self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        with self._busy:
            if not self._file.closed:
                self._hash.update(self._gathered)
                self._file.write(self._gathered)
                self._gathered.clear()


def store_file(folder: Path, data: bytes, mime: str, clock: Clock, at: str | None = None) -> MediaItem:
    """Write the bytes under their hash, or where they are known to lie, whole or not at all. Blocking: call
    it off the loop."""
    digest = hashlib.sha256(data).hexdigest()
    path = folder / (at or f"{digest[:2]}/{digest}")
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


def _forget(items: Sequence[MediaItem], tx: Tx) -> None:
    for item in items:
        tx.media.remove(item.sha256)


def _item(row: Row) -> MediaItem:
    sha256, path, size, mime, stored_at = row
    return MediaItem(sha256=sha256, path=path, size=size, mime=mime, stored_at=unstamp(stored_at))
