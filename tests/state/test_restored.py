"""What a repair leaves behind, one case each: the order of a chat, edits, ends that can be read, numbers,
and messages that were to be tried again."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from hermes.domain.chats.message import InboundKind
from hermes.domain.chats.rows import OutState
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, Finished, ModelSaid, Record, UserSaid
from hermes.domain.turns.turn import ReplyPlace, TurnState
from hermes.domain.word import replace
from hermes.state.store.care.backup import backup
from hermes.state.store.care.repair import open_checked
from hermes.state.store.care.restored import RESTORED
from hermes.state.store.sqlite import PAGE_BYTES
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock
from hermes.testing.store_suite.samples import (
    NOW,
    address,
    after,
    inbound,
    out,
    question,
    session,
    source,
    turn,
)

HARMLESS = "grants"
"""A table that nothing here is in: to spoil it calls for a repair."""


@dataclass(slots=True)
class Home:
    """A database with a backup that is older than it."""

    path: Path

    async def write(self, *units: Callable[[Tx], object]) -> None:
        async with SqliteStore(self.path) as store:
            for unit in units:
                await store.write(unit)

    async def back_up(self) -> None:
        await asyncio.to_thread(backup, self.path, NOW)

    def change(self, query: str) -> None:
        with contextlib.closing(apsw.Connection(str(self.path))) as connection:
            connection.execute(query).fetchall()
            assert connection.changes() == 1

    def spoil(self, *names: str) -> None:
        with contextlib.closing(apsw.Connection(str(self.path))) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema").fetchall())
        with self.path.open("r+b") as file:
            for name in names:
                file.seek((pages[name] - 1) * PAGE_BYTES)
                file.write(random.Random(name).randbytes(PAGE_BYTES))


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "gateway.db")
    await made.write(
        lambda tx: tx.recovery.boot(NOW),
        lambda tx: [tx.sessions.add(session(f"s-{chat}")) for chat in "ab"],
    )
    return made


def _take(name: str, chat: str) -> Callable[[Tx], None]:
    """Accept a message and make a turn of it."""

    def unit(tx: Tx) -> None:
        tx.inbox.add("fake", [inbound(name, text=name, chat=chat)], name, NOW)
        mine = replace(
            turn(f"t-{name}", f"s-{chat}"), source=source(chat), reply=ReplyPlace(to=address(chat), ref=name)
        )
        tx.turns.add(mine)
        [row] = tx.inbox.find(name)
        tx.inbox.finish(row.n, "turn", mine.id)

    return unit


def _waiting(chat: str, tx: Tx) -> list[str]:
    """The messages of a chat in the order in which they will be answered."""
    turns = [one.id.removeprefix("t-") for one in tx.turns.open_of(SessionId(f"s-{chat}"))]
    rows = tx.inbox.pending(0, 100)
    return turns + [row.inbound.text for row in rows if row.inbound.source.address == address(chat)]


async def test_what_waits_behind_a_message_that_is_taken_again_stays_behind_it(home: Home) -> None:
    await home.back_up()
    await home.write(*(_take(f"{chat}{n}", chat) for n in range(1, 5) for chat in "ab"))
    home.change("UPDATE turns SET input = x'00' WHERE id = 't-a2'")
    home.spoil(HARMLESS)
    opened = await open_checked(home.path, FakeClock())
    async with opened.store as store:
        assert await store.read(lambda tx: _waiting("a", tx)) == ["a1", "a2", "a3", "a4"]
        assert await store.read(lambda tx: _waiting("b", tx)) == ["b1", "b2", "b3", "b4"]
        open_turns = await store.read(lambda tx: tx.turns.open_of(SessionId("s-b")))
        assert len(open_turns) == 4, "other chats are left alone"
    assert "5 open turns go on, 3 messages are taken again." in opened.notices[1]


async def test_a_message_is_taken_again_with_its_edits(home: Home) -> None:
    await home.back_up()
    edits = [
        replace(inbound(f"e-{chat}", text="new words", chat=chat), what=InboundKind.EDIT, ref="ref-a1")
        for chat in "ab"
    ]

    def edit(tx: Tx) -> None:
        tx.inbox.add("fake", edits, "2", NOW)
        for one in edits:
            [row] = tx.inbox.find(one.delivery)
            tx.inbox.finish(row.n, "edit: taken with its message")

    await home.write(_take("a1", "a"), edit)
    home.change("UPDATE turns SET input = x'00' WHERE id = 't-a1'")
    home.spoil(HARMLESS)
    async with (await open_checked(home.path, FakeClock())).store as store:
        rows = await store.read(lambda tx: tx.inbox.pending(0, 9))
    assert [row.inbound.delivery for row in rows] == ["a1", "e-a"]


@pytest.mark.parametrize("begun", [False, True])
async def test_a_turn_whose_end_can_be_read_has_ended(home: Home, begun: bool) -> None:
    mine = TurnId("t-a1")
    records: list[Record] = [UserSaid(text="a1"), ModelSaid(text="answer"), Finished()]
    entries = [Entry(seq=seq, turn=mine, at=after(seq), record=one) for seq, one in enumerate(records, 1)]

    def begin(tx: Tx) -> None:
        started = tx.turns.get(mine)
        assert started is not None
        tx.turns.save(replace(started, state=TurnState.RUNNING, attempt=1), attempt=0)
        tx.journal.append(started.session, entries[:1])

    def end(tx: Tx) -> None:
        tx.journal.append(SessionId("s-a"), entries[1:])
        tx.turns.advance(mine, attempt=1, records=2, state=TurnState.DONE)
        tx.outbox.add(replace(out("t-a1:0", "a", of=mine), state=OutState.SENT))

    await home.write(_take("a1", "a"), *([begin] if begun else []))
    await home.back_up()
    await home.write(*([] if begun else [begin]), end)
    home.spoil("turns")
    async with (await open_checked(home.path, FakeClock())).store as store:
        kept = await store.read(lambda tx: tx.turns.get(mine))
        told = await store.read(lambda tx: tx.outbox.begun(RESTORED))
    assert kept is not None and kept.state is TurnState.DONE
    assert told == [], "it was answered, and nobody has to doubt it"


async def test_turns_that_had_begun_nothing_are_begun_again(home: Home) -> None:
    await home.write(_take("a1", "a"), _take("a2", "a"))
    await home.back_up()
    await home.write(_take("a3", "a"))
    home.spoil("turns")
    async with (await open_checked(home.path, FakeClock())).store as store:
        waiting = await store.read(lambda tx: _waiting("a", tx))
        told = await store.read(lambda tx: tx.outbox.begun(RESTORED))
        kept = await store.read(lambda tx: tx.turns.open_of(SessionId("s-a")))
    assert waiting == ["a1", "a2", "a3"]
    assert [one.id for one in kept] == ["t-a1", "t-a2"], "what the backup knows keeps its place"
    assert told == [], "no record of theirs is missing, so nothing was done"


async def test_what_was_shown_of_a_lost_turn_is_removed(home: Home) -> None:
    drafts = [
        replace(out(f"t-{name}:draft:0:1", name[0], of=f"t-{name}", draft=True), state=OutState.SHOWN)
        for name in ("a1", "b1")
    ]
    await home.back_up()
    await home.write(
        _take("a1", "a"),
        _take("b1", "b"),
        lambda tx: [tx.outbox.add(draft) for draft in drafts],
        lambda tx: tx.outbox.add(replace(out("t-b1:0", "b", of="t-b1"), state=OutState.SENT)),
    )
    home.spoil("turns")
    async with (await open_checked(home.path, FakeClock())).store as store:
        rows = await store.read(lambda tx: tx.outbox.find([OutState.DUE]))
    assert [(row.key, str(row.to), row.body.text) for row in rows] == [("t-a1:0", "fake:a", "")]


@pytest.mark.parametrize("lost", ["turns", "journal", HARMLESS])
async def test_a_turn_that_asked_is_not_taken_for_ended(home: Home, lost: str) -> None:
    mine = TurnId("t-a1")
    records: list[Record] = [UserSaid(text="a1"), ModelSaid(text="Which one?")]
    entries = [Entry(seq=seq, turn=mine, at=after(seq), record=one) for seq, one in enumerate(records, 1)]

    def ask(tx: Tx) -> None:
        started = tx.turns.get(mine)
        assert started is not None
        tx.turns.save(replace(started, state=TurnState.RUNNING, attempt=1), attempt=0)
        tx.journal.append(started.session, entries)
        tx.turns.advance(mine, attempt=1, records=1, state=TurnState.WAITING)
        tx.questions.add(question("q", "t-a1", "s-a"))
        tx.outbox.add(replace(out("t-a1:0", "a", of=mine), state=OutState.SENT))

    await home.back_up()
    await home.write(_take("a1", "a"), ask)
    home.spoil(lost)
    async with (await open_checked(home.path, FakeClock())).store as store:
        waiting = await store.read(lambda tx: _waiting("a", tx))
        told = await store.read(lambda tx: tx.outbox.begun(RESTORED))
        asked = await store.read(lambda tx: tx.questions.open_of(SessionId("s-a")))
    assert waiting == ["a1"]
    assert len(told) == (lost == "journal"), "it was stopped"
    assert len(asked) == (lost == HARMLESS), "a question without its turn would swallow the next message"


async def test_a_chat_is_told_of_a_message_that_was_not_sent(home: Home) -> None:
    await home.back_up()
    await home.write(lambda tx: [tx.outbox.add(out(f"k{chat}", chat)) for chat in "ab"])
    home.spoil("outbox")
    async with (await open_checked(home.path, FakeClock())).store as store:
        told = await store.read(lambda tx: tx.outbox.begun(RESTORED))
    assert {str(row.to) for row in told} == {str(address(chat)) for chat in "ab"}
    assert "may not have been sent" in told[0].body.text


async def test_numbers_of_lost_rows_are_not_given_again(home: Home) -> None:
    await home.write(_take("a1", "a"))
    await home.back_up()
    await home.write(*(_take(f"b{n}", "b") for n in range(5)))
    async with SqliteStore(home.path) as store:
        lost = await store.read(lambda tx: tx.inbox.find("b4")[0].n)
    home.spoil("inbox", "sqlite_autoindex_inbox_1", "inbox_pending")
    async with (await open_checked(home.path, FakeClock())).store as store:
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("new")], "9", NOW))
        [row] = await store.read(lambda tx: tx.inbox.find("new"))
    assert row.n > lost, "replies are named after it"


async def test_a_message_that_was_to_be_tried_again_is(home: Home) -> None:
    await home.write(lambda tx: tx.outbox.add(replace(out("k"), state=OutState.DEAD)))
    await home.back_up()
    await home.write(lambda tx: tx.outbox.retry("k", after(1)))
    home.spoil(HARMLESS)
    async with (await open_checked(home.path, FakeClock())).store as store:
        row = await store.read(lambda tx: tx.outbox.get("k"))
    assert row is not None and row.state is OutState.DUE
