"""Fetched files, named by their content: the index of them, and the folder they are kept in.

A file that comes in pieces is written to a temporary file and renamed to its hash once it is complete. What a
killed process left half done is removed when the next file comes."""

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
from io import BufferedWriter
from pathlib import Path

from hermes.domain.chats.rows import MediaItem
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ports.store import Store, Tx
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line, size_told
from hermes.state.files.sniff import LOOKED_AT, ending, sniff
from hermes.state.home.wholefile import sync_folder, write_whole

_INCOMING = ".incoming"
_FLUSHED = 1024 * 1024
_SWEPT = 1000


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
            await asyncio.to_thread(_write, self._folder / item.path, data)
        return item

    async def receive(self, pour: Callable[[Sink], Awaitable[None]], *, limit: int) -> MediaItem:
        async with self._changing:
            if not self._clean:
                await asyncio.to_thread(shutil.rmtree, self._folder / _INCOMING, ignore_errors=True)
                self._clean = True
        draft = _PartialFile(self._folder / _INCOMING, limit)
        try:
            await asyncio.to_thread(draft.open)
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
            # Also for who is cancelled while he waits: half a file is never left open.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, draft.drop))

    async def _keep(self, draft: _PartialFile) -> MediaItem:
        await asyncio.to_thread(draft.finish)
        item = await self._add(draft.digest, draft.size, draft.mime, ending(draft.mime))
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

    async def sweep(self, before: datetime, unused: Sequence[MediaItem]) -> int:
        """The row first, then the file: a crash between them leaves a file without a row, and those are
        removed as well once they are old enough."""
        gone = 0
        for item in unused:
            digest = item.sha256
            async with self._changing:
                if await self._store.write(partial(_remove, digest, before)):
                    await asyncio.to_thread((self._folder / item.path).unlink, missing_ok=True)
                    gone += 1
        for path in await asyncio.to_thread(old_files, self._folder, before):
            async with self._changing:
                if not await self._store.read(partial(_is_kept, path.name.partition(".")[0])):
                    await asyncio.to_thread(path.unlink, missing_ok=True)
                    gone += 1
        return gone


class _PartialFile:
    """A file that is not whole yet. Its disk work is done in threads, one piece at a time."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._path = folder / secrets.token_hex(12)
        self._file: BufferedWriter | None = None
        self._dropped = False
        self._busy = threading.Lock()
        self._hash = hashlib.sha256()
        self._gathered = bytearray()
        self._limit = limit
        self._over = False
        self.size = 0
        self.head = b""
        self.mime = ""

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def open(self) -> None:
        with self._busy:
            if not self._dropped:  # whoever waits for this may have gone meanwhile
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                self._file = os.fdopen(handle, "wb")

    async def take(self, piece: bytes) -> None:
        self._over = self._over or self.size + len(piece) > self._limit
        self.check()
        self.size += len(piece)
        self.head += piece[: LOOKED_AT - len(self.head)]
        self._gathered += piece
        if len(self._gathered) >= _FLUSHED:
            await asyncio.to_thread(self._flush)

    def check(self) -> None:
        if self._over:
            raise UserError(f"it is larger than {size_told(self._limit)}")

    def finish(self) -> None:
        self._flush()
        with self._busy:
            if self._file is not None:
                self._file.flush()
                os.fsync(self._file.fileno())
        self.mime = sniff(self.head)

    def move(self, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(to)
        sync_folder(to.parent)

    def drop(self) -> None:
        with self._busy:
            self._dropped = True
            if self._file is not None:
                self._file.close()
                self._file = None
                self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        with self._busy:
            if self._file is not None:
                self._hash.update(self._gathered)
                self._file.write(self._gathered)
                self._gathered.clear()


def _remove(digest: str, before: datetime, tx: Tx) -> bool:
    """Whether the file may go: agents that share a folder share its files."""
    return tx.media.remove(digest, before) and not tx.media.copies(digest)


def _is_kept(digest: str, tx: Tx) -> bool:
    return bool(tx.media.copies(digest))


def old_files(folder: Path, before: datetime) -> list[Path]:
    """Files in the media folder that were not touched since, halves of files among them. Blocking."""
    found = folder.glob("[0-9a-f][0-9a-f]/*")
    return [path for path in found if path.is_file() and path.stat().st_mtime < before.timestamp()][:_SWEPT]


def _write(path: Path, data: bytes) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)


def read_file(folder: Path, item: MediaItem) -> bytes:
    path = folder / item.path
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise UserError(f"The file {item.sha256[:12]}… is no longer in the media folder.")
    return path.read_bytes()
