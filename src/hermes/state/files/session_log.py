"""Session logs: each session as an append-only JSONL file in OpenAI's message format, beside the database.

The journal is the truth and a log is a copy of it: line n is the n-th message. Its life: a task reads what
the journal has behind a stored cursor, writes it a moment later, off the loop, and moves the cursor. So what
a crash kept from being written is written by the next life. A session that is new to this process is compared
first: a torn last line is cut away, and no line is written twice. A log that cannot be written is told of and
made good at the session's next write. A session that is to be forgotten has no log, unless somebody comes
back to it: then it is written whole."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

from hermes.domain.errors import Refused
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.chat_format import as_messages
from hermes.domain.turns.event import Entry
from hermes.domain.turns.gateway_event import RecordsStored, SessionRemoved

log = logging.getLogger("hermes.session_log")
FOLDER = "sessions"
CURSOR_FILE = ".written"
GATHER_SECONDS = 0.2
_PAGE = 1000
_MOST_KNOWN = 1000
_LONGEST_NAME = 120


def log_path(folder: Path, session: SessionId) -> Path:
    """Where a session's log is; ids that people choose are spelled so that they stay in the folder."""
    name = quote(session, safe="")[:_LONGEST_NAME].replace(".", "%2E")
    return folder / f"{name}.jsonl"


class SessionLogs:
    """`open` comes first. `live` writes whenever it is rung, until it is cancelled; `write` writes what is
    left. `redact` takes secrets out of each line."""

    def __init__(self, folder: Path, store: Store, redact: Callable[[str], str] = str) -> None:
        self._folder = folder
        self._store = store
        self._redact = redact
        self._cursor = 0
        self._deleted: set[SessionId] = set()
        self._lengths: OrderedDict[SessionId, int] = OrderedDict()
        self._bell = asyncio.Event()
        self._writing = asyncio.Lock()

    def ring(self, event: RecordsStored) -> None:
        """There is something to write."""
        self._bell.set()

    def forget(self, event: SessionRemoved) -> None:
        """The session was deleted: its log goes too, at once unless something is being written."""
        self._deleted.add(event.session)
        if not self._writing.locked():
            self._remove_deleted()

    async def live(self) -> None:
        while True:
            await self.write()
            await self._bell.wait()
            self._bell.clear()
            await asyncio.sleep(GATHER_SECONDS)

    async def write(self) -> None:
        """Write everything that is in the journal, and nothing of what was deleted."""
        async with self._writing:
            last = -1
            while last != self._cursor:
                last = self._cursor
                self._cursor = await self._write_page(last)
            self._remove_deleted()

    async def open(self) -> None:
        """Find out where the last life came to. Where there was none, what is in the journal already waits
        for its session's next write; a journal that is shorter than it was is another one."""

        def read() -> int | None:
            with contextlib.suppress(OSError, ValueError):
                return int((self._folder / CURSOR_FILE).read_text("ascii"))
            return None

        stored = await asyncio.to_thread(read)
        last = await self._store.read(lambda tx: tx.tail.end())
        self._cursor = last if stored is None else min(stored, last)
        if stored is None:
            # At once: a life that is cut off before its first line must not make the next one begin here.
            await asyncio.to_thread(self._keep_cursor, last)

    async def _write_page(self, cursor: int) -> int:
        """Write the records behind a cursor; the cursor behind them."""
        rows, last = await self._store.read(lambda tx: tx.tail.after(cursor, _PAGE))
        if last == cursor:
            return last
        added: dict[SessionId, list[Entry]] = {}
        whole: dict[SessionId, list[Entry]] = {}
        to_read: dict[AgentId, set[SessionId]] = {}
        for row in rows:
            entries, seq = added.setdefault(row.session, []), row.entry.seq
            entries.append(row.entry)
            if seq == 1:
                whole[row.session] = entries
            elif not entries[1:] and self._lengths.get(row.session) != seq - 1:
                to_read.setdefault(row.agent, set()).add(row.session)
        for agent, sessions in to_read.items():
            whole |= await self._store.scoped(agent).read(partial(_read_all, sessions))
            for session in sessions - whole.keys():
                del added[session]
        await asyncio.to_thread(self._write_all, added, whole, last)
        return last

    # --- blocking ---

    def _write_all(
        self,
        added: Mapping[SessionId, Sequence[Entry]],
        whole: Mapping[SessionId, Sequence[Entry]],
        cursor: int,
    ) -> None:
        """Append what was added; a session that is new to this process is compared as a `whole`."""
        for session, entries in added.items():
            self._lengths.pop(session, None)
            path, entries = log_path(self._folder, session), whole.get(session, entries)
            try:
                _append(path, entries, self._redact, compare=session in whole)
            except OSError as error:
                log.warning("session_log.failed session=%s why=%s", session, error)
                continue
            if entries:
                self._lengths[session] = entries[-1].seq
        while len(self._lengths) > _MOST_KNOWN:
            self._lengths.popitem(last=False)
        self._keep_cursor(cursor)

    def _keep_cursor(self, cursor: int) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._folder / CURSOR_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(
                    file, f"{cursor:020d}\n".encode(), 0
                )  # in one piece: a kill leaves the old or the new
            finally:
                os.close(file)
        except OSError as error:
            log.warning("session_log.failed cursor=%d why=%s", cursor, error)

    def _remove_deleted(self) -> None:
        while self._deleted:
            session = self._deleted.pop()
            self._lengths.pop(session, None)
            try:
                log_path(self._folder, session).unlink(missing_ok=True)
            except OSError as error:
                log.warning("session_log.not_deleted session=%s why=%s", session, error)


def _read_all(sessions: Collection[SessionId], tx: Tx) -> dict[SessionId, list[Entry]]:
    """Their transcripts, of those that can be read."""
    transcripts: dict[SessionId, list[Entry]] = {}
    for session in sessions:
        try:
            transcripts[session] = tx.journal.read(session)
        except Refused as error:
            log.warning("session_log.failed session=%s why=%s", session, error)
    return transcripts


def _append(path: Path, entries: Sequence[Entry], redact: Callable[[str], str], *, compare: bool) -> None:
    """Append the entries; if they are to be compared, those that the log lacks."""
    messages = as_messages(entries)
    if not messages:
        return
    file = _open(path)
    try:
        if compare:
            messages = messages[_whole_lines(file) :]
        lines = "".join(redact(json.dumps(message, ensure_ascii=False)) + "\n" for message in messages)
        left = memoryview(lines.encode("utf-8", "replace"))
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


def _whole_lines(descriptor: int) -> int:
    """How many lines a file has, after cutting off one that was not written to its end."""
    count, size, end = 0, 0, 0
    while piece := os.pread(descriptor, 1 << 20, size):
        count += piece.count(b"\n")
        if (last := piece.rfind(b"\n")) >= 0:
            end = size + last + 1
        size += len(piece)
    if end < size:
        os.ftruncate(descriptor, end)
    return count
