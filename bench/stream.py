"""Stream: what a streamed word costs from the model server to a door that writes it to a pipe, beside a bare
aiohttp relay that passes the same bytes on without a look; when words come in bursts and one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from bench.figure import Better, Figure
from bench.model import WORD, model_process
from bench.stopwatch import Stopwatch, run
from bench.whole import whole

_figure = partial(Figure, bench="stream")


def measure(folder: Path, quick: bool) -> list[Figure]:
    with model_process() as url:
        return [
            *run(partial(_stream, folder / "burst", url, "burst", 2_000 if quick else 20_000)),
            *run(partial(_stream, folder / "single", url, "single", 500 if quick else 2_000)),
        ]


async def _stream(home: Path, url: str, pace: str, words: int) -> list[Figure]:
    text, times = f"{pace} {words}", 5 if pace == "burst" else 2
    async with whole(home, url) as it, _pipe() as out:
        await it.ask("warm", f"{pace} 100", out)
        await it.direct.relay(f"{pace} 100", out)
        ours, relay = Stopwatch(), Stopwatch()
        for n in range(times):
            with ours:
                heard = await it.ask(f"c{n}", text, out)
            if heard != words * len(WORD):
                raise RuntimeError(f"the watcher heard {heard} characters of {words * len(WORD)}")
            with relay:
                await it.direct.relay(text, out)
    count = words * times
    cpu, bare = ours.cpu / count * 1e6, relay.cpu / count * 1e6
    name = "in bursts" if pace == "burst" else "one by one"
    figures = [
        _figure(
            name=f"{name}: CPU per word", value=cpu, unit="µs", target=25 if pace == "burst" else None,
            ratio=cpu / bare, to="bare aiohttp relay",
        ),
        _figure(name=f"{name}: relay's CPU per word", value=bare, unit="µs"),
    ]  # fmt: skip
    if pace == "single":
        times_relay = _figure(
            name=f"{name}: CPU to the relay's", value=cpu / bare, unit="×", better=Better.RATIO, target=2
        )
        figures.append(times_relay)
    return figures


@asynccontextmanager
async def _pipe() -> AsyncIterator[asyncio.StreamWriter]:
    """A pipe into a process that throws everything away."""
    sink = await asyncio.create_subprocess_exec(
        "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    assert sink.stdin is not None
    try:
        yield sink.stdin
    finally:
        sink.stdin.close()
        await sink.wait()
