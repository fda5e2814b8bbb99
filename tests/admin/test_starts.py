"""The guard against storms of starts."""

from __future__ import annotations

from pathlib import Path

from hermes.admin.process.starts import STARTS_FILE, StartGuard


class Machine:
    """A machine on which a gateway is started again and again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.now = 1_000_000.0
        self.said: list[str] = []

    def start(self) -> float:
        """One more start; how long it had to wait."""
        before = self.now
        starts = StartGuard(self.home, lambda: self.now)
        starts.wait(self.said.append, self._sleep)
        starts.begin()
        return self.now - before

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def test_starts_that_die_are_slowed_down_ever_more(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert [machine.start() for _ in range(13)] == [0, 0, 0, 0, 0, 5, 10, 20, 40, 80, 160, 300, 300]
    assert machine.said[0].startswith("waiting 5 s before it starts: 5 starts in a row died within 120 s.")
    assert str(tmp_path / STARTS_FILE) in machine.said[0]


def test_an_end_in_order_and_a_long_life_forgive(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for _ in range(7):
        machine.start()
    StartGuard(tmp_path).forget()
    assert [machine.start() for _ in range(5)] == [0, 0, 0, 0, 0]


def test_what_is_long_ago_does_not_count(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for _ in range(7):
        machine.start()
    machine.now += 3600
    assert machine.start() == 0


def test_a_clock_that_was_set_back_and_a_file_of_nonsense_stop_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for _ in range(7):
        machine.start()
    machine.now -= 86_400
    assert machine.start() == 0
    (tmp_path / STARTS_FILE).write_bytes(b"\xff\x00 nonsense\n" * 10)
    assert machine.start() == 0


def test_a_start_that_is_withdrawn_does_not_count(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for _ in range(4):
        machine.start()
    for _ in range(5):
        assert machine.start() == 0
        StartGuard(tmp_path, lambda: machine.now).withdraw()
    assert [machine.start(), machine.start()] == [0, 5]
