"""The lock on a home, and what is told of whoever has it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.admin.process import home_files as gateway
from hermes.admin.process.home_files import GATEWAY, hold_home, home_holder
from hermes.admin.process.run import GatewayProcess, StateFile
from hermes.app.vitals import LiveStatus
from hermes.control.events import Events
from hermes.control.workers import Supervisor
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.entry.host import HostState
from hermes.state.home.locks import HOMES, MachineLock
from hermes.state.settings.loader import load_settings


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "_LOCK_PATIENCE", 0.2)


def test_one_at_a_time(tmp_path: Path) -> None:
    assert home_holder(tmp_path) is None
    with hold_home(tmp_path, GATEWAY):
        holder = home_holder(tmp_path)
        assert holder is not None and holder.what == GATEWAY and holder.pid == os.getpid()
        with pytest.raises(UserError, match=rf"already runs on .*\(process {os.getpid()}, since \d{{4}}-"):
            with hold_home(tmp_path, "hermes sessions list"):
                pass
    assert home_holder(tmp_path) is None
    with hold_home(tmp_path, "hermes sessions list"):
        with pytest.raises(UserError, match="hermes sessions list works on"):
            with hold_home(tmp_path, GATEWAY):
                pass


def test_a_command_in_the_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "_LOCK_PATIENCE", 60.0)
    code = (
        "import sys, time, pathlib; from hermes.admin.process.home_files import hold_home\n"
        "with hold_home(pathlib.Path(sys.argv[1]), 'hermes sessions list'):\n"
        "    print('held', flush=True); time.sleep(0.5)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=_env())
    assert other.stdout is not None and other.stdout.readline() == b"held\n"
    with hold_home(tmp_path, GATEWAY):
        assert other.wait(60) == 0
    other.stdout.close()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from hermes.admin.process.home_files import hold_home\n"
        "with hold_home(pathlib.Path(sys.argv[1]), 'gateway'): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=_env(), check=False)
    assert (tmp_path / "gateway.lock").read_text() != ""
    assert home_holder(tmp_path) is None
    with hold_home(tmp_path, GATEWAY):
        pass


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"what": 3}', '{"what": "gateway", "pid": "x", "since": "y"}']
)
def test_a_lock_without_a_readable_name(tmp_path: Path, text: str) -> None:
    with (tmp_path / "gateway.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text)
        file.flush()
        with pytest.raises(UserError, match=r"works on|already runs"):
            with hold_home(tmp_path, GATEWAY):
                pass


def test_a_home_that_was_removed_under_its_gateway_gets_no_second_one(tmp_path: Path) -> None:
    """Its lock file is gone, but it is still listed on the machine."""
    environ = {
        "HOME": str(tmp_path),
        "HERMES_GATEWAY_LOCK_DIR": str(tmp_path / "locks"),
        "HERMES_RUNTIME_DIR": str(tmp_path / "run"),
    }
    home = tmp_path / "home"
    first = MachineLock(folder=tmp_path / "locks", scope=HOMES, identity=str(home), owner={"home": str(home)})
    assert first.take()
    second = GatewayProcess(home=home, environ=environ, say=lambda line: None)
    with pytest.raises(UserError, match=rf"already runs on {home} \(process {os.getpid()}\)"):
        second.run()
    assert home_holder(home) is None
    first.release()


@pytest.mark.parametrize("reserve", [True, False])
def test_a_home_on_a_full_disk_is_held(
    reserve: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = tmp_path / "reserve.bin"
    if reserve:
        spare.write_bytes(bytes(100))
    write = os.pwrite

    def full(descriptor: int, data: bytes, place: int) -> int:
        if spare.exists() or not reserve:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data, place)

    monkeypatch.setattr(os, "pwrite", full)
    with hold_home(tmp_path, GATEWAY):
        holder = home_holder(tmp_path)
        assert holder is not None and holder.pid == (os.getpid() if reserve else 0)
    assert not spare.exists()


async def test_the_state_file_has_the_newest_state(tmp_path: Path) -> None:
    file = StateFile(tmp_path, {"pid": 1})
    status = LiveStatus(
        tmp_path, load_settings(tmp_path, {}), file.write, Supervisor(SystemClock()), Events()
    )
    for number in range(50):
        status.tell_platform("fake", HostState.RETRYING, f"try {number}")
    status.tell("running", agents=["main"], accounts=[], model="none")
    await file.written()
    told = json.loads((tmp_path / "gateway_state.json").read_text())
    assert told["gateway_state"] == "running" and told["platforms"]["fake"]["error_message"] == "try 49"
    assert told["pid"] == 1 and told["agents"] == ["main"]
    assert status.facts()["platforms"]["fake"]["detail"] == "try 49"


async def test_a_state_file_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gateway_state.json").mkdir()
    file = StateFile(tmp_path, {})
    file.write({"gateway_state": "starting"})
    await file.written()
    assert "state_file.failed" in caplog.text
    (tmp_path / "gateway_state.json").rmdir()
    file.write({"gateway_state": "running"})
    await file.written()
    assert json.loads((tmp_path / "gateway_state.json").read_text())["gateway_state"] == "running"


def _env() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(gateway.__file__).parents[2])}
