"""What the machine can do without Hermes: one thread that commits rows in groups with FULL sync.

Ratios against it compare between machines; its own speed is the disk's and Python's."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

_AT_ONCE = 576
Statement = tuple[str, tuple[Any, ...]]
_Job = tuple[Sequence[Statement], "asyncio.Future[None]"]


def connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 4000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


class BareWriter:
    """`await write(statements)` returns after their commit."""

    def __init__(self, path: Path, schema: Sequence[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._connection = connect(path)
        for statement in schema:
            self._connection.execute(statement)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    async def write(self, statements: Sequence[Statement]) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put((statements, done))
        await done

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch = [job]
            while len(batch) < _AT_ONCE and not self._jobs.empty():
                more = self._jobs.get()
                if more is None:
                    self._jobs.put(None)
                    break
                batch.append(more)
            self._connection.execute("BEGIN IMMEDIATE")
            for statements, _ in batch:
                for sql, values in statements:
                    self._connection.execute(sql, values)
            self._connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_settle, [done for _, done in batch])


def _settle(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


async def bare_turns(path: Path, *, sessions: int, turns: int, commits: int, calls: int) -> None:
    """As many sessions, turns and commits as a gateway: store, call, store, and no more than that."""
    writer = BareWriter(path, ["CREATE TABLE rows (n INTEGER PRIMARY KEY, session TEXT, body BLOB)"])
    body = b"x" * 300

    async def talk(session: str) -> None:
        for _ in range(turns):
            for step in range(commits):
                await writer.write([("INSERT INTO rows (session, body) VALUES (?, ?)", (session, body))])
                if step < calls:
                    await asyncio.sleep(0)

    await asyncio.gather(*(talk(f"s{n}") for n in range(sessions)))
    writer.close()
