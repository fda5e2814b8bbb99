"""Damage with open work: whichever pages are spoilt, every acknowledged message is answered, taken again or
spoken of in its chat; nothing is sent twice without a mark, and no `once` call is begun again."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from hermes.domain.chats.channels import Channel
from hermes.domain.chats.message import Receipt
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import Effect
from hermes.domain.turns.event import Entry, Finished, ModelSaid, Record, ToolStarted, UserSaid
from hermes.domain.turns.session import SessionKey
from hermes.domain.turns.turn import ReplyPlace, Turn, TurnState
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
from tests.sampling import sampled

OPEN = ("pending", "accepted", "running", "tool", "waiting")
ENDED = ("sent", "due", "attempting")
TABLES = ("journal", "turns", "inbox", "outbox", "sessions", "bindings", "questions", "guidance", "cursors")


def _chats(when: str) -> list[str]:
    return [f"{when}-{fate}-{number}" for fate in (*ENDED, *OPEN) for number in range(3)]


def _records(chat: str, fate: str) -> list[Record]:
    said: list[Record] = [UserSaid(text=f"words {chat}")]
    if fate in ("tool", "waiting"):
        call = CallId(f"call-{chat}")
        said += [ModelSaid(), ToolStarted(call=call, name="terminal", effect=Effect.ONCE, key=chat)]
    if fate in ENDED:
        said += [ModelSaid(text=f"answer {chat}"), Finished()]
    return said


def _accept(chat: str, tx: Tx) -> None:
    tx.inbox.add("fake", [inbound(chat, text=f"words {chat} " + "x" * 300, chat=chat)], chat, NOW)


def _take(chat: str, tx: Tx) -> Turn:
    [row] = tx.inbox.find(chat)
    mine = replace(
        turn(f"t-{chat}", f"s-{chat}"), source=source(chat), reply=ReplyPlace(to=address(chat), ref=chat)
    )
    tx.sessions.add(session(f"s-{chat}"))
    tx.bindings.bind(_key(chat), mine.session, source(chat), after(7200))
    tx.directory.note(Channel(address=address(chat), seen_at=after(7200)))
    tx.turns.add(mine)
    tx.inbox.finish(row.n, "turn", mine.id)
    return mine


def _key(chat: str) -> SessionKey:
    where = source(chat)
    return SessionKey(
        agent=MAIN_AGENT,
        platform=where.address.platform,
        account=where.address.account,
        kind=where.kind,
        chat=chat,
    )


def _go_on(chat: str, fate: str, tx: Tx) -> None:
    """Bring a message as far as its fate says."""
    _accept(chat, tx)
    if fate == "pending":
        return
    mine = _take(chat, tx)
    if fate == "accepted":
        return
    records = _records(chat, fate)
    entries = [
        Entry(seq=seq, turn=mine.id, at=after(seq), record=record) for seq, record in enumerate(records, 1)
    ]
    running = replace(mine, state=TurnState.RUNNING, attempt=1)
    tx.turns.save(running, attempt=0, epoch=1)
    tx.journal.append(mine.session, entries)
    state = TurnState.DONE if fate in ENDED else TurnState.WAITING if fate == "waiting" else TurnState.RUNNING
    tx.turns.advance(mine.id, attempt=1, records=len(entries) - 1, state=state)
    if fate == "waiting":
        tx.questions.add(question(f"q-{chat}", mine.id, mine.session))
    if fate in ENDED:
        answer = replace(out(f"a-{chat}", chat, of=mine.id), state=OutState(fate))
        tx.outbox.add(
            answer if fate != "sent" else replace(answer, receipt=Receipt(to=address(chat), ref="m"))
        )


def _finish_some(tx: Tx) -> None:
    """What was open at the backup, and ended since."""
    for fate in ("running", "accepted"):
        chat = f"before-{fate}-0"
        mine = tx.turns.get(TurnId(f"t-{chat}"))
        assert mine is not None
        tx.turns.save(replace(mine, state=TurnState.DONE, attempt=2), attempt=mine.attempt)
        tx.journal.append(mine.session, [Entry(seq=9, turn=mine.id, at=after(9), record=Finished())])
        tx.outbox.add(replace(out(f"a-{chat}", chat, of=mine.id), state=OutState.SENT))
    chat = "before-due-0"
    [row] = tx.outbox.of_turn(TurnId(f"t-{chat}"))
    tx.outbox.save(replace(row, state=OutState.SENT, receipt=Receipt(to=address(chat), ref="m")))


HOME = "home"
LOST = "lost without a word"
UNNAMED = ("after-pending", "after")
"""Of whom nothing may be left: messages nobody had looked at, and all, where the first page is gone."""
NOW_SENT = ("before-running-0", "before-accepted-0", "before-due-0")


async def _home(folder: Path) -> Path:
    path = folder / "work" / "gateway.db"
    path.parent.mkdir()
    async with SqliteStore(path) as store:
        await store.write(lambda tx: tx.recovery.boot(NOW))
        await store.write(lambda tx: tx.directory.set_home("fake", address(HOME), NOW))
        for chat in _chats("before"):
            await store.write(lambda tx, chat=chat: _go_on(chat, chat.split("-")[1], tx))
        await asyncio.to_thread(backup, path, NOW)
        for chat in _chats("after"):
            await store.write(lambda tx, chat=chat: _go_on(chat, chat.split("-")[1], tx))
        await store.write(_finish_some)
    left = folder / "home" / "gateway.db"
    shutil.copytree(path.parent, left.parent)
    return left


@pytest.fixture(scope="module")
def sound_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(_home(tmp_path_factory.mktemp("sound")))


# --- harm ---

Harm = Callable[[Path, random.Random], None]


def _spoil(path: Path, pages: list[int], dice: random.Random) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE_BYTES)
            file.write(dice.randbytes(PAGE_BYTES))


def _roots(path: Path, *names: str) -> list[int]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    marks = ", ".join("?" * len(names))
    query = f"SELECT rootpage FROM sqlite_schema WHERE name IN ({marks})"
    roots = [row[0] for row in connection.execute(query, names)]
    connection.close()
    return roots


def _root(*names: str) -> Harm:
    def harm(path: Path, dice: random.Random) -> None:
        _spoil(path, _roots(path, *names), dice)

    return harm


def _contents(path: Path) -> set[int]:
    """The pages that say where the tables are: without them nothing can be read at all."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    pages = {row[0] for row in connection.execute("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")}
    connection.close()
    return pages


def _some_pages(count: int) -> Harm:
    def harm(path: Path, dice: random.Random) -> None:
        pages = set(range(1, path.stat().st_size // PAGE_BYTES + 1)) - _contents(path)
        _spoil(path, dice.sample(sorted(pages), count), dice)

    return harm


def _header(path: Path, dice: random.Random) -> None:
    _spoil(path, [1], dice)


HARMS: dict[str, Harm] = {name: _root(name) for name in TABLES}
HARMS |= {
    "journal and turns": _root("journal", "turns"),
    "turns and inbox": _root("turns", "inbox"),
    "inbox and outbox": _root("inbox", "outbox"),
    "turns and sessions": _root("turns", "sessions"),
    "five tables": _root("journal", "turns", "inbox", "outbox", "sessions"),
    "header": _header,
}
HARMS |= {f"{count} pages, {seed}": _some_pages(count) for count in (1, 3, 6, 12) for seed in range(60)}
CHOSEN = {(name,) for name in HARMS if "pages" not in name or name.split(", ")[1] in "012"}


# --- the audit ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a restored database holds for one chat."""

    turns: list[Turn]
    waiting: int
    rows: list[OutboxRow]
    records: list[Entry]

    @property
    def is_spoken_of(self) -> bool:
        return any(row.key.startswith(RESTORED) and row.state is OutState.DUE for row in self.rows)

    @property
    def runs(self) -> list[Turn]:
        return [one for one in self.turns if one.stop is None]

    @property
    def answers(self) -> list[OutboxRow]:
        return [row for row in self.rows if row.state.open and not row.key.startswith(RESTORED)]


def _look(chat: str, tx: Tx) -> Found:
    rows = tx.inbox.pending(0, 10_000)
    lanes = tx.outbox.of_turn(TurnId(f"t-{chat}"))
    head = tx.outbox.head(address(chat))
    if head is not None and head.key not in {row.key for row in lanes}:
        lanes.append(head)
    return Found(
        turns=tx.turns.open_of(SessionId(f"s-{chat}")),
        waiting=sum(row.inbound.delivery == chat for row in rows),
        rows=lanes,
        records=tx.journal.of_turn(TurnId(f"t-{chat}")),
    )


def _audit(chat: str, found: Found) -> list[str]:
    """What is wrong with a chat after the repair."""
    fate = "sent" if chat in NOW_SENT else chat.split("-")[1]
    again = len(found.runs) + found.waiting
    wrong = []
    if again > 1:
        wrong.append("two turns for one message")
    if fate in OPEN and not again and not found.is_spoken_of:
        wrong.append(LOST)
    if fate in ENDED and again and not found.is_spoken_of:
        wrong.append("an answered message runs again")
    if fate == "sent" and any(row.state is not OutState.UNKNOWN for row in found.answers):
        wrong.append("an answer goes out again without a mark")
    if fate == "due" and not found.answers and not found.is_spoken_of:
        wrong.append(LOST)
    if fate in ("tool", "waiting") and again:
        started = any(isinstance(entry.record, ToolStarted) for entry in found.records)
        if not started or found.waiting or found.runs[0].state is TurnState.ACCEPTED:
            wrong.append("a call with `once` may be made again")
    return [f"{chat}: {what}" for what in wrong]


@pytest.mark.parametrize("name", sampled([(name,) for name in HARMS], CHOSEN))
async def test_damage_loses_nothing_without_a_word(name: str, sound_home: Path, tmp_path: Path) -> None:
    shutil.copytree(sound_home.parent, tmp_path / "home")
    path = tmp_path / "home" / "gateway.db"
    HARMS[name](path, random.Random(name))
    opened = await open_checked(path, FakeClock())
    try:
        wrong: list[str] = []
        unnamed = 0
        home = await opened.store.read(lambda tx: tx.outbox.head(address(HOME)))
        for chat in _chats("before") + _chats("after"):
            found = await opened.store.read(lambda tx, chat=chat: _look(chat, tx))
            problems = _audit(chat, found)
            if (
                home is not None
                and problems == [f"{chat}: {LOST}"]
                and chat.startswith(UNNAMED[name == "header"])
            ):
                # Nothing is left that says who wrote: the home channel is told.
                unnamed += 1
                continue
            wrong += problems
        assert not wrong, "\n".join([*wrong, *opened.notices])
        assert not unnamed or "incoming messages could not be read" in opened.notices[1]
        assert await opened.store.check_integrity() == []
        hits = await opened.store.read(lambda tx: tx.search.find("answer", 1000))
        assert len({hit.session for hit in hits}) >= 9, "what was indexed is still found"
    finally:
        await opened.store.close()
