"""Start: what Python, the gateway's imports and the `hermes` command take before they do anything."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from bench.figure import Figure

_BARE = ("-c", "pass")


def measure(folder: Path, quick: bool) -> list[Figure]:
    times = 3 if quick else 10
    commands: dict[str, tuple[str, ...]] = {
        "import hermes.control.gateway": ("-c", "import hermes.control.gateway")
    }
    if find_spec("hermes.cli") is not None:
        commands["hermes --version"] = ("-m", "hermes", "--version")
    bare_wall, bare_cpu = _best(_BARE, times)
    figures = [_figure("python -c pass", bare_wall, bare_cpu, 1.0)]
    for name, command in commands.items():
        wall, cpu = _best(command, times)
        figures.append(_figure(name, wall, cpu, cpu / bare_cpu))
    return [figure for pair in figures for figure in pair]


def _best(arguments: tuple[str, ...], times: int) -> tuple[float, float]:
    """The shortest of several starts, after one that fills the caches."""
    runs = [_start(arguments) for _ in range(times + 1)][1:]
    return min(wall for wall, _ in runs), min(cpu for _, cpu in runs)


def _start(arguments: tuple[str, ...]) -> tuple[float, float]:
    began = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0o600)]
    child = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"python {' '.join(arguments)} failed")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def _figure(name: str, wall: float, cpu: float, ratio: float) -> tuple[Figure, Figure]:
    return (
        Figure(bench="start", name=f"{name}, wall", value=wall * 1e3, unit="ms"),
        Figure(
            bench="start", name=f"{name}, CPU", value=cpu * 1e3, unit="ms", ratio=ratio, to="python -c pass"
        ),
    )
