"""Session logs: line n is the n-th message of the journal, whatever happened in between."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, CallId, QuestionId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.chat_format import as_message, as_messages
from hermes.domain.turns.event import (
    Asked,
    Entry,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)
from hermes.domain.turns.gateway_event import RecordsStored, SessionRemoved
from hermes.domain.turns.session import Session
from hermes.script.messages import as_records, content_text
from hermes.state.files import session_log
from hermes.state.files.session_log import SessionLogs, log_path
from hermes.state.settings.secrets import Secrets
from hermes.state.store.writer import SqliteStore

S = SessionId("20260101_000000_abcdef01")
CALL = ToolCall(id=CallId("c1"), name="read_file", arguments='{"path": "x"}')
TURN: tuple[Record, ...] = (
    UserSaid(text="read x"),
    ModelSaid(text="", calls=(CALL,)),
    ToolStarted(call=CALL.id, name="read_file", effect=Effect.READ, key="k"),
    ToolFinished(call=CALL.id, text="1|ünï"),
    ModelSaid(text="It says ünï."),
    Finished(),
)


def numbered(records: Sequence[Record], first: int = 1) -> list[Entry]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [Entry(seq=n, turn=TurnId("t"), at=at, record=record) for n, record in enumerate(records, first)]


def stored(new: Sequence[Entry]) -> RecordsStored:
    return RecordsStored(agent=MAIN_AGENT, session=S, turn=TurnId("t"), first=new[0].seq, last=new[-1].seq)


class Shelf:
    """A store and a folder; `commit` is what the actor does, `life` a process that follows it."""

    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.entries: list[Entry] = []

    async def life(self, **more: Any) -> SessionLogs:
        logs = SessionLogs(self.folder, self.store, **more)
        await logs.open()
        return logs

    async def commit(self, logs: SessionLogs | None, records: Sequence[Record] = TURN) -> None:
        new = numbered(records, len(self.entries) + 1)
        self.entries += new
        await self.store.scoped(MAIN_AGENT).write(lambda tx: tx.journal.append(S, new))
        if logs is not None:
            logs.ring(stored(new))

    async def add_other(self, session: SessionId, **more: Any) -> None:
        """Another session, with one turn in it."""
        at = datetime(2026, 1, 1, tzinfo=UTC)
        other = Session(id=session, agent=MAIN_AGENT, created_at=at, updated_at=at, **more)

        def begin(tx: Tx) -> None:
            tx.sessions.add(other)
            tx.journal.append(session, numbered(TURN))

        await self.store.scoped(MAIN_AGENT).write(begin)

    @property
    def path(self) -> Path:
        return log_path(self.folder, S)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def check(self) -> None:
        assert self.lines() == as_messages(self.entries)


@pytest.fixture
async def shelf(tmp_path: Path) -> Any:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    session = Session(id=S, agent=MAIN_AGENT, created_at=at, updated_at=at)
    async with SqliteStore(tmp_path / "state.db") as store:
        await store.scoped(MAIN_AGENT).write(lambda tx: tx.sessions.add(session))
        yield Shelf(store, tmp_path / "sessions")


async def test_messages_are_in_openai_format(shelf: Shelf) -> None:
    logs = await shelf.life()
    await shelf.commit(logs)
    await logs.write()
    function = {"name": "read_file", "arguments": '{"path": "x"}'}
    assert shelf.lines() == [
        {"role": "user", "content": "read x"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "1|ünï"},
        {"role": "assistant", "content": "It says ünï."},
    ]
    assert shelf.path.stat().st_mode & 0o777 == 0o600 and shelf.folder.stat().st_mode & 0o777 == 0o700
    assert [as_message(record) for record in as_records(shelf.lines())] == shelf.lines()


async def test_a_life_that_is_cut_off_before_its_first_line_is_made_good(shelf: Shelf) -> None:
    await shelf.life()
    await shelf.commit(None)
    await (await shelf.life()).write()
    shelf.check()


async def test_one_life_after_another(shelf: Shelf) -> None:
    for _ in range(3):
        logs = await shelf.life()
        for _ in range(3):
            await shelf.commit(logs)
            await logs.write()
        await logs.write()
    shelf.check()


@pytest.mark.parametrize("cut", range(0, 330, 7))
async def test_after_a_crash_what_is_missing_is_appended(shelf: Shelf, cut: int) -> None:
    logs = await shelf.life()
    await shelf.commit(logs)
    await logs.write()
    await shelf.commit(None)  # the process died before these were written
    os.truncate(shelf.path, min(cut, shelf.path.stat().st_size))
    again = await shelf.life()
    await shelf.commit(again, [UserSaid(text="still there?")])
    await again.write()
    shelf.check()


async def test_the_next_life_writes_what_a_crash_left_out(shelf: Shelf) -> None:
    """Nobody has to come back to the session for that, and nothing is written twice."""
    logs = await shelf.life()
    await shelf.commit(logs)
    await logs.write()
    await shelf.commit(None)  # died between the commit and the file
    again = await shelf.life()
    await again.write()
    shelf.check()
    written = log_path(shelf.folder, S).read_text()
    (shelf.folder / session_log.CURSOR_FILE).write_text("0")  # died between the file and the cursor
    await (await shelf.life()).write()
    assert log_path(shelf.folder, S).read_text() == written


@pytest.mark.parametrize("cursor", ["", "x", "-", "999999"])
async def test_a_cursor_that_is_of_no_use_counts_as_the_end(shelf: Shelf, cursor: str) -> None:
    shelf.folder.mkdir()
    (shelf.folder / session_log.CURSOR_FILE).write_text(cursor)
    await shelf.commit(None)
    logs = await shelf.life()
    await logs.write()
    assert not shelf.path.exists()
    await shelf.commit(logs)
    await logs.write()
    shelf.check()


async def test_a_session_that_goes_away_has_no_log(shelf: Shelf) -> None:
    logs = await shelf.life()
    await shelf.add_other(SessionId("brief"), expires_at=datetime(2026, 1, 2, tzinfo=UTC))
    await shelf.commit(logs)
    await logs.write()
    assert not log_path(shelf.folder, SessionId("brief")).exists() and shelf.path.exists()
    logs.forget(SessionRemoved(agent=MAIN_AGENT, session=S))
    await logs.write()
    assert not shelf.path.exists()


async def test_a_record_that_cannot_be_read_holds_up_no_other_log(shelf: Shelf, tmp_path: Path) -> None:
    logs = await shelf.life()
    await shelf.add_other(SessionId("other"))
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute("UPDATE journal SET kind = 'of tomorrow' WHERE session = 'other' AND seq = 2")
    db.close()
    await shelf.commit(logs)
    await logs.write()
    shelf.check()


async def test_a_log_that_cannot_be_written_is_made_good(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.folder.write_text("in the way")
    logs = await shelf.life()
    await shelf.commit(logs)
    await logs.write()
    assert "session_log.failed" in caplog.text and "read x" not in caplog.text
    shelf.folder.unlink()
    await shelf.commit(logs)
    await logs.write()
    shelf.check()


async def test_what_is_behind_is_written_page_by_page(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "_PAGE", 10)
    logs = await shelf.life()
    for _ in range(7):
        await shelf.commit(logs)
    await logs.write()
    shelf.check()
    for _ in range(7):
        await shelf.commit(logs)
    await logs.write()
    shelf.check()


async def test_many_sessions_are_known_for_a_while(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "_MOST_KNOWN", 1)
    logs = await shelf.life()
    for number in range(3):
        await shelf.commit(logs)
        await shelf.add_other(SessionId(f"other{number}"))
        await logs.write()
    shelf.check()


async def test_it_writes_by_itself_and_never_makes_anybody_wait(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_log, "GATHER_SECONDS", 0.01)
    logs = await shelf.life()
    task = asyncio.create_task(logs.live())
    for _ in range(20):
        await shelf.commit(logs)
        await asyncio.sleep(0.003)
    async with asyncio.timeout(40):
        while not (shelf.path.exists() and len(shelf.lines()) == 80):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait((task,))
    shelf.check()


async def test_secrets_and_questions_stay_out(shelf: Shelf) -> None:
    logs = await shelf.life(redact=Secrets({"OPENAI_API_KEY": 'sk-"12345678'}).redact)
    asked = Asked(question=QuestionId("q"), kind=QuestionKind.APPROVAL, text="rm?")
    await shelf.commit(logs, [UserSaid(text='my key is sk-"12345678', context="hidden"), asked])
    await logs.write()
    assert shelf.path.read_text() == '{"role": "user", "content": "my key is ‹secret›"}\n'


async def test_nothing_is_written_for_nothing(shelf: Shelf) -> None:
    logs = await shelf.life()
    await shelf.commit(logs, [Finished()])
    await logs.write()
    assert not shelf.path.exists()


def test_what_else_is_told() -> None:
    picture = Attachment(kind=MediaKind.IMAGE, ref="r", name="a.png")
    assert as_message(UserSaid(text="see", attachments=(picture,))) == {
        "role": "user",
        "content": "see\n[attached: image, a.png]",
    }
    for record in (Undone(since=3), Summarised(upto=2, text="much")):
        message = as_message(record)
        assert message is not None and message["role"] == "system"


@pytest.mark.parametrize("name", ["../../etc/passwd", "..", ".", "a/b", "x" * 500, "ü\0"])
def test_a_log_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    path = log_path(tmp_path, SessionId(name))
    assert path.parent == tmp_path and path.resolve().parent == tmp_path.resolve() and len(path.name) < 200


def test_what_is_no_message_is_told() -> None:
    with pytest.raises(UserError, match="not a role"):
        as_records([{"role": "robot", "content": "x"}])
    with pytest.raises(UserError, match="Only text parts"):
        content_text([{"type": "image_url", "image_url": {"url": "x"}}])
    with pytest.raises(UserError, match="must be a text"):
        content_text(3)
    assert content_text([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\nb"
    assert as_records([{"role": "system", "content": "x"}]) == []
