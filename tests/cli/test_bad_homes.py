"""Homes that are wrong in every way we could think of: one sentence, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.cli.command import Said, gateway, hermes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def _refused(told: Said, *words: str) -> None:
    assert told.code == 1 and told.clean and told.out == "", told
    assert told.err.startswith("hermes: ") and len(told.err.splitlines()) <= 2, told.err
    assert all(word in told.err for word in words), told.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("modle: x\n", "config.yaml:1: “modle” is not a known setting. Did you mean “model”?"),
        ("agent:\n  max_turns: lots\n", "config.yaml:2: agent.max_turns must be a whole number"),
        ("agents: {'B AD': {}}\n", "config.yaml:1"),
    ],
)
def test_wrong_settings_are_told_and_the_gateway_starts(home: Path, text: str, says: str) -> None:
    (home / "config.yaml").write_text(text)
    with gateway(home) as running:
        assert running.err.count(says) == 1 and "Traceback" not in running.err
        assert running.stop() == 0
    assert says in (home / "logs" / "gateway.log").read_text()
    assert "hermes config check" in hermes(home, "status").err
    assert says in hermes(home, "config", "check").out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("logging: {level: INFO}\nmodel: {default: x\n", "config.yaml:2"),
        ("\tmodel: x\n", "config.yaml:1"),
        ("- a\n- list\n", "config.yaml:1"),
        ("logging:\n  level: INFO\nterminal:\n  backend: firecracker\n", "config.yaml:4: “terminal.backend”"),
        ("toolsets: [file, termnal]\n", "config.yaml:1: toolsets: There is no toolset “termnal”."),
        ("agent:\n  disabled_toolsets: [debuging]\n", "config.yaml:2: agent.disabled_toolsets"),
    ],
)
def test_a_limit_that_would_not_hold_stops_every_start(home: Path, text: str, says: str) -> None:
    (home / "config.yaml").write_text(text)
    for words in (("gateway", "run"), ("-q", "hi")):
        told = hermes(home, *words)
        assert told.code == 78 and told.err.count(says) == 1 and told.clean and told.out == "", told
    started = hermes(home, "gateway", "start")
    assert started.code == 78 and says in started.err, started
    assert not (home / "gateway-starts.log").read_text()
    assert says in (home / "logs" / "gateway.log").read_text()
    checked = hermes(home, "config", "check")
    assert checked.code == 1 and says in checked.out
    assert says in hermes(home, "status").out


def test_a_denied_command_is_not_run_even_if_nobody_is_asked(home: Path) -> None:
    (home / "config.yaml").write_text("model: demo\napprovals: {mode: off, deny: ['touch *']}\n")
    for command in ("touch one", "true; /bin/touch two"):
        told = hermes(home, "-q", f"run: {command}")
        assert "approvals.deny" in told.out, told
    assert "hello" in hermes(home, "-q", "run: echo hello").out
    assert not [*home.rglob("one"), *home.rglob("two"), *Path("/").glob("one"), *Path("/").glob("two")]


def test_a_folder_in_place_of_the_settings_stops_the_start(home: Path) -> None:
    (home / "config.yaml").mkdir()
    told = hermes(home, "gateway", "run")
    assert told.code == 78 and "config.yaml: This is a folder" in told.err


def test_many_problems_do_not_fill_the_screen(home: Path) -> None:
    (home / "config.yaml").write_text("".join(f"nonsense{n}: 1\n" for n in range(50)))
    with gateway(home) as running:
        assert running.err.count("settings.problem") == 6 and "45 more" in running.err


def test_secrets_do_not_reach_the_log(home: Path) -> None:
    (home / ".env").write_text("OPENAI_API_KEY=sk-very-secret-1\n")
    (home / "config.yaml").write_text("agent: {max_turns: sk-very-secret-1}\n")
    with gateway(home) as running:
        assert running.stop() == 0
        assert "sk-very" not in running.err and "‹secret›" in running.err
    assert "sk-very" not in (home / "logs" / "gateway.log").read_text()


def test_the_home_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder")
    for words in (["gateway", "run"], ["status"], ["sessions", "list"], ["trace", "x"]):
        _refused(hermes(home, *words), str(home))
    assert home.read_text() == "not a folder"


def test_the_home_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _refused(hermes(tmp_path / "file" / "home", "gateway", "run"), "HERMES_HOME")


@pytest.fixture
def nobody(tmp_path: Path) -> list[str]:
    """Words before a command that make it run without rights over everything."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv to leave root behind")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0 and str(folder).startswith(("/tmp", "/dev/shm")):
            folder.chmod(folder.stat().st_mode | 0o011)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def _give_away(folder: Path, nobody: list[str]) -> None:
    if nobody:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)


def test_the_home_is_not_writable(home: Path, nobody: list[str]) -> None:
    _give_away(home, nobody)
    home.chmod(0o500)
    told = hermes(home, "gateway", "run", before=nobody)
    if "No module named" in told.err or "can't open" in told.err:
        pytest.skip("the checkout is closed to others")
    _refused(told, str(home), "chmod u+rwx")
    home.chmod(0o700)


def test_the_home_belongs_to_somebody_else(home: Path, nobody: list[str]) -> None:
    if not nobody:
        pytest.skip("needs root to make such a home")
    home.chmod(0o777)
    told = hermes(home, "gateway", "run", before=nobody)
    if "No module named" in told.err or "can't open" in told.err:
        pytest.skip("the checkout is closed to others")
    _refused(told, "belongs to root")
    home.chmod(0o700)
    for words in (["status"], ["sessions", "list"]):
        _refused(hermes(home, *words, before=nobody), str(home))


def _a_database(home: Path) -> Path:
    with gateway(home) as running:
        assert running.stop() == 0
    return home / "gateway.db"


def test_a_newer_database(home: Path) -> None:
    path = _a_database(home)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
        connection.execute("UPDATE facts SET value = '999' WHERE name = 'oldest_program'")
    connection.close()
    before = path.read_bytes()
    for words in (["gateway", "run"], ["sessions", "list"]):
        told = hermes(home, *words)
        assert told.code == 1 and told.clean and "newer Hermes" in told.err and "Update Hermes" in told.err
    assert path.read_bytes() == before
    assert "the last start failed" in hermes(home, "status").out


def test_a_locked_database(home: Path) -> None:
    path = _a_database(home)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        told = hermes(home, "sessions", "list")
        assert told.code == 1 and told.clean and "another process" in told.err
    finally:
        connection.execute("ROLLBACK")
        connection.close()
    assert hermes(home, "sessions", "list").code == 0


@pytest.mark.parametrize(
    "damage", [b"this was never a database" * 500, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_a_damaged_database(home: Path, damage: bytes) -> None:
    (home / "gateway.db").write_bytes(damage)
    told = hermes(home, "sessions", "list")
    assert told.clean and (told.code == 1 or "No sessions yet" in told.out), told
    with gateway(home) as running:
        assert running.stop() == 0
        assert "damaged" in running.err and "Traceback" not in running.err
    kept = [path for path in home.rglob("*") if path.is_file() and path.read_bytes() == damage]
    assert kept, "what was in the file is gone"


def test_a_second_gateway(home: Path) -> None:
    with gateway(home) as running:
        told = hermes(home, "gateway", "run")
        _refused(
            told,
            f"A gateway already runs on {home} (process {running.process.pid}, since 20",
            "hermes gateway stop",
        )
        assert "running" in hermes(home, "status").out
        assert running.stop() == 0


def test_a_lock_file_of_another_kind(home: Path) -> None:
    (home / "gateway.lock").mkdir()
    _refused(hermes(home, "gateway", "run"), "gateway.lock")


def test_a_state_file_full_of_nonsense(home: Path) -> None:
    for text in (b"\xff\xfe{", b"[]", b'{"gateway_state": "running", "updated_at": 7, "platforms": []}', b""):
        (home / "gateway_state.json").write_bytes(text)
        told = hermes(home, "status")
        assert told.code == 3 and "not running" in told.out and told.clean


def test_a_log_that_cannot_be_written_stops_nothing(home: Path) -> None:
    (home / "logs" / "gateway.log").mkdir(parents=True)
    with gateway(home) as running:
        assert running.stop() == 0 and "Traceback" not in running.err
