"""The real process and its database file: what a stop leaves, what a disk that takes nothing does to callers,
and a file that goes away."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.admin.process.run import EXIT_RESTART
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.care.backup import backups_of
from hermes.state.store.sqlite import PAGE_BYTES, look_into, suspicion
from hermes.testing.ports import free_port
from tests import nursery
from tests.cli.command import PATIENCE, Running, environment, gateway, hermes

KEY = "a key that nobody guesses"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def port() -> int:
    return free_port()


def served(port: int) -> dict[str, str]:
    return {"API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}


def ask(port: int, path: str, body: object = None) -> tuple[int, dict[str, str], Any]:
    """Status, headers and what was said; a call that is not answered fails the test."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, dict(answer.headers), json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), json.loads(error.read())


def test_a_clean_stop_leaves_a_backup_of_everything(home: Path, port: int) -> None:
    with gateway(home, **served(port)) as running:
        assert ask(port, "/v1/runs", {"input": "remember me"})[0] == 202
        assert running.stop() == 0
    [made] = backups_of(home / DATABASE_FILE)
    with look_into(made).connection as db:
        said = "SELECT count(*) FROM journal WHERE body LIKE '%remember me%'"
        assert db.execute(said).fetchall() >= [(1,)]
        assert db.execute("SELECT closed_at IS NOT NULL FROM boots").fetchall() == [(1,)]


@pytest.mark.parametrize("harm", ["the file", "the home"])
def test_a_database_that_is_removed_comes_back(harm: str, home: Path, port: int) -> None:
    with gateway(home, "--external-supervisor", **served(port)) as running:
        run = ask(port, "/v1/runs", {"input": "remember me"})[2]["run_id"]
        if harm == "the home":
            shutil.rmtree(home)
        else:
            for one in home.glob(f"{DATABASE_FILE}*"):
                one.unlink()
        assert running.process.wait(PATIENCE) == EXIT_RESTART, "it asks to be started again"
        assert "store.file_lost" in running.err
    with gateway(home, **served(port)) as running:
        while ask(port, f"/v1/runs/{run}")[2]["status"] != "completed":
            time.sleep(0.05)
        assert ask(port, "/v1/runs", {"input": "and me"})[0] == 202
        assert ask(port, "/health/detailed")[2]["checks"]["state_db"]["ok"]
        assert running.stop() == 0


def test_a_command_without_a_gateway_does_not_work_on_a_damaged_file(home: Path, port: int) -> None:
    with gateway(home, **served(port)) as running:
        assert ask(port, "/v1/runs", {"input": "remember me"})[0] == 202
        assert running.stop() == 0
    path = home / DATABASE_FILE
    with look_into(path).connection as db:
        [[root]] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'media'").fetchall()
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)
    suspicion(path).write_text("seen while running")
    told = hermes(home, "sessions", "list")
    assert told.code == 0 and told.clean and "was damaged" in told.err, told
    assert "remember me" in told.out or "api_" in told.out
    assert not suspicion(path).exists()
    assert list(home.glob(f"{DATABASE_FILE}.damaged-*"))
    assert hermes(home, "sessions", "list").err == ""


# --- disks that take nothing ---


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A home on a disk of its own."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m,mode=0700", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("this machine does not let us mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(home: Path) -> Path:
    """Leave not a byte."""
    rest = home / "somebody-else.bin"
    with rest.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return rest


def completes(port: int, run: str) -> bool:
    for _ in range(600):
        if ask(port, f"/v1/runs/{run}")[2]["status"] == "completed":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.root
def test_a_full_disk_starts_on_its_reserve(tmp_path: Path, port: int) -> None:
    with small_disk(tmp_path / "home") as home:
        more = served(port) | {"HERMES_RESERVE_MB": "4"}
        with gateway(home, **more) as running:
            run = ask(port, "/v1/runs", {"input": "remember me"})[2]["run_id"]
            assert completes(port, run)
            assert running.stop() == 0
        assert (home / "reserve.bin").stat().st_size > 1_000_000
        fill(home)
        with gateway(home, **more) as running:
            assert ask(port, f"/v1/runs/{run}")[2]["status"] == "completed"
            assert "output cannot be written" not in running.err
            assert running.stop() == 0


@pytest.mark.root
def test_a_disk_without_any_room_is_waited_for(tmp_path: Path, port: int) -> None:
    with small_disk(tmp_path / "home") as home:
        with gateway(home, **served(port)) as running:
            run = ask(port, "/v1/runs", {"input": "remember me"})[2]["run_id"]
            running.process.kill()
            running.process.wait()
        rest = fill(home)
        log = tmp_path / "stderr"
        command = [sys.executable, "-P", "-m", "hermes", "gateway", "run"]
        with log.open("w") as file:
            process = nursery.Popen(
                command, env=environment(home, **served(port)), cwd="/", stderr=file, text=True
            )
        running = Running(process, log)
        try:
            running.until("the disk is full")
            assert "output cannot be written" not in running.err and "Traceback" not in running.err
            rest.unlink()
            running.until("ready: home")
            assert completes(port, run), "nothing acknowledged is lost"
            assert running.stop() == 0
        finally:
            process.kill()
            process.wait()
