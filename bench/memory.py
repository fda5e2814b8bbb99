"""Memory: what sessions that have spoken once leave behind, with warm sessions kept and without."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from bench.figure import Figure
from bench.rig import Rig, bench_settings
from bench.stopwatch import resident, run, settle_memory
from hermes.domain.settings.settings import GatewaySettings

_AT_ONCE = 100
_MEGABYTE = 1 << 20


def measure(folder: Path, quick: bool) -> list[Figure]:
    steps = (200, 1_000) if quick else (1_000, 5_000)
    figures: list[Figure] = []
    for cache, name in ((GatewaySettings().cache_mb, "default cache"), (0, "no cache")):
        # A process of its own: what one gateway leaves behind is not the next one's start.
        place = folder / f"cache{cache}"
        place.mkdir()
        command = [sys.executable, "-m", "bench.memory", str(place), str(cache), *map(str, steps)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for sessions, growth in json.loads(done.stdout):
            figures.append(
                Figure(
                    bench="memory",
                    name=f"{name}: growth after {sessions:,} sessions",
                    value=growth / _MEGABYTE,
                    unit="MB",
                )
            )
            figures.append(
                Figure(
                    bench="memory",
                    name=f"{name}: per 1,000 sessions, of {sessions:,}",
                    value=growth / sessions * 1_000 / _MEGABYTE,
                    unit="MB",
                )
            )
    return figures


async def _grow(folder: Path, cache_mb: int, steps: list[int]) -> list[tuple[int, int]]:
    async with Rig(folder=folder, settings=bench_settings(cache_mb)) as rig:
        await _speak(rig, "w", 0, 200)
        before = await _held(rig)
        grown: list[tuple[int, int]] = []
        done = 0
        for sessions in steps:
            await _speak(rig, "s", done, sessions)
            done = sessions
            grown.append((sessions, await _held(rig) - before))
        return grown


async def _speak(rig: Rig, begin: str, done: int, upto: int) -> None:
    for start in range(done, upto, _AT_ONCE):
        chats = range(start, min(start + _AT_ONCE, upto))
        await asyncio.gather(*(rig.talk(f"{begin}{n}", 1) for n in chats))


async def _held(rig: Rig) -> int:
    """Resident bytes once nothing goes on, without what the bench itself keeps of each answer."""
    await rig.rest()
    await asyncio.sleep(1.0)
    rig.desk.answers.clear()
    rig.desk.keys.clear()
    settle_memory()
    return resident()


def main(arguments: list[str]) -> None:
    folder, cache, *steps = arguments
    print(json.dumps(run(lambda: _grow(Path(folder), int(cache), [int(step) for step in steps]))))


if __name__ == "__main__":
    main(sys.argv[1:])
