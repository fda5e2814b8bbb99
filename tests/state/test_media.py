"""Files by their content: whole or not at all, once, and only from the media folder."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.event import Entry, UserSaid
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId, TurnId
from hermes.domain.message import Attachment, Body, MediaKind
from hermes.domain.ports import Sink, Tx
from hermes.domain.rows import MediaItem
from hermes.domain.turn import TurnInput
from hermes.state.media import MediaFiles, read_file, store_file
from hermes.state.sqlite import SqliteStore
from hermes.state.wholefile import write_whole
from hermes.testing.clock import START, FakeClock
from hermes.testing.store_suite.samples import NOW, out, session, turn


def test_a_file_is_named_by_what_is_in_it(tmp_path: Path) -> None:
    item = store_file(tmp_path, b"picture", "image/png", FakeClock())
    digest = hashlib.sha256(b"picture").hexdigest()
    assert item == MediaItem(
        sha256=digest, path=f"{digest[:2]}/{digest}", size=7, mime="image/png", stored_at=START
    )
    assert read_file(tmp_path, item) == b"picture"
    assert store_file(tmp_path, b"picture", "image/png", FakeClock()) == item


def test_the_same_file_may_come_from_many_sides_at_once(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4000
    with ThreadPoolExecutor(8) as pool:
        items = list(pool.map(lambda _: store_file(tmp_path, data, "x/y", FakeClock()), range(32)))
    assert len(set(items)) == 1
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == [tmp_path / items[0].path]
    assert read_file(tmp_path, items[0]) == data


def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    item = store_file(folder, b"mine", "x/y", FakeClock())
    (tmp_path / "secret").write_text("not yours")
    for path in ("../secret", str(tmp_path / "secret"), "ab/none", ""):
        with pytest.raises(UserError, match="no longer in the media folder"):
            read_file(folder, replace(item, path=path))
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError):
        read_file(folder, replace(item, path="link"))


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


async def test_files_that_nothing_needs_any_more_are_removed(tmp_path: Path) -> None:
    clock = FakeClock()
    async with SqliteStore(None) as store:
        media = MediaFiles(tmp_path, store, clock)
        spoken = await media.receive(_pour(b"spoken of"), limit=100)
        waiting = await media.receive(_pour(b"of a turn that waits"), limit=100)
        leaving = await media.receive(_pour(b"on its way out"), limit=100)
        unused = await media.receive(_pour(b"of nobody"), limit=100)
        clock.jump(3600)
        young = await media.receive(_pour(b"young"), limit=100)

        def use(tx: Tx) -> None:
            tx.sessions.add(session("s0"))
            said = UserSaid(text="look", attachments=(_attached(spoken),))
            tx.journal.append(SessionId("s0"), [Entry(seq=1, turn=TurnId("t0"), at=NOW, record=said)])
            tx.turns.add(replace(turn("t1", "s0"), input=TurnInput(attachments=(_attached(waiting),))))
            tx.outbox.add(replace(out("k1"), body=Body(attachments=(_attached(leaving),))))

        await store.write(use)
        before = clock.now() - timedelta(minutes=30)
        assert await store.read(lambda tx: tx.media.unused(before, 10)) == [unused]
        other = MediaFiles(tmp_path, store.scoped(AgentId("other")), clock)
        assert await other.remove_unused(before) == 0
        assert await media.remove_unused(before) == 1
        assert unused.path not in _names(tmp_path) and len(_names(tmp_path)) == 4
        await store.write(lambda tx: tx.sessions.delete(SessionId("s0")))
        assert await media.remove_unused(before) == 2
        assert _names(tmp_path) == sorted([leaving.path, young.path])
        assert await store.read(lambda tx: tx.media.get(spoken.sha256)) is None


async def test_a_file_that_comes_again_is_young_again(tmp_path: Path) -> None:
    clock = FakeClock()
    async with SqliteStore(None) as store:
        media = MediaFiles(tmp_path, store, clock)
        await media.receive(_pour(b"twice"), limit=100)
        clock.jump(3600)
        await media.receive(_pour(b"twice"), limit=100)
        assert await media.remove_unused(clock.now() - timedelta(minutes=30)) == 0


def _attached(item: MediaItem) -> Attachment:
    return Attachment(kind=MediaKind.FILE, ref="r", sha256=item.sha256)
