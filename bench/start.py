"""Start: what Python, the gateway's imports and the `hermes` command take before they do anything; how soon a
gateway is ready and has answered; and what it costs to let it stand there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.figure import Better, Figure
from bench.model import model_process, surroundings
from bench.stopwatch import resident, spent
from bench.whole import prepare

_BARE = "python -c pass"
_COMMANDS = {
    _BARE: ("-c", "pass"),
    "import hermes.control.gateway": ("-c", "import hermes.control.gateway"),
    "hermes --version": ("-m", "hermes", "--version"),
    "hermes --help": ("-m", "hermes", "--help"),
}
_HERMES = (sys.executable, "-P", "-m", "hermes")
_IDLE_SECONDS = 5.0
_MEGABYTE = 1 << 20


def measure(folder: Path, quick: bool) -> list[Figure]:
    times = 3 if quick else 10
    best = _best(times)
    bare = best[_BARE]
    figures: list[Figure] = []
    for name in _COMMANDS:
        figures += _figures(name, *best[name])
        for what, ours, theirs in zip(("wall", "CPU"), best[name], bare, strict=True):
            if name.startswith("hermes"):
                told = f"{name}, {what} to python's"
                ratio = Figure(
                    bench="start", name=told, value=ours / theirs, unit="×", better=Better.RATIO, target=3
                )
                figures.append(ratio)
    return [*figures, *_gateways(folder / "home", 2 if quick else 5)]


def _gateways(home: Path, times: int) -> Iterator[Figure]:
    """A home that was used before; then the shortest of several starts."""
    with model_process() as url:
        prepare(home, url)
        answers = [_answer(home) for _ in range(times + 1)][1:]
        readies: list[float] = []
        for _ in range(times):
            with gateway_process(home) as (_, seconds):
                readies.append(seconds)
        with gateway_process(home) as (process, _):
            time.sleep(1.0)
            before = spent(process)
            time.sleep(_IDLE_SECONDS)
            busy = (spent(process) - before) / _IDLE_SECONDS * 100
            held = resident(process)
    yield Figure(bench="start", name="gateway: start to ready", value=min(readies), unit="s", target=1)
    yield Figure(
        bench="start", name="hermes -z hi: start to answer", value=min(answers), unit="s", target=1.2
    )
    yield Figure(bench="start", name="gateway: idle CPU", value=busy, unit="%", target=0.5)
    yield Figure(bench="start", name="gateway: idle memory", value=held / _MEGABYTE, unit="MB", target=80)


def _answer(home: Path) -> float:
    """From the start of a process to the first words of the first answer."""
    began = time.perf_counter()
    command = [*_HERMES, "-z", "hi"]
    with subprocess.Popen(
        command, env=surroundings(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read(1)
        seconds = time.perf_counter() - began
        process.stdout.read()
    if not said or process.returncode != 0:
        raise RuntimeError(f"no answer (exit {process.returncode})")
    return seconds


@contextmanager
def gateway_process(home: Path, said: Mapping[str, str] | None = None) -> Iterator[tuple[int, float]]:
    """A gateway that has said it is ready: its process id, and how long that took. `said` are variables of
    its environment."""
    began = time.perf_counter()
    command = [*_HERMES, "gateway", "run"]
    around = {**surroundings(home), **(said or {})}
    with subprocess.Popen(command, env=around, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"ready: " in line:
                break
        try:
            yield process.pid, time.perf_counter() - began
        finally:
            process.terminate()
            process.stderr.read()


def _best(times: int) -> dict[str, tuple[float, float]]:
    """The shortest of several starts of each command, wall and CPU, in turns; the first fills the caches."""
    rounds = [{name: one_start(words) for name, words in _COMMANDS.items()} for _ in range(times + 1)][1:]
    return {
        name: (min(one[name][0] for one in rounds), min(one[name][1] for one in rounds)) for name in _COMMANDS
    }


def one_start(arguments: tuple[str, ...]) -> tuple[float, float]:
    began = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0o600)]
    child = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"python {' '.join(arguments)} failed")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def _figures(name: str, wall: float, cpu: float) -> tuple[Figure, Figure]:
    return (
        Figure(bench="start", name=f"{name}, wall", value=wall * 1e3, unit="ms"),
        Figure(bench="start", name=f"{name}, CPU", value=cpu * 1e3, unit="ms"),
    )
