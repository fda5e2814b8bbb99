"""`hermes gateway start|stop|restart|logs` and exit codes, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.admin.process.listing import began_at
from hermes.admin.process.run import EXIT_RESTART, EXIT_SETTINGS
from hermes.control.outbound.notices import BACK, RESTARTED
from hermes.testing.wire import WorldServer
from hermes.testing.world import World
from tests.cli.command import PATIENCE, environment, gateway, hermes
from tests.cli.test_stopping import life, until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    yield folder
    for place in (folder, tmp_path / "second"):
        with contextlib.suppress(OSError, ValueError, LookupError):
            os.kill(json.loads((place / "gateway.pid").read_text())["pid"], signal.SIGKILL)


def pid_of(home: Path) -> int:
    return int(json.loads((home / "gateway.pid").read_text())["pid"])


def test_a_gateway_in_the_background(home: Path) -> None:
    assert hermes(home, "gateway", "logs").code == 1
    nothing = hermes(home, "gateway", "stop")
    assert (nothing.code, nothing.out) == (0, f"No gateway runs on {home}.\n")
    started = hermes(home, "gateway", "start")
    pid = pid_of(home)
    assert started.code == 0 and f"(process {pid})" in started.out and "logs/gateway.log" in started.out
    again = hermes(home, "gateway", "start")
    assert again.code == 0 and "already runs" in again.out and pid_of(home) == pid
    inside = hermes(home, "gateway", "stop", _HERMES_GATEWAY="1")
    assert inside.code == 1 and "may not stop" in inside.err and pid_of(home) == pid
    second = home.parent / "second"
    second.mkdir(mode=0o700)
    assert hermes(second, "gateway", "start").code == 0
    restarted = hermes(home, "gateway", "restart")
    assert restarted.code == 0 and "The gateway runs on" in restarted.out, restarted.err
    shown = hermes(home, "gateway", "status", "--jobs")
    for job in ("cron", "retention", "session expiry", "media clean-up", "database backup"):
        assert job in shown.out
    logs = hermes(home, "gateway", "logs", "-n", "200")
    assert logs.out.count("gateway.start epoch=") == 2 and logs.out.count("gateway.stop epoch=1") == 1
    assert len(hermes(home, "gateway", "logs", "-n", "1").out.splitlines()) == 1
    stopped = hermes(home, "gateway", "stop", "--all")
    assert stopped.code == 0 and stopped.out.count("is stopped.") == 2, stopped.err
    assert not (home / "gateway.pid").exists() and not (second / "gateway.pid").exists()


def test_a_start_that_fails_says_why(home: Path) -> None:
    (home / "gateway.db").write_bytes(b"not a database at all" * 100)
    (home / "gateway.db").chmod(0o000)
    (home / "config.yaml").write_text("platforms: {telegram: {dm_policy: open}}\n")
    started = hermes(home, "gateway", "start")
    assert started.code == EXIT_SETTINGS and "did not start" in started.err and "telegram" in started.err
    assert "Traceback" not in started.err
    half_open = hermes(home, "gateway", "run")
    assert half_open.code == EXIT_SETTINGS and "telegram" in half_open.err


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("terminal: {backend: nowhere}\n", "config.yaml:1: “terminal.backend”"),
        ("model: [\n", "config.yaml"),
        ("platforms: {telegram: {dm_policy: open}}\n", "telegram"),
        ("toolsets: [nosuch]\n", "nosuch"),
    ],
)
def test_a_restart_that_would_fail_is_refused_and_the_gateway_goes_on(
    home: Path, settings: str, told: str
) -> None:
    assert hermes(home, "gateway", "start").code == 0
    before, log = pid_of(home), home / "logs" / "gateway.log"
    (home / "config.yaml").write_text(settings)
    restarted = hermes(home, "gateway", "restart")
    assert restarted.code == 78 and told in restarted.err and restarted.clean, restarted.err
    assert log.read_text().count("gateway.restart_refused") == 1
    os.kill(before, signal.SIGUSR1)
    end = time.monotonic() + PATIENCE
    while log.read_text().count("gateway.restart_refused") == 1:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert log.read_text().count("gateway.start epoch=") == 1 and pid_of(home) == before
    (home / "config.yaml").write_text("agent: {max_turns: 5}\n")
    again = hermes(home, "gateway", "restart")
    assert again.code == 0 and "The gateway runs on" in again.out, again.err


def test_all_gateways_are_found_whatever_their_home_was(home: Path, tmp_path: Path) -> None:
    """Each has a HOME of its own; one has lost its files."""
    lost = tmp_path / "lost" / "home"
    lost.parent.mkdir()
    with (
        gateway(home, HOME=str(tmp_path / "ann")) as first,
        gateway(lost, HOME=str(tmp_path / "bob"), HERMES_RUNTIME_DIR=str(tmp_path / "run")) as second,
    ):
        (lost / "gateway.lock").unlink()
        stale = tmp_path / "run" / "gateway-1.json"
        stale.write_text(json.dumps({"home": "/nowhere", "pid": os.getpid(), "began": "1"}))
        stopped = hermes(
            tmp_path / "third" / "home", "gateway", "stop", "--all", HERMES_RUNTIME_DIR=str(tmp_path / "run")
        )
        # Zombies are ours to bury; they do not run any more.
        assert stopped.code == 0 and stopped.out.count("is stopped.") == 2, stopped.err
        assert first.process.wait(PATIENCE) == 0 and second.process.wait(PATIENCE) == 0
        assert not stale.exists() and list((tmp_path / "run").glob("*.json")) == []
    none = hermes(home, "gateway", "stop", "--all")
    assert none.out == "None of your gateways is running on this machine.\n"


def test_a_stop_returns_once_the_process_is_gone(home: Path) -> None:
    assert hermes(home, "gateway", "start").code == 0
    pid = pid_of(home)
    assert hermes(home, "gateway", "stop").code == 0
    assert began_at(pid) is None


def test_the_log_is_followed_over_its_turning(home: Path) -> None:
    (home / "logs").mkdir(parents=True)
    log = home / "logs" / "gateway.log"
    log.write_text("one\ntwo\n")
    command = [sys.executable, "-P", "-m", "hermes", "gateway", "logs", "-f", "-n", "1"]
    with subprocess.Popen(
        command, env=environment(home), cwd="/", stdout=subprocess.PIPE, text=True, bufsize=1
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "two\n"
        with log.open("a") as file:
            file.write("three\nfo")
            file.flush()
            assert follower.stdout.readline() == "three\n"
            file.write("ur\n")
        assert follower.stdout.readline() == "four\n"
        log.rename(log.with_name("gateway.log.1"))
        log.write_text("five \x1b[31m\n")
        assert follower.stdout.readline().startswith("five ") and follower.poll() is None
        follower.send_signal(signal.SIGINT)
        assert follower.wait(PATIENCE) == 130


def test_another_gateway_takes_over_when_told_to(home: Path) -> None:
    with gateway(home) as first:
        # The log of the first is written over: it is asked no more.
        with gateway(home, "--replace") as second:
            assert first.process.wait(PATIENCE) == 0 and pid_of(home) == second.process.pid
            assert second.stop() == 0


def test_a_service_manager_is_told_and_asked_for_a_restart(home: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        place = home.parent / "notify"
        manager.bind(str(place))
        manager.settimeout(PATIENCE)
        told = {"NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "400000"}
        with gateway(home, **told) as running:
            heard: set[str] = set()
            while not {"READY=1", "WATCHDOG=1"} <= heard:
                heard.update(manager.recv(4096).decode().split("\n"))
            running.process.send_signal(signal.SIGUSR1)
            while "STOPPING=1" not in heard:
                heard.update(manager.recv(4096).decode().split("\n"))
            assert running.process.wait(PATIENCE) == EXIT_RESTART
    assert json.loads((home / "gateway_state.json").read_text())["restart_requested"] is True


async def test_slash_restart_of_a_real_process(tmp_path: Path) -> None:
    """The answer is cut in two by the restart, and whole in the end."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("platforms: {fake: {allowed_users: [u1]}}\n")
    world = World()
    async with WorldServer(world) as server:
        (home / "hold").touch()
        world.write("hello")
        async with life(home, server.port, 0.3) as running:
            await until(lambda: bool(world.messages))
            world.write("/restart")
            code = await asyncio.to_thread(running.process.wait, PATIENCE)
            assert code == EXIT_RESTART, running.err
        assert RESTARTED in world.seen() and BACK not in world.seen()
        (home / "hold").unlink()
        async with life(home, server.port) as running:
            await until(lambda: BACK in world.seen() and "You said: hello" in world.seen())
            assert await asyncio.to_thread(running.stop) == 0
    assert world.seen().count(BACK) == 1 and world.seen().count(RESTARTED) == 1


def test_a_loop_that_is_stuck_ends_the_process(home: Path) -> None:
    """A gateway whose loop is held by a call that does not return."""
    script = str(Path(__file__).with_name("stuck_child.py"))
    with gateway(home, script=(script, str(home), "loop")) as running:
        assert running.process.wait(PATIENCE) == 1
        assert "watchdog.ends" in running.err
    stacks = (home / "logs" / "gateway-stuck.log").read_text()
    assert "hold_the_loop" in stacks and "ended: the loop has not turned" in stacks


@pytest.mark.parametrize("how", ["task", "thread"])
def test_what_will_not_end_does_not_hold_up_the_end(home: Path, how: str) -> None:
    """A tool that swallows its cancellation, or whose thread hangs: all is stored and closed without it."""
    script = str(Path(__file__).with_name("stuck_child.py"))
    with gateway(home, script=(script, str(home), how)) as running:
        assert running.stop() == 0
        assert "gateway.left_behind" in running.err
    assert json.loads((home / "gateway_state.json").read_text())["gateway_state"] == "stopped"


def test_what_will_not_end_does_not_keep_it_from_beginning_anew(home: Path) -> None:
    script = str(Path(__file__).with_name("stuck_child.py"))
    with gateway(home, script=(script, str(home), "anew")) as running:
        running.process.send_signal(signal.SIGUSR1)
        running.until("gateway.left_behind")
        end = time.monotonic() + PATIENCE
        while running.err.count("ready: home") < 2:
            assert time.monotonic() < end and running.process.poll() is None, running.err
            time.sleep(0.05)
        assert running.stop() == 0


def test_native_code_that_keeps_the_interpreter_ends_the_process(home: Path) -> None:
    """No thread of Python runs then, the watchdog's neither."""
    script = str(Path(__file__).with_name("stuck_child.py"))
    with gateway(home, script=(script, str(home), "interpreter")) as running:
        assert running.process.wait(PATIENCE) == -signal.SIGPROF
    stacks = (home / "logs" / "gateway-stuck.log").read_text()
    # Once when it looked wrong, and once at the end.
    assert stacks.count("in hold_the_interpreter") == 2
