"""Keys that were given as variables are seen by nobody who runs as the same user, and survive a restart."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import PATIENCE, environment

KEY = "a-key-0c91f3d2-that-nobody-guesses"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@contextlib.contextmanager
def running(home: Path, before: list[str]) -> Iterator[int]:
    """A gateway that was given a key as a variable, in a process that was started for it alone."""
    environ = environment(home, API_SERVER_KEY=KEY, API_SERVER_PORT="0", PROXY=f"http://me:{KEY}@host")
    process = subprocess.Popen(
        [*before, sys.executable, "-P", "-m", "hermes", "gateway", "run", "-q"], env=environ, cwd="/"
    )
    try:
        until(lambda: state(home).get("gateway_state") == "running")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def state(home: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        told: dict[str, str] = json.loads((home / "gateway_state.json").read_text())
        return told
    return {}


def until(what: object) -> None:
    end = time.monotonic() + PATIENCE
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


def answers(home: Path) -> bool:
    request = urllib.request.Request(
        f"{state(home)['api']}/v1/models", headers={"Authorization": f"Bearer {KEY}"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return bool(response.status == 200)


def test_keys_leave_the_environment_and_survive_a_restart(home: Path) -> None:
    with running(home, []) as pid:
        for _ in range(2):
            assert answers(home)
            listing = subprocess.run(["ps", "eww", "-p", str(pid)], capture_output=True, check=True).stdout
            assert KEY.encode() not in listing + Path(f"/proc/{pid}/environ").read_bytes()
            began = state(home)["start_time"]
            os.kill(pid, 10)
            until(lambda: state(home)["start_time"] != began and state(home)["gateway_state"] == "running")  # noqa: B023


def test_an_ordinary_user_cannot_look_into_a_process_of_its_own(home: Path, tmp_path: Path) -> None:
    before = NOBODY if os.geteuid() == 0 else []
    if before:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to leave root behind")
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_mode & 0o001 == 0 and str(folder).startswith(("/tmp", "/dev/shm")):
                folder.chmod(folder.stat().st_mode | 0o011)
        os.chown(tmp_path, 65534, 65534)
        os.chown(home, 65534, 65534)
    with running(home, before) as pid:
        for name in ("environ", "mem", "maps"):
            looked = subprocess.run(
                [*before, "head", "-c", "100", f"/proc/{pid}/{name}"], capture_output=True, check=False
            )
            assert looked.returncode != 0 and b"ermission denied" in looked.stderr, name
        listing = subprocess.run([*before, "ps", "eww", "-A"], capture_output=True, check=True).stdout
        assert f"{pid} ".encode() in listing and KEY.encode() not in listing
        # What it must be able to do itself: tell its metrics, and know who asks on the socket.
        asked = subprocess.run(
            [*before, sys.executable, "-P", "-m", "hermes", "status"],
            env=environment(home),
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        assert "Turns" in asked and answers(home)
