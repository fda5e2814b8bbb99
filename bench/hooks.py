"""Hooks: how long the gateway's loop stands still while a hook hangs, crashes or floods it with answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from functools import partial
from pathlib import Path

from bench.figure import Better, Figure
from bench.stopwatch import run
from hermes.domain.errors import Unreachable
from hermes.domain.system.hooks import Hook
from hermes.execution.hooks.processes import HookProcesses

_HOOKS = {
    "none": None,
    "hangs": "def handle(event, context):\n    while True: pass",
    "crashes": "import os\ndef handle(event, context): os._exit(1)",
    "floods": "def handle(event, context):\n    print('x' * 500_000)\n    return 'x' * 200_000",
}
_TICK = 0.001


def measure(folder: Path, quick: bool) -> list[Figure]:
    figures = []
    for name, code in _HOOKS.items():
        gap = run(partial(_longest_gap, folder, name, code, 5 if quick else 20))
        told = "no hook" if code is None else f"one {name}"
        figures.append(
            Figure(
                bench="hooks", name=f"longest gap, {told}", value=gap * 1e3, unit="ms",
                better=Better.FAULT, target=100,
            )
        )  # fmt: skip
    return figures


async def _longest_gap(folder: Path, name: str, code: str | None, calls: int) -> float:
    working = asyncio.create_task(_call(folder, name, code, calls))
    longest = 0.0
    while not working.done():
        before = time.perf_counter()
        await asyncio.sleep(_TICK)
        longest = max(longest, time.perf_counter() - before - _TICK)
    await working
    return longest


async def _call(folder: Path, name: str, code: str | None, calls: int) -> None:
    if code is None:
        await asyncio.sleep(1.0)
        return
    place = folder / name
    place.mkdir()
    (place / "handler.py").write_text(code)
    hook = Hook(name=name, folder=str(place), events=("agent:end",), timeout=0.2)
    processes = HookProcesses(folder, {"PATH": os.environ["PATH"]})
    for _ in range(calls):
        with contextlib.suppress(Unreachable):
            await processes.call(hook, "agent:end", {"text": "x" * 10_000})
    await processes.close()
