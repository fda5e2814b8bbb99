"""Somebody at a real terminal before and after a crash: the model's server, the home, the lives of `hermes`,
and what stands in its database in the end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, ModelSaid
from hermes.domain.turns.turn import Turn
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.sqlite import StoreOptions
from hermes.state.store.writer import SqliteStore
from hermes.testing.model_script import Respond
from hermes.testing.model_server import FakeModelServer

IDLE, ANSWER = "❯ ", "answer ❯ "
_ALL = 50


@contextlib.contextmanager
def serving(script: Respond) -> Iterator[FakeModelServer]:
    """A model server on a thread of its own: the test itself waits at the terminal."""
    server, loop = FakeModelServer(script), asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="model server")
    thread.start()
    try:
        assert ready.wait(60.0)
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def new_home(folder: Path, server: FakeModelServer, busy: str = "interrupt") -> Path:
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(
        f"model: {{default: fake-model, base_url: '{server.base_url}'}}\n"
        f"display: {{busy_input_mode: {busy}}}\n"
    )
    return home


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What stands in the database between two lives, or after the last."""

    empty_sessions: int
    entries: list[Entry]
    open_turns: list[Turn]
    open_questions: int
    due: int

    @property
    def nothing_open(self) -> bool:
        return not (self.open_turns or self.open_questions or self.due)

    def said(self, text: str) -> int:
        records = (entry.record for entry in self.entries)
        return sum(isinstance(one, ModelSaid) and one.text == text for one in records)

    def count(self, kind: type[object]) -> int:
        return sum(isinstance(entry.record, kind) for entry in self.entries)


async def left(home: Path) -> Left:
    """Of all sessions, each in its order."""

    def look(tx: Tx) -> Left:
        sessions = [session.id for session in tx.sessions.find("", _ALL)]
        return Left(
            empty_sessions=sum(not tx.journal.read(one) for one in sessions),
            entries=[entry for one in sessions for entry in tx.journal.read(one)],
            open_turns=[turn for one in sessions for turn in tx.turns.open_of(one)],
            open_questions=sum(len(tx.questions.open_of(one)) for one in sessions),
            due=len(tx.recovery.due(0, 9)) + len(tx.inbox.pending(0, 9)),
        )

    async with SqliteStore(home / DATABASE_FILE, StoreOptions(reserve_bytes=0)) as store:
        return await store.scoped(MAIN_AGENT).read(look)
