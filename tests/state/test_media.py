"""Files by their content: whole or not at all, once, and only from the media folder."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import MediaItem, OutboxRow
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.ports.world import Sink
from hermes.domain.turns.event import Entry, UserSaid
from hermes.domain.turns.session import Session
from hermes.state.files.media import MediaFiles, read_file
from hermes.state.home.wholefile import write_whole
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import START, FakeClock


async def test_a_file_is_named_by_what_is_in_it(tmp_path: Path) -> None:
    async with SqliteStore(None) as store:
        media = MediaFiles(tmp_path, store, FakeClock())
        item = await media.put(b"picture", "image/png")
        digest = hashlib.sha256(b"picture").hexdigest()
        assert item == MediaItem(
            sha256=digest, path=f"{digest[:2]}/{digest}", size=7, mime="image/png", stored_at=START
        )
        assert read_file(tmp_path, item) == b"picture"
        assert await media.put(b"picture", "image/png") == item


async def test_the_same_file_may_come_from_many_sides_at_once(tmp_path: Path) -> None:
    """Also from agents that share the folder, which do not wait for each other."""
    data = bytes(range(256)) * 4000
    async with SqliteStore(None) as store:
        sides = [MediaFiles(tmp_path, store.scoped(AgentId(f"a{n % 8}")), FakeClock()) for n in range(32)]
        items = await asyncio.gather(*(media.put(data, "x/y") for media in sides))
    assert len(set(items)) == 1
    assert _names(tmp_path) == [items[0].path]
    assert read_file(tmp_path, items[0]) == data


def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (tmp_path / "secret").write_text("not yours")
    (folder / "link").symlink_to(tmp_path / "secret")
    for path in ("../secret", str(tmp_path / "secret"), "ab/none", "", "link"):
        item = MediaItem(sha256="ab", path=path, size=4, mime="x/y", stored_at=START)
        with pytest.raises(UserError, match="no longer in the media folder"):
            read_file(folder, item)


def test_a_write_that_fails_leaves_the_old_file_and_no_scrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(_: int) -> None:
        raise OSError("planted")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="planted"):
        write_whole(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


async def test_a_kept_file_is_there_after_a_restart_and_for_its_agent_alone(tmp_path: Path) -> None:
    folder, clock = tmp_path / "media", FakeClock()
    async with SqliteStore(tmp_path / "state.db") as store:
        files = MediaFiles(folder, store.scoped(MAIN_AGENT), clock)
        item = await files.put(b"picture", "image/png")
        assert (item.size, item.mime) == (7, "image/png")
        assert await files.put(b"picture", "image/png") == item
    async with SqliteStore(tmp_path / "state.db") as store:
        assert await MediaFiles(folder, store.scoped(MAIN_AGENT), clock).open(item.sha256) == b"picture"
        with pytest.raises(UserError, match="There is no file"):
            await MediaFiles(folder, store.scoped(AgentId("other")), clock).open(item.sha256)
        (folder / item.path).unlink()
        with pytest.raises(UserError, match="no longer"):
            await MediaFiles(folder, store.scoped(MAIN_AGENT), clock).open(item.sha256)


def _pour(*pieces: bytes) -> Callable[[Sink], Awaitable[None]]:
    async def pour(sink: Sink) -> None:
        for piece in pieces:
            await sink(piece)

    return pour


async def swept(store: SqliteStore, media: MediaFiles, before: datetime, agent: AgentId = MAIN_AGENT) -> int:
    """As the chore does it, for one agent."""
    unused = await store.scoped(agent).read(lambda tx: tx.media.unused(before, 100))
    return await media.sweep(before, [item for _, item in unused])


def _names(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


async def test_a_file_may_come_in_pieces(tmp_path: Path) -> None:
    async with SqliteStore(None) as store:
        media = MediaFiles(tmp_path, store, FakeClock())
        data = b"%PDF-" + bytes(range(256)) * 20_000
        item = await media.receive(_pour(data[:3], data[3:2_000_000], data[2_000_000:]), limit=len(data))
        digest = hashlib.sha256(data).hexdigest()
        assert (item.sha256, item.size, item.mime) == (digest, len(data), "application/pdf")
        assert await media.open(item.sha256) == data
        assert _names(tmp_path) == [f"{digest[:2]}/{digest}.pdf"]
        assert media.locate(item) == str(tmp_path / f"{digest[:2]}/{digest}.pdf")
        os.utime(tmp_path / item.path, (0, 0))
        assert await swept(store, media, START - timedelta(days=1)) == 0 and _names(tmp_path) == [item.path]
        again = await media.put(data, "x/y")
        assert again.path == item.path and _names(tmp_path) == [item.path]


async def test_of_a_file_that_does_not_come_whole_nothing_stays(tmp_path: Path) -> None:
    async def broken(sink: Sink) -> None:
        await sink(b"x" * 10)
        raise Unreachable("gone")

    async def stubborn(sink: Sink) -> None:
        try:
            await sink(b"x" * 11)
        except UserError as error:
            raise RuntimeError("wrapped by an SDK") from error

    async def deaf(sink: Sink) -> None:
        with contextlib.suppress(UserError):
            await sink(b"x" * 11)

    (tmp_path / ".incoming").mkdir()
    (tmp_path / ".incoming" / "left by a killed process").write_bytes(b"half")
    async with SqliteStore(None) as store:
        media = MediaFiles(tmp_path, store, FakeClock())
        with pytest.raises(Unreachable):
            await media.receive(broken, limit=10)
        for pour in (_pour(b"x" * 6, b"x" * 5), stubborn, deaf):
            with pytest.raises(UserError, match="it is larger than 10 bytes"):
                await media.receive(pour, limit=10)
        assert _names(tmp_path) == []


async def test_files_that_nothing_names_are_swept_away(tmp_path: Path) -> None:
    folder, clock = tmp_path / "media", FakeClock()
    async with SqliteStore(tmp_path / "state.db") as store:
        mine = store.scoped(MAIN_AGENT)
        files = MediaFiles(folder, mine, clock)
        named = await files.put(b"said", "image/png")
        sent = await files.put(b"sent", "image/png")
        loose = await files.put(b"loose", "image/png")
        session = Session(id=SessionId("s"), agent=MAIN_AGENT, created_at=clock.now(), updated_at=clock.now())
        said = UserSaid(text="look", attachments=(named.attached(),))
        entry = Entry(seq=1, turn=TurnId("t"), at=clock.now(), record=said)
        to = Address(platform="fake", chat="1")
        body = Body(text="here", attachments=(sent.attached(),))

        def write(tx: Tx) -> None:
            tx.sessions.add(session)
            tx.journal.append(session.id, [entry])
            tx.outbox.add(OutboxRow(key="k", to=to, body=body, created_at=clock.now()))

        await mine.write(write)
        half = folder / "ab" / ".half.part"
        half.parent.mkdir(exist_ok=True)
        half.write_bytes(b"half")
        os.utime(half, (0, 0))
        assert await swept(store, files, clock.now()) == 1  # the half: all else is too young
        await clock.advance(10)
        assert await swept(store, files, clock.now()) == 1
        assert not (folder / loose.path).exists() and await files.open(named.sha256) == b"said"
        assert await files.open(sent.sha256) == b"sent"
        again = await files.put(b"loose", "image/png")
        assert await files.open(again.sha256) == b"loose"
        await mine.write(lambda tx: tx.sessions.delete(session.id))
        assert await swept(store, files, clock.now()) == 1
        with pytest.raises(UserError, match="There is no file"):
            await files.open(named.sha256)
        assert await files.open(sent.sha256) == b"sent"


async def test_agents_that_share_a_folder_share_its_files(tmp_path: Path) -> None:
    folder, clock = tmp_path / "media", FakeClock()
    async with SqliteStore(tmp_path / "state.db") as store:
        mine = MediaFiles(folder, store.scoped(MAIN_AGENT), clock)
        other = MediaFiles(folder, store.scoped(AgentId("other")), clock)
        item = await mine.put(b"both", "image/png")
        await clock.advance(10)
        await other.put(b"both", "image/png")
        assert await swept(store, mine, clock.now()) == 0  # its own row is gone, the other's file is not
        assert await other.open(item.sha256) == b"both"
