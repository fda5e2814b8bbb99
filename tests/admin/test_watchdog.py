"""The watchdog's judgement, on a clock of the test's; and what a service manager hears."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes.admin.process.watchdog import STACKS_FILE, SystemdNotifier, Watchdog
from hermes.domain.settings.settings import AgentSettings, GatewaySettings, Settings
from hermes.domain.word import replace


@dataclass
class Time:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Ward:
    """A watchdog whose loop beats only when the test says so."""

    def __init__(self, home: Path, stuck_seconds: float = 60.0) -> None:
        (home / "logs").mkdir()
        self.stacks = home / STACKS_FILE
        self.time = Time()
        self.ended: list[int] = []
        settings = Settings(
            gateway=GatewaySettings(stuck_seconds=stuck_seconds),
            agent=AgentSettings(restart_drain_timeout=10.0),
        )
        self.dog = Watchdog(home, settings, SystemdNotifier({}), self.ended.append, self.time)

    async def beat(self) -> None:
        task = asyncio.create_task(self.dog.beat())
        await asyncio.sleep(0)
        beaten = self.dog._beaten
        task.cancel()
        await asyncio.wait([task])
        self.dog._beaten = beaten

    def pass_time(self, seconds: int, step: float = 1.0) -> None:
        for _ in range(seconds):
            self.time.now += step
            self.dog.look()


async def test_a_loop_that_turns_is_left_alone(tmp_path: Path) -> None:
    ward = Ward(tmp_path)
    for _ in range(200):
        await ward.beat()
        ward.pass_time(1)
    assert ward.ended == [] and not ward.stacks.exists()


async def test_a_stuck_loop_is_written_down_and_then_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ward = Ward(tmp_path)
    await ward.beat()
    ward.pass_time(59)
    assert ward.ended == [] and ward.stacks.read_text().count("---") == 1
    ward.pass_time(2)
    assert ward.ended == [1] and "watchdog.ends" in caplog.text


async def test_a_hiccup_is_forgotten(tmp_path: Path) -> None:
    ward = Ward(tmp_path)
    await ward.beat()
    ward.pass_time(30)
    await ward.beat()
    ward.pass_time(59)
    assert ward.ended == [] and ward.stacks.read_text().count("---") == 2


async def test_zero_means_never(tmp_path: Path) -> None:
    ward = Ward(tmp_path, stuck_seconds=0.0)
    await ward.beat()
    ward.pass_time(1000)
    assert ward.ended == []


async def test_a_machine_that_slept_is_no_stuck_loop(tmp_path: Path) -> None:
    ward = Ward(tmp_path)
    await ward.beat()
    ward.time.now += 7200
    ward.dog.look()
    ward.pass_time(3)
    assert ward.ended == [] and not ward.stacks.exists()


async def test_a_stop_without_an_end_is_ended(tmp_path: Path) -> None:
    ward = Ward(tmp_path)
    ward.dog.told("draining")
    for _ in range(80):
        await ward.beat()
        ward.pass_time(1)
    assert ward.ended == []
    await ward.beat()
    ward.pass_time(1)
    assert ward.ended == [1] and "the stop does not come to its end" in ward.stacks.read_text()


@pytest.mark.parametrize("name", ["{folder}/notify", "@hermes-test-{pid}"])
def test_the_manager_hears(tmp_path: Path, name: str) -> None:
    address = name.format(folder=tmp_path, pid=id(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + address[1:] if address.startswith("@") else address)
        notify = SystemdNotifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000"})
        (tmp_path / "logs").mkdir()
        dog = Watchdog(tmp_path, replace(Settings()), notify)
        assert notify.watched == 30.0
        dog.told("starting")
        dog.told("running")
        dog.told("draining")
        assert manager.recv(100) == b"READY=1\nSTATUS=running"
        assert manager.recv(100).startswith(b"STOPPING=1")


def test_a_manager_that_is_not_there_stops_nothing(tmp_path: Path) -> None:
    SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "none")}).tell("READY=1")
    SystemdNotifier({}).tell("READY=1")
    assert SystemdNotifier({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watched == 0.0
    assert SystemdNotifier({"WATCHDOG_USEC": "soon"}).watched == 0.0
