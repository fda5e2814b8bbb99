"""Damaged files are kept, never written over; the newest good backup takes their place, and what that leaves
open is marked. Backups are made while the store works."""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from hermes.domain.chats.message import Receipt
from hermes.domain.chats.rows import OutState
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.turn import ReplyPlace, TurnState
from hermes.domain.word import replace
from hermes.state.store.care import repair
from hermes.state.store.care import salvage as salvage_module
from hermes.state.store.care.backup import KEPT, backup, backup_if_due, backups_of
from hermes.state.store.care.repair import OpenedStore, open_checked
from hermes.state.store.care.restored import RESTORED
from hermes.state.store.migrations import DamagedDatabase
from hermes.state.store.sqlite import DEFAULTS, PAGE_BYTES, SqliteDb, suspicion
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock
from hermes.testing.store_suite.samples import NOW, address, entry, inbound, out, session, turn

S1 = SessionId("s1")
Harm = Callable[[Path, random.Random], None]


def _fill(tx: Tx) -> None:
    tx.sessions.add(session())
    for name in ("t1", "waits"):
        tx.turns.add(replace(turn(name), reply=ReplyPlace(to=address(name))))
    tx.turns.save(replace(turn("waits"), state=TurnState.WAITING), attempt=0)
    tx.journal.append(S1, [entry(number) for number in range(1, 200)])
    tx.inbox.add("fake", [inbound(f"old{number}", text="x" * 500) for number in range(100)], "old", NOW)
    for row in tx.inbox.pending(0, 1000)[:-3]:
        tx.inbox.finish(row.n, "turn")
    tx.outbox.add(out("unsent"))
    receipt = Receipt(to=address(), ref="m1")
    tx.outbox.add(replace(out("draft", draft=True), state=OutState.SHOWN, receipt=receipt))
    tx.recovery.boot(NOW)


def _go_on(tx: Tx) -> None:
    """What happens after the backup."""
    tx.inbox.add("fake", [inbound(f"new{number}", text="y" * 500) for number in range(100)], "new", NOW)
    for row in tx.inbox.pending(0, 1000)[:-2]:
        tx.inbox.finish(row.n, "turn")
    tx.journal.append(S1, [entry(number) for number in range(200, 300)])


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


async def _home(folder: Path, *, killed: bool = True, backed_up: bool = True) -> Path:
    """A home with a database that was in use until just now, its log included, and one backup."""
    path = _make_folder(folder / "work") / "state.db"
    async with SqliteStore(path) as store:
        await store.write(_fill)
        if backed_up:
            await asyncio.to_thread(backup, path, NOW)
        await store.write(_go_on)
        if not killed:
            await store.write(lambda tx: tx.recovery.close(1, NOW))
            await store.close()
        left = _copy_files(path, folder)
    return left


def _copy_files(path: Path, folder: Path) -> Path:
    """The files as a killed process leaves them."""
    target = folder / "home"
    target.mkdir()
    for name in ("state.db", "state.db-wal"):
        if (path.parent / name).exists():
            shutil.copyfile(path.parent / name, target / name)
    if (path.parent / "backups").exists():
        shutil.copytree(path.parent / "backups", target / "backups")
    return target / "state.db"


def _digests(path: Path) -> dict[str, str]:
    names = (path, path.with_name(path.name + "-wal"))
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in names if one.exists()}


# --- ways to be damaged ---


def _merge_log(path: Path) -> None:
    """Fold the log into the file, so that the damage is met."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def _flip(path: Path, dice: random.Random) -> None:
    """Flip bytes in the heads of pages, where every byte means something."""
    _merge_log(path)
    data = bytearray(path.read_bytes())
    for page in dice.sample(range(PAGE_BYTES, len(data), PAGE_BYTES), 12):
        for place in range(page, page + 8):
            data[place] ^= dice.randrange(1, 256)
    path.write_bytes(data)


def _break_table(path: Path, name: str) -> None:
    """Spoil the first page of one table or index and nothing else."""
    _merge_log(path)
    connection = apsw.Connection(str(path))
    [[root]] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)


def _truncate(path: Path, dice: random.Random) -> None:
    _merge_log(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(dice.randrange(5000, size * 3 // 4))


def _empty(path: Path, dice: random.Random) -> None:
    path.write_bytes(b"")


def _garble_header(path: Path, dice: random.Random) -> None:
    _merge_log(path)
    with path.open("r+b") as file:
        file.write(dice.randbytes(100))


def _zero_pages(path: Path, dice: random.Random) -> None:
    _merge_log(path)
    pages = path.stat().st_size // PAGE_BYTES
    with path.open("r+b") as file:
        for page in dice.sample(range(1, pages), pages // 3):
            file.seek(page * PAGE_BYTES)
            file.write(bytes(PAGE_BYTES))


def _zero_start(path: Path, dice: random.Random) -> None:
    _merge_log(path)
    with path.open("r+b") as file:
        file.write(bytes(dice.choice((100, 512, 4096))))


def _garbage_log(path: Path, dice: random.Random) -> None:
    log = path.with_name(path.name + "-wal")
    log.write_bytes(dice.randbytes(log.stat().st_size))


def _hole_in_log(path: Path, dice: random.Random) -> None:
    """Break a frame in the first half of the log; whole transactions lie behind it."""
    log = path.with_name(path.name + "-wal")
    data = bytearray(log.read_bytes())
    frames = (len(data) - 32) // (PAGE_BYTES + 24)
    place = 32 + dice.randrange(frames // 4) * (PAGE_BYTES + 24) + dice.randrange(24, PAGE_BYTES)
    data[place] ^= 0xFF
    log.write_bytes(data)


HARMS: list[Harm] = [
    _flip, _truncate, _empty, _garble_header, _zero_pages, _zero_start, _garbage_log, _hole_in_log,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
async def test_a_damaged_file_is_kept_and_a_good_one_opened(seed: int, tmp_path: Path) -> None:
    harm = HARMS[seed % len(HARMS)]
    path = await _home(tmp_path)
    harm(path, random.Random(seed))
    before = _digests(path)
    opened = await open_checked(path, FakeClock())
    try:
        kept = {
            name.replace(".damaged-20260105T120000Z", ""): digest for name, digest in _aside(path).items()
        }
        assert kept == before, "the damaged files are kept to the byte"
        assert "damaged" in opened.notices[0]
        assert ".damaged-" in opened.notices[0]
        await _assert_marked(opened)
        assert await opened.store.check_integrity() == []
        assert opened.store.facts.trouble == ""
    finally:
        await opened.store.close()
    again = await open_checked(path, FakeClock())
    assert not again.notices, "it is mended once"
    await again.store.close()


def _aside(path: Path) -> dict[str, str]:
    found = [one for one in path.parent.iterdir() if ".damaged-" in one.name]
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in found}


async def _assert_marked(opened: OpenedStore) -> None:
    """The old is there, and nothing of it will be done again without saying so."""
    store = opened.store
    assert len(await store.read(lambda tx: tx.journal.read(S1))) >= 199
    turns = await store.read(lambda tx: tx.turns.open_of(S1))
    assert [one.id for one in turns] == ["t1", "waits"]
    assert turns[1].stop == RESTORED, "nobody could answer it"
    for one in turns:
        told = await store.read(lambda tx, chat=one.id: tx.outbox.head(address(chat)))
        assert one.stop == (None if told is None else RESTORED), "it goes on, or its chat is told"
    assert await store.read(lambda tx: len(tx.recovery.due(0, 10))) == 2
    head = await store.read(lambda tx: tx.outbox.head(address()))
    assert head is not None
    assert head.key == "unsent"
    assert head.state in (OutState.UNKNOWN, OutState.DUE)
    old = [await store.read(lambda tx, n=n: tx.inbox.find(f"old{n}")) for n in range(100)]
    assert all(rows and rows[0].outcome is not None for rows in old)
    pending = {row.inbound.delivery for row in await store.read(lambda tx: tx.inbox.pending(0, 1000))}
    assert pending <= {"new98", "new99"}, "only what was waiting when the file was last written may run"
    boot = await store.write(lambda tx: tx.recovery.boot(NOW))
    assert not boot.unclean
    assert boot.epoch > 1


async def test_what_came_in_since_the_backup_is_saved_where_it_can_be_read(tmp_path: Path) -> None:
    path = await _home(tmp_path)
    _break_table(path, "turns_accepted")
    opened = await open_checked(path, FakeClock())
    try:
        assert "100 later incoming messages" in opened.notices[1]
        pending = await opened.store.read(lambda tx: tx.inbox.pending(0, 1000))
        assert [row.inbound.delivery for row in pending] == ["new98", "new99"]
        again = [inbound(f"new{number}") for number in range(100)]
        assert await opened.store.write(lambda tx: tx.inbox.add("fake", again, None, NOW)) == 0
        assert await opened.store.read(lambda tx: tx.inbox.cursor("fake")) == "new"
    finally:
        await opened.store.close()


async def test_words_that_are_no_text_any_more_cost_their_own_rows_alone(tmp_path: Path) -> None:
    path = await _home(tmp_path)
    _merge_log(path)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE inbox SET account = CAST(x'ff' AS TEXT) WHERE delivery = 'new50'")
    connection.execute("UPDATE journal SET turn = CAST(x'ff' AS TEXT) WHERE seq = 250")
    connection.execute("UPDATE sessions SET id = CAST(x'ff' AS TEXT)")
    connection.close()
    _break_table(path, "turns_accepted")
    opened = await open_checked(path, FakeClock())
    try:
        assert "99 later incoming messages" in opened.notices[1]
        pending = await opened.store.read(lambda tx: tx.inbox.pending(0, 1000))
        assert [row.inbound.delivery for row in pending] == ["new98", "new99"]
        assert len(await opened.store.read(lambda tx: tx.journal.read(S1))) == 298
        assert await opened.store.read(lambda tx: tx.sessions.get(S1)) is not None
    finally:
        await opened.store.close()


async def test_flipped_bits_anywhere_do_not_keep_it_from_opening(tmp_path: Path) -> None:
    path = await _home(tmp_path, killed=False)
    sound = path.read_bytes()
    dice = random.Random(0)
    for number in range(40):
        home = tmp_path / str(number)
        shutil.copytree(path.parent, home)
        data = bytearray(sound)
        for page in dice.sample(range(PAGE_BYTES, len(data), PAGE_BYTES), 3):
            for _ in range(30):
                data[page + dice.randrange(PAGE_BYTES)] ^= 1 << dice.randrange(8)
        (home / path.name).write_bytes(data)
        opened = await open_checked(home / path.name, FakeClock())
        await opened.store.close()


async def test_a_file_that_breaks_the_salvage_is_left_for_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await _home(tmp_path)
    _break_table(path, "turns_accepted")

    def salvage(*_: SqliteDb) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(salvage_module, "salvage", salvage)
    opened = await open_checked(path, FakeClock())
    assert "2026-01-05" in opened.notices[1]
    await _assert_marked(opened)
    await opened.store.close()


async def test_a_bad_backup_is_passed_over(tmp_path: Path) -> None:
    path = await _home(tmp_path)
    good = backups_of(path)[0]
    for name, content in (
        ("state-20260106T120000Z.db", b"not a database at all" * 500),
        ("state-20260107T120000Z.db", b""),
    ):
        good.with_name(name).write_bytes(content)
    _garble_header(path, random.Random(1))
    opened = await open_checked(path, FakeClock())
    assert "2026-01-05" in opened.notices[1]
    await opened.store.close()


async def test_without_a_backup_an_empty_database_is_begun(tmp_path: Path) -> None:
    path = await _home(tmp_path, backed_up=False)
    _garble_header(path, random.Random(1))
    before = _digests(path)
    opened = await open_checked(path, FakeClock())
    assert "no good backup" in opened.notices[1]
    assert list(_aside(path).values()) == list(before.values())
    assert await opened.store.read(lambda tx: tx.sessions.find("")) == []
    await opened.store.close()


async def test_a_damaged_search_index_is_built_anew(tmp_path: Path) -> None:
    path = await _home(tmp_path)
    _merge_log(path)
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.execute("UPDATE words_data SET block = x'00ff00ff' WHERE id > 10")
    connection.close()
    opened = await open_checked(path, FakeClock())
    try:
        assert [("search index" in notice) for notice in opened.notices] == [True]
        assert len(await opened.store.read(lambda tx: tx.search.find("word", 1000))) == 299
        assert not _aside(path)
    finally:
        await opened.store.close()


@pytest.mark.parametrize("harm", ["DELETE FROM letters_config", "UPDATE words_config SET v = 0"])
async def test_a_search_index_without_its_settings_is_made_anew(harm: str, tmp_path: Path) -> None:
    path = await _home(tmp_path, backed_up=False)
    _merge_log(path)
    connection = apsw.Connection(str(path))
    connection.execute(harm)
    connection.close()
    opened = await open_checked(path, FakeClock())
    try:
        assert [("search index" in notice) for notice in opened.notices] == [True]
        assert len(await opened.store.read(lambda tx: tx.search.find("word", 1000))) == 299
        await opened.store.write(lambda tx: tx.journal.append(S1, [entry(300)]))
        assert len(await opened.store.read(lambda tx: tx.search.find("word", 1000))) == 300
        assert not _aside(path)
        assert await opened.store.check_integrity() == []
    finally:
        await opened.store.close()


async def test_an_index_that_cannot_be_made_anew_leaves_it_to_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await _home(tmp_path)
    _merge_log(path)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE words_config SET v = 0")
    connection.close()
    before = _digests(path)

    def renew(db: SqliteDb) -> None:
        raise apsw.CorruptError("more is damaged")

    monkeypatch.setattr(repair, "_renew_index", renew)
    opened = await open_checked(path, FakeClock())
    assert "2026-01-05" in opened.notices[1]
    assert list(_aside(path).values()) == list(before.values()), "the damaged file is kept to the byte"
    await _assert_marked(opened)
    await opened.store.close()


async def test_sound_files_are_opened_without_a_word(tmp_path: Path) -> None:
    for number, killed in enumerate((True, False)):
        path = await _home(tmp_path / str(number), killed=killed)
        opened = await open_checked(path, FakeClock())
        assert opened.notices == ()
        assert not opened.check_later
        assert len(await opened.store.read(lambda tx: tx.journal.read(S1))) == 299
        await opened.store.close()
    fresh = await open_checked(tmp_path / "fresh.db", FakeClock())
    assert fresh.notices == ()
    await fresh.store.close()


async def test_a_large_file_is_checked_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "_CHECKED_WHEN_UNCLEAN", 4096)
    path = await _home(tmp_path)
    _break_table(path, "media")
    opened = await open_checked(path, FakeClock())
    try:
        assert opened.check_later
        assert await opened.store.check_integrity() != []
        assert "damaged" in opened.store.facts.trouble
        with pytest.raises(Unreachable, match="damaged"):
            await opened.store.write(lambda tx: tx.inbox.add("fake", [inbound("d")], None, NOW), first=True)
    finally:
        await opened.store.close()
    assert suspicion(path).exists()
    again = await open_checked(path, FakeClock())
    assert "damaged" in again.notices[0]
    assert not suspicion(path).exists()
    await again.store.close()


async def test_damage_met_at_work_fails_only_who_meets_it(tmp_path: Path) -> None:
    path = await _home(tmp_path, killed=False)
    _break_table(path, "media")
    async with SqliteStore(path) as store:
        harmless = [store.write(lambda tx: len(tx.journal.read(S1))) for _ in range(20)]
        meets = store.write(lambda tx: tx.media.get("ab"))
        results = await asyncio.gather(*harmless, meets, return_exceptions=True)
        assert results[:-1] == [299] * 20
        assert isinstance(results[-1], Unreachable)
        assert "damaged" in store.facts.trouble
        with pytest.raises(Unreachable, match="cannot be read"):
            await store.read(lambda tx: tx.media.get("ab"))
        with pytest.raises(Unreachable):
            await store.write(lambda tx: tx.inbox.add("fake", [inbound("d")], None, NOW), first=True)
        assert await store.read(lambda tx: tx.inbox.find("d")) == []


async def test_a_repair_that_was_cut_off_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await _home(tmp_path)
    _garble_header(path, random.Random(1))
    before = _digests(path)
    moves: list[str] = []
    real = Path.replace

    def stop_at(number: int) -> None:
        def move(self: Path, target: Path) -> Path:
            moves.append(self.name)
            if len(moves) == number:
                raise KeyboardInterrupt
            return real(self, target)

        moves.clear()
        monkeypatch.setattr(Path, "replace", move)

    for number in (1, 2):
        stop_at(number)
        with pytest.raises(KeyboardInterrupt):
            repair._make_sound(path, NOW, DEFAULTS)
        monkeypatch.undo()
        assert {*_aside(path).values(), *_digests(path).values()} >= set(before.values())
    opened = await open_checked(path, FakeClock())
    assert opened.notices
    assert set(_aside(path).values()) >= set(before.values())
    assert len(await opened.store.read(lambda tx: tx.journal.read(S1))) >= 199
    await opened.store.close()


# --- opening without repair, and backups ---


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (apsw.NoMemError("out of memory"), "too little memory"),
        (apsw.IOError("disk I/O error"), "cannot be read or written"),
        (apsw.FullError("database or disk is full"), "the disk is full"),
        (apsw.ReadOnlyError("attempt to write a readonly database"), "cannot be opened for writing"),
        (apsw.CantOpenError("unable to open database file"), "cannot be opened for writing"),
        (apsw.BusyError("database is locked"), "locked by another process"),
    ],
)
async def test_what_says_nothing_of_the_content_is_no_damage(
    error: apsw.Error, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await _home(tmp_path)
    before = _digests(path)

    def fail(*_: object) -> None:
        raise error

    for place in ("all", "one"):
        with monkeypatch.context() as patch:
            patch.setattr(SqliteDb, place, fail)
            with pytest.raises(UserError, match=says) as raised:
                await open_checked(path, FakeClock())
        assert not isinstance(raised.value, DamagedDatabase)
        assert "backups" not in str(raised.value)
    assert _digests(path) == before
    assert not _aside(path)
    opened = await open_checked(path, FakeClock())
    assert opened.notices == (), "all is there"
    await opened.store.close()


async def test_a_plain_open_refuses_damage_and_leaves_it(tmp_path: Path) -> None:
    for number, harm in enumerate((_zero_start, _empty, _garble_header)):
        path = await _home(tmp_path / str(number))
        harm(path, random.Random(0))
        before = _digests(path)
        with pytest.raises(DamagedDatabase):
            await SqliteStore(path).open()
        assert _digests(path) == before


async def test_another_program_s_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE sessions (id TEXT)")
    connection.close()
    before = _digests(path)
    for opening in (SqliteStore(path).open(), open_checked(path, FakeClock())):
        with pytest.raises(UserError, match="another program"):
            await opening
    assert _digests(path) == before


async def test_backups_are_made_while_the_store_works(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.write(_fill)
        done = False

        async def work() -> None:
            number = 200
            while not done:
                await store.write(lambda tx, number=number: tx.journal.append(S1, [entry(number)]))
                number += 1

        working = asyncio.create_task(work())
        for day in range(KEPT + 2):
            await asyncio.to_thread(backup, path, NOW + timedelta(days=day))
        done = True
        await working
        assert [one.name for one in backups_of(path)] == [
            f"state-202601{9 - number:02}T120000Z.db" for number in range(KEPT)
        ]
        assert not [one for one in (tmp_path / "backups").iterdir() if one.name.startswith(".")]
    for made in backups_of(path):
        async with SqliteStore(made) as store:
            assert len(await store.read(lambda tx: tx.journal.read(S1))) >= 199
            assert await store.check_integrity() == []


async def test_a_backup_is_due_after_a_day(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await store.write(_fill)
        assert backup_if_due(path, NOW) is not None
        assert backup_if_due(path, NOW + timedelta(hours=23)) is None
        assert backup_if_due(path, NOW + timedelta(hours=25)) is not None
        # A clock that was wrong once does not end backups for years.
        assert backup_if_due(path, NOW - timedelta(days=400)) is not None


async def test_a_damaged_original_gives_no_backup(tmp_path: Path) -> None:
    path = await _home(tmp_path)
    before = backups_of(path)
    _zero_pages(path, random.Random(5))
    with pytest.raises(DamagedDatabase):
        backup(path, NOW + timedelta(days=2))
    assert backups_of(path) == before


def test_the_log_s_head_is_known() -> None:
    from hermes.state.store.care.walfile import _fits

    words = (0x377F0682, 3007000, 4096, 0, 1, 2)
    assert not _fits(struct.pack(">8I", *words, 0, 0))
    assert not _fits(bytes(32))
