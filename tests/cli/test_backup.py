"""`hermes backup`, as somebody uses it: while a gateway runs, encrypted, put back elsewhere, by the clock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.app.backups import HomeBackups, archiving, made_at, opened
from hermes.domain.settings.backup import BackupSettings
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace
from hermes.state.home.archive import read_archive
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
    assert "the milk is in the fridge" in told(other, "sessions", "search", "fridge")
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
    for words in (["-q", "hi"], ["gateway", "run"], ["sessions", "list"], ["backup", "restore", file, "-y"]):
        said = hermes(home, *words)
        assert said.code == 1 and "hermes backup restore" in said.err and said.clean, said
    assert "finished" in told(home, "backup", "restore")
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
        assert plain.is_relative_to(tmp_path / "tmp") and read_archive(plain).version


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
    assert "made hermes-20261118-120000.zip" in await chore.run()
    assert await chore.run() == "nothing was due"
    clock.jump(14 * 3600)
    assert await chore.run() == "nothing was due"
    clock.jump(2 * 3600)
    assert "made hermes-20261119-040000.zip" in await chore.run()
    clock.jump(5 * 86400)
    assert "made hermes-20261124" in await chore.run()
    backups = HomeBackups(home=home, folder=home / "archives", version="1")
    assert [made_at(file).day for file in backups.listed()] == [24, 19] and len(copies) == 3
    sealed = Settings(backup=BackupSettings(schedule="every 1h", passphrase=Secret("x")), timezone="UTC")
    settings = sealed
    clock.jump(1 * 3600)
    assert ".sealed.zip" in await chore.run()
    settings = Settings()
    assert await chore.run() == "not scheduled"
