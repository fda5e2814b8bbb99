"""`hermes backup`, as somebody uses it: while a gateway runs, encrypted, put back elsewhere, by the clock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from hermes.app.backups import QUICK, HomeBackups, archiving, made_at, opened
from hermes.domain.settings.backup import BackupSettings
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace
from hermes.state.home.archive import ArchiveManifest, read_archive, unpack_archive, write_archive
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.testing.clock import FakeClock
from tests.cli.command import end_gateway, gateway, hermes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


PASSPHRASE = {"HERMES_BACKUP_PASSPHRASE": "correct horse"}


def told(home: Path, *words: str, **environ: str) -> str:
    said = hermes(home, *words, **environ)
    assert said.code == 0 and said.clean, said
    return said.out


def test_a_backup_of_a_running_gateway_comes_back_elsewhere(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text("model: demo\n")
    with gateway(home):
        told(home, "-q", "the milk is in the fridge")
        made = json.loads(told(home, "backup", "create", "--json"))
    file = Path(made["file"])
    assert (
        file.parent == home / "archives"
        and made["left_out"] == []
        and file.name in told(home, "backup", "list")
    )
    assert "is whole" in told(home, "backup", "verify", str(file))
    other = tmp_path / "other"
    (other / "memories").mkdir(parents=True)
    (other / "memories" / "MEMORY.md").write_text("of the other home\n")
    assert "would replace" in told(other, "backup", "restore", str(file), "--dry-run")
    assert not (other / "config.yaml").exists()
    refused = hermes(other, "backup", "restore", str(file))
    assert refused.code != 0 and "--yes" in refused.err, refused
    assert "Restored" in told(other, "backup", "restore", str(file), "-y")
    assert (other / "config.yaml").read_text() == "model: demo\n"
    searched = hermes(other, "sessions", "search", "fridge")
    assert "the milk is in the fridge" in searched.out
    assert searched.err.count("The restored database was opened.") == searched.err.count("\n") == 1, searched
    assert "missing" not in searched.err and "could not" not in searched.err
    assert not hermes(other, "sessions", "search", "fridge").err
    unmounted = hermes(home, "backup", "create", "-o", f"{tmp_path}/disk/")
    assert unmounted.code == 1 and "There is no folder" in unmounted.err
    assert not (tmp_path / "disk").exists()
    (before,) = (other / "before-restore").iterdir()
    assert (before / "memories" / "MEMORY.md").read_text() == "of the other home\n"
    with gateway(other):
        assert "fridge" in told(other, "sessions", "search", "milk")
        busy = hermes(other, "backup", "restore", str(file), "-y")
        assert busy.code == 1 and "already runs" in busy.err


def test_an_interrupted_restore_stops_everything_until_it_is_finished(home: Path, tmp_path: Path) -> None:
    told(home, "-q", "hello")
    file = json.loads(told(home, "backup", "create", "--json", "-o", str(tmp_path / "b.zip")))["file"]
    staging = home / ".restoring"
    (staging / "new").mkdir(parents=True)
    (staging / "new" / "SOUL.md").write_text("You are new.")
    (staging / "ready").write_text("20261118-030000")
    end_gateway(home)
    refused = ("-q hi", "gateway run", "sessions list", "agent add new", f"backup restore {file} -y")
    for words in map(str.split, refused):
        said = hermes(home, *words)
        assert said.code == 1 and "hermes backup restore" in said.err and said.clean, said
    (home / "SOUL.md").write_text("Somebody made this meanwhile.")
    (staging / "moved").touch()
    assert "finished" in told(home, "backup", "restore")
    assert "meanwhile" in (home / "before-restore/20261118-030000/SOUL.md").read_text()
    assert (home / "SOUL.md").read_text() == "You are new." and not staging.exists()
    assert hermes(home, "backup", "restore").code == 1


def test_an_encrypted_backup_opens_with_its_passphrase_alone(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text("model: demo\n")
    (home / ".env").write_text("SLACK_BOT_TOKEN=xoxb-secret-of-mine\n")
    file = Path(json.loads(told(home, "backup", "create", "-e", "--json", **PASSPHRASE))["file"])
    assert file.name.endswith(".sealed.zip") and b"xoxb" not in file.read_bytes()
    assert "is whole" in told(home, "backup", "verify", str(file), **PASSPHRASE)
    for phrase in ({"HERMES_BACKUP_PASSPHRASE": "wrong"}, {}):
        said = hermes(home, "backup", "verify", str(file), **phrase)
        assert said.code == 1 and said.clean, said
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    other = tmp_path / "other"
    told(other, "backup", "restore", str(file), "-y", **PASSPHRASE)
    assert "xoxb-secret-of-mine" in (other / ".env").read_text()


def test_where_there_is_no_room_it_is_said_so(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text("model: demo\n")
    (home / "big").write_bytes(os.urandom(2_000_000))
    plain, sealed, other = tmp_path / "plain.zip", tmp_path / "sealed.zip", tmp_path / "other"
    told(home, "backup", "create", "-o", str(plain))
    told(home, "backup", "create", "-e", "-o", str(sealed), **PASSPHRASE)
    # Two archives of one home are not quite of one size.
    small, size = ("prlimit", "--fsize=1000000"), (plain.stat().st_size + sealed.stat().st_size) // 2
    for words, says, limit in (
        (["create", "-o", str(tmp_path / "a.zip")], "a.zip cannot be written", small),
        # Enough for the plain archive, too little for the encrypted one.
        (
            ["create", "-e", "-o", str(tmp_path / "b.zip")],
            "b.zip cannot be written",
            ("prlimit", f"--fsize={size}"),
        ),
        (["verify", str(sealed)], f"too little room in {tmp_path}", small),
        (["restore", "-y", str(plain)], f"{other}/.restoring/new/big cannot be written", small),
        (["restore", "-y", str(sealed)], f"too little room in {tmp_path}", small),
    ):
        place = other if words[0] == "restore" else home
        said = hermes(place, "backup", *words, before=limit, **PASSPHRASE)
        assert said.code == 1 and says in said.err and said.clean, said
    assert not list(tmp_path.glob(".backup-*")) and not (other / ".restoring").exists()
    told(other, "backup", "restore", "-y", str(sealed), **PASSPHRASE)
    assert (other / "big").stat().st_size == 2_000_000


def test_a_backup_on_a_medium_that_only_reads_is_decrypted_elsewhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.yaml").write_text("model: demo\n")
    told(home, "backup", "create", "-e", "-o", str(tmp_path / "sealed.zip"), **PASSPHRASE)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("hermes.app.backups._is_writable", lambda folder: folder != tmp_path)
    with opened(tmp_path / "sealed.zip", lambda: "correct horse") as plain:
        held = Path(f"/proc/self/fd/{plain.fileno()}").readlink()
        assert held.is_relative_to(tmp_path / "tmp") and read_archive(Path("sealed"), plain).version


def test_a_backup_never_holds_itself_or_the_ones_before(home: Path) -> None:
    (home / "config.yaml").write_text("model: demo\n")
    said = hermes(home, "backup", "create", "-o", str(home / "my.zip"))
    assert said.code == 1 and "is in the home" in said.err and not (home / "my.zip").exists(), said
    (home / "config.yaml").write_text("backup: {folder: backups-of-mine}\n")
    said = hermes(home, "backup", "create")
    assert said.code == 1 and "is in the home" in said.err and not (home / "backups-of-mine").exists(), said


def test_what_a_backup_leaves_out_is_named(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text(f"agents: {{ext: {{home_dir: {tmp_path}/ext}}}}\n")
    Path(os.fsdecode(os.fsencode(home) + b"/b\xffd")).write_text("x")
    made = json.loads(told(home, "backup", "create", "--json"))
    assert made["files"] == 1 and len(made["left_out"]) == 2, made
    assert str(tmp_path / "ext") in made["left_out"][0] and "not UTF-8" in made["left_out"][1]
    assert "is whole" in told(home, "backup", "verify", made["file"])


def test_an_encrypted_backup_that_is_cut_off_leaves_no_plain_text(home: Path, tmp_path: Path) -> None:
    (home / "big").write_bytes(b"secret of mine" * 100_000)
    backups = HomeBackups(home=home, folder=tmp_path, version="1", passphrase="x")
    seen = []

    def look(files: int, size: int) -> None:
        seen.extend(file for file in tmp_path.rglob("*") if file.is_file() and home not in file.parents)

    backups.make(tmp_path / "a.zip", "", datetime.now(UTC), look, quick=False)
    assert seen
    for file in seen:  # what a kill at that moment would have left
        assert not file.exists() and file.name.startswith(".a.zip")
    with opened(tmp_path / "a.zip", lambda: "x") as plain:
        assert read_archive(tmp_path / "a.zip", plain).size == 1_400_000
        assert [file.name for file in tmp_path.iterdir()] == ["home", "a.zip"] or not list(
            tmp_path.glob(".*")
        ), "it is decrypted into a file without a name"


def test_the_database_of_a_backup_is_checked_before_anything_is_replaced(home: Path, tmp_path: Path) -> None:
    told(home, "-q", "hello")
    end_gateway(home)
    made = tmp_path / "b.zip"
    told(home, "backup", "create", "-o", str(made))
    cramped = hermes(home, "backup", "verify", str(made), before=("prlimit", "--fsize=50000"))
    assert cramped.code == 1 and "cannot be unpacked into /" in cramped.err and cramped.clean, cramped
    manifest = read_archive(made)
    newer = tmp_path / "newer"
    unpack_archive(made, newer, lambda files, size: None)
    with closing(apsw.Connection(str(newer / manifest.database))) as db:
        db.execute(
            "PRAGMA user_version = 9999; UPDATE facts SET value = '9999' WHERE name = 'oldest_program'"
        )
        db.execute("PRAGMA journal_mode = DELETE")
    copy = newer / manifest.database
    moved = copy.rename(tmp_path / copy.name)
    shutil.rmtree(newer / "backups")
    fresh = ArchiveManifest(made_at=manifest.made_at, version="9")
    write_archive(newer, tmp_path / "newer.zip", moved, fresh, lambda files, size: None)
    before = sorted(home.iterdir())
    for words in (["verify"], ["restore", "-n"], ["restore", "-y"]):
        said = hermes(home, "backup", *words, str(tmp_path / "newer.zip"))
        assert said.code == 1 and "newer Hermes" in said.err and said.clean, said
    assert sorted(home.iterdir()) == before
    assert "hello" in told(home, "sessions", "search", "hello")


def test_a_quick_backup_replaces_what_it_holds_and_nothing_else(home: Path) -> None:
    (home / "config.yaml").write_text("model: demo\nagents: {work: {}}\n")
    for name in ("SOUL.md", "skills/a/SKILL.md", "sandboxes/x"):
        (home / "agents/work" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "agents/work" / name).write_text("first")
    told(home, "-q", "the milk is in the fridge")
    end_gateway(home)
    made = json.loads(told(home, "backup", "create", "--quick", "--json"))
    with zipfile.ZipFile(made["file"]) as archive:
        assert not [name for name in archive.namelist() if "skills" in name or "sandboxes" in name]
    for name in ("SOUL.md", "skills/a/SKILL.md"):
        (home / "agents/work" / name).write_text("second")
    assert "settings, secrets, memory and hooks" in told(home, "backup", "restore", made["file"], "-n")
    told(home, "backup", "restore", made["file"], "-y")
    assert (home / "agents/work/SOUL.md").read_text() == "first"
    assert (home / "agents/work/skills/a/SKILL.md").read_text() == "second"
    (before,) = (home / "before-restore").iterdir()
    assert (before / "agents/work/SOUL.md").read_text() == "second"
    assert "fridge" in told(home, "sessions", "search", "milk")


@pytest.mark.server
def test_age_itself_recognises_our_encryption(home: Path) -> None:
    """`age` of Debian asks for a passphrase at a terminal alone."""
    from tests.execution.beds import install

    install("age", "age")
    (home / "config.yaml").write_text("model: demo\n")
    file = json.loads(told(home, "backup", "create", "-e", "--json", **PASSPHRASE))["file"]
    with zipfile.ZipFile(file) as sealed:
        sealed.extractall(home / "sealed")
    typed = f"cd {home}/sealed && age -d -i key.age -o ../out.zip home.zip.age"
    script = shutil.which("script") or "script"
    done = subprocess.run(
        [script, "-qec", typed, "/dev/null"],
        input=b"correct horse\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done
    assert (home / "out.zip").read_bytes().startswith(b"PK")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["verify", "nosuch.zip"], "No such file"),
        (["restore", "nosuch.zip"], "No such file"),
        (["restore"], "No restore was interrupted"),
        (["create", "-o", "no/such/folder.zip"], "There is no folder"),
        (["schedule", "whenever"], "whenever"),
        (["schedule", "in 5m"], "is once"),
    ],
)
def test_wrong_words_get_one_sentence(home: Path, words: list[str], says: str) -> None:
    said = hermes(home, "backup", *words)
    assert said.code == 1 and says in said.err and said.clean and not said.out, said


def test_schedule_is_a_setting(home: Path) -> None:
    assert "No backups are made by the clock" in told(home, "backup", "schedule")
    assert "every day at 3am" in told(home, "backup", "schedule", "every day at 3am", "--keep", "2")
    assert "keep: 2" in (home / "config.yaml").read_text()
    assert "No backups" in told(home, "backup", "schedule", "off")


async def test_the_gateway_makes_them_when_they_are_due_and_keeps_a_few(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", FakeClock(datetime(2026, 11, 18, 12, tzinfo=UTC))
    home.mkdir()
    (home / "config.yaml").write_text("model: demo\n")
    settings = Settings(backup=BackupSettings(schedule="every day at 3am", keep=2), timezone="UTC")
    copies = []

    async def copy() -> str:
        copies.append(1)
        return ""

    def loaded() -> LoadedSettings:
        return replace(load_settings(home, {}), settings=settings)

    chore = archiving(home, loaded, clock, "1", copy)
    backups = HomeBackups(home=home, folder=home / "archives", version="1")
    assert chore.reported, "the operator is told when it fails"
    by_hand = backups.target(clock.now(), QUICK)
    backups.make(by_hand, "", clock.now(), lambda files, size: None, quick=True)
    assert "made hermes-20261118-120000-home-" in await chore.run(), "one made by hand is none of these"
    assert await chore.run() == "nothing was due"
    clock.jump(14 * 3600)
    assert await chore.run() == "nothing was due"
    clock.jump(2 * 3600)
    assert "made hermes-20261119-040000-home-" in await chore.run()
    clock.jump(5 * 86400)
    assert "made hermes-20261124" in await chore.run()
    assert [made_at(file).day for file in backups.listed()] == [24, 19, 18] and len(copies) == 3
    assert by_hand.exists(), "only those made by the clock are counted and removed"
    made = backups.listed()[0]
    drafts = [made.with_name(f".{made.name}.{number}.part") for number in (1, 2)]
    for draft in drafts:
        draft.touch()
    os.utime(drafts[0], (0, 0))
    backups.prune(9)
    assert [draft.exists() for draft in drafts] == [False, True], "one may be in the making"
    assert len(backups.listed()) == 3
    sharing = replace(backups, home=tmp_path / "other" / "home")
    assert sharing.listed() == [], "another home may use the same folder"
    sharing.prune(0)
    assert len(backups.listed()) == 3
    sealed = Settings(backup=BackupSettings(schedule="every 1h", passphrase=Secret("x")), timezone="UTC")
    settings = sealed
    clock.jump(1 * 3600)
    assert ".sealed.zip" in await chore.run()
    settings = Settings()
    assert await chore.run() == "not scheduled"
