"""Sandboxes: what a command that does nothing costs, in a kept sandbox and as the first one in a new one; and
reading a small file. A sandbox that does not work here has no figures."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median

from bench.figure import Figure
from bench.stopwatch import run
from hermes.domain.ports.world import NO_NETWORK, OPEN_NETWORK, Backend, Command, MakeBackend
from hermes.domain.settings.settings import TerminalSettings
from hermes.execution.local.backend import make_local
from hermes.execution.sandboxes.bubblewrap import make_bubblewrap
from hermes.execution.sandboxes.landlock import make_landlock
from hermes.execution.sandboxes.probe import PROBES, probe_sandbox
from hermes.testing.backends import backend_request

_KINDS: dict[str, MakeBackend] = {
    "local": make_local,
    "bubblewrap": make_bubblewrap,
    "landlock": make_landlock,
}
_KEPT_MS, _NEW_MS = 5, 25


def measure(folder: Path, quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    for name, make in _KINDS.items():
        figures += run(partial(_measure, name, make, folder / name, 10 if quick else 50))
    return figures


async def _measure(name: str, make: MakeBackend, folder: Path, count: int) -> list[Figure]:
    if name in PROBES and not (await probe_sandbox(name, os.environ, TerminalSettings())).works:
        return []
    (folder / "work").mkdir(parents=True)
    network = OPEN_NETWORK if name == "local" else NO_NETWORK
    request = backend_request(
        home=folder / "home", workspace=folder / "work", environ=os.environ, network=network
    )
    new, kept, read = [], [], []
    for _ in range(max(count // 5, 3)):
        backend = make(request)
        await backend.open()
        new.append(await _timed(partial(_true, backend)))
        await backend.close()
    backend = make(request)
    await backend.open()
    await backend.files.write("", "file", b"x")
    for _ in range(count):
        kept.append(await _timed(partial(_true, backend)))
        read.append(await _timed(lambda: backend.files.read("", "file")))
    await backend.close()
    told = (("a kept shell", kept, _KEPT_MS), ("a new one", new, _NEW_MS), ("reading a file", read, _KEPT_MS))
    return [
        Figure(bench="sandboxes", name=f"{name}, {what}", value=median(times), unit="ms", target=most)
        for what, times, most in told
    ]


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1e3


async def _true(backend: Backend) -> None:
    result = await backend.run(Command(text="true"), lambda words: None)
    assert result.code == 0
