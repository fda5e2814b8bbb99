"""Everybody waits for the writer, so nothing in it reads a whole transcript: not a command, not a message,
not the claim of a turn."""

from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from hermes.control.commands.registry import COMMANDS
from hermes.domain.ids import MAIN_AGENT, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import ApprovalSettings, ResetMode, ResetSettings
from hermes.domain.turns.event import Entry, Finished, ModelSaid, Record, UserSaid
from hermes.domain.word import replace
from hermes.entry.terminal.served_door import local_caller
from hermes.plugins import load_commands
from hermes.state.store.tables import journal
from hermes.testing.harness import Journey, open_settings

RECORDS = 5_000
MOST = 30
"""More than any command reads of other sessions' beginnings or its own end; far less than a transcript."""
ARGUMENTS = {
    "resume": "long",
    "trace": "turn_7",
    "sessions": "search word",
    "queue": "hello",
    "steer": "hello",
    "background": "hello",
    "undo": "2",
    "handoff": "fake",
    "branch": "copy",
    "help": "stop",
}
load_commands()


class Decoded:
    """Counts the records that are decoded, by thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_writer = self.elsewhere = 0
        real = journal.decode_record

        def decode(kind: str, data: bytes | str) -> Record:
            if threading.current_thread().name == "store-writer":
                self.in_writer += 1
            else:
                self.elsewhere += 1
            return real(kind, data)

        monkeypatch.setattr(journal, "decode_record", decode)


def fill(session: SessionId, tx: Tx) -> None:
    """Turns of three records each."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    cycle = (UserSaid(text="a word"), ModelSaid(text="an answer"), Finished())
    first = len(tx.journal.read(session))
    tx.journal.append(
        session,
        [
            Entry(seq=n, turn=TurnId(f"turn_{n // 3}_{session}"), at=at, record=cycle[n % 3])
            for n in range(first + 1, RECORDS + 1)
        ],
    )


async def talk_long(chat: Journey) -> None:
    """A person and the terminal are in long sessions, and another one is called “long”."""
    chat.world.write("hello")
    await chat.until_seen("You said: hello")
    await chat.until_idle()
    into = [await chat.gateway.enter(local_caller(), None) for _ in range(2)]
    await chat.database.write(lambda tx: _entitle(tx, into[0].id))
    found = await chat.database.read(lambda tx: tx.sessions.find(""))
    assert len(found) == 3
    for session in found:
        await chat.database.write(partial(fill, session.id))


def _entitle(tx: Tx, session: SessionId) -> None:
    known = tx.sessions.get(session)
    assert known is not None
    tx.sessions.save(replace(known, title="long"))


async def test_no_command_reads_a_transcript_in_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = open_settings(approvals=ApprovalSettings(destructive_slash_confirm=True))
    async with Journey(folder=tmp_path, settings=settings) as chat:
        await talk_long(chat)
    counts: dict[str, int] = {}
    for name in sorted(COMMANDS):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(tmp_path / "state.db", folder)
        async with Journey(folder=folder, settings=settings, is_admin=lambda source: True) as chat:
            decoded = Decoded(monkeypatch)
            line = f"/{name} {ARGUMENTS.get(name, '')}".rstrip()
            await chat.gateway.command(local_caller(), line)
            chat.world.write(line)
            await chat.until_taken()
            counts[name] = decoded.in_writer
            monkeypatch.undo()
    too_many = {name: count for name, count in counts.items() if count > MOST}
    assert not too_many
    assert set(counts) == set(COMMANDS)


async def test_a_message_and_its_turn_read_no_transcript_in_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = ResetSettings(mode=ResetMode.BOTH, idle_minutes=60)
    async with Journey(folder=tmp_path, settings=open_settings(session_reset=policy)) as chat:
        await talk_long(chat)
    async with Journey(
        folder=tmp_path, settings=open_settings(session_reset=policy), world=chat.world
    ) as chat:
        decoded = Decoded(monkeypatch)
        for words in ("and again", "/undo", "/retry"):
            chat.world.write(words)
            await chat.until_idle()
        assert decoded.in_writer <= MOST
        # The actor does read it: beside the writer.
        assert decoded.elsewhere >= RECORDS
        decoded.in_writer = 0
        [long] = await chat.database.read(lambda tx: tx.sessions.find("long"))
        await chat.gateway.delete_session(MAIN_AGENT, long.id)
        assert decoded.in_writer <= MOST
