"""Budget: the gateway beside the floor (`bench/floor.py`), in turns, on the same model: what a turn, a
stream, a start and standing still may cost. Each is a process of its own, asked by one client over HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from bench.figure import Better, Figure
from bench.http import KEY, WORDS, Front, relay
from bench.model import Direct, model_process, surroundings
from bench.stopwatch import percentile, resident, run, spent
from bench.whole import prepare

_MEGABYTE = 1 << 20
_UNREAD = 200
_figure = partial(Figure, bench="budget", to="floor")


def measure(folder: Path, quick: bool) -> list[Figure]:
    with model_process() as url:
        bench = Budget(folder, url, quick)
        parts = (bench.starts, bench.first_stream, bench.turns, bench.crowd, bench.streams, bench.stands)
        return [figure for part in parts for figure in run(part)]


class Budget:
    def __init__(self, folder: Path, url: str, quick: bool) -> None:
        self._folder = folder
        self._url = url
        self._quick = quick
        self._homes = 0

    async def starts(self) -> list[Figure]:
        """From the start of the process to the first answer, each on a home that was used before."""
        wall: dict[str, list[float]] = {"ours": [], "floor": []}
        cpu: dict[str, list[float]] = {"ours": [], "floor": []}
        homes = {who: self._home(who) for who in wall}
        for number in range(3 if self._quick else 6):
            for who, home in homes.items():
                began = time.perf_counter()
                async with self._front(who, home) as front:
                    await front.ask(WORDS, f"s{number}")
                    if number:
                        wall[who].append(time.perf_counter() - began)
                        cpu[who].append(spent(front.pid))
        return [
            _beside("start to first answer", min(wall["ours"]), min(wall["floor"]), "s", 2.2),
            _beside("start to first answer: CPU", min(cpu["ours"]), min(cpu["floor"]), "s", 2.2),
        ]

    async def first_stream(self) -> list[Figure]:
        """The very first stream of a process, after a bare relay's first one."""
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(2 if self._quick else 4):
            async with self._front("ours", self._home("ours")) as front, relay(front) as other:
                await front.get("/health")
                ours.append((await front.stream("single 20"))[0])
                bare.append((await other.stream("single 20"))[0])
        late = (min(ours) - min(bare)) * 1e3
        return [Figure(bench="budget", name="first stream: first word, after the relay's", value=late,
                       unit="ms", target=4, to="relay")]  # fmt: skip

    async def turns(self) -> list[Figure]:
        count = 40 if self._quick else 150
        cpu: dict[tuple[str, str], float] = {}
        async with self._both() as fronts:
            written = _written(fronts["ours"].pid)
            for number in range(2 if self._quick else 4):
                for kind in ("new", "same"):
                    for who, front in fronts.items():
                        before = front.cpu()
                        for turn in range(count):
                            name = f"{kind}{number}" if kind == "same" else f"{kind}{number}.{turn}"
                            await front.ask(WORDS, name)
                        each = (front.cpu() - before) / count * 1e3
                        cpu[who, kind] = min(each, cpu.get((who, kind), each))
                if not number:
                    await asyncio.sleep(2)
                    written = (_written(fronts["ours"].pid) - written) // (count * 2)
        return [
            _beside("turn in a new session: CPU", cpu["ours", "new"], cpu["floor", "new"], "ms", 2.5),
            _beside("turn in a session: CPU", cpu["ours", "same"], cpu["floor", "same"], "ms", 2.5),
            Figure(bench="budget", name="written per turn", value=written / 1024, unit="KB", target=45),
        ]

    async def crowd(self) -> list[Figure]:
        """64 clients, each waiting for its answer before it asks again."""
        clients, turns = 64, 4 if self._quick else 12
        rate: dict[str, float] = {}
        async with self._both() as fronts:
            for number in range(2):
                for who, front in fronts.items():

                    async def client(name: str, front: Front = front) -> None:
                        for turn in range(turns):
                            await front.ask(WORDS, f"{name}.{turn}")

                    began = time.perf_counter()
                    await asyncio.gather(*(client(f"c{number}.{one}") for one in range(clients)))
                    each = clients * turns / (time.perf_counter() - began)
                    rate[who] = max(each, rate.get(who, 0.0))
        name = f"{clients} clients: turns per second"
        return [_beside(name, rate["ours"], rate["floor"], "/s", 0.6, Better.MORE)]

    async def streams(self) -> list[Figure]:
        together, rounds = 16, 4 if self._quick else 10
        alone: dict[str, list[float]] = {}
        crowd: dict[str, list[float]] = {}
        async with self._both() as fronts, relay(fronts["ours"]) as bare:
            for _ in range(rounds):
                for who, front in {**fronts, "relay": bare}.items():
                    alone.setdefault(who, []).append((await front.stream("single 20"))[0])
                    heard = await asyncio.gather(*(front.stream("single 20") for _ in range(together)))
                    crowd.setdefault(who, []).append(percentile([first for first, _ in heard], 0.5))
        late = (percentile(alone["ours"], 0.5) - percentile(alone["relay"], 0.5)) * 1e3
        ours, floor = min(crowd["ours"]) * 1e3, min(crowd["floor"]) * 1e3
        return [
            Figure(bench="budget", name="stream: first word, after the relay's", value=late, unit="ms",
                   target=4, to="relay"),
            _beside(f"{together} streams at once: first word", ours, floor, "ms", 1.3),
        ]  # fmt: skip

    async def stands(self) -> list[Figure]:
        """Memory of a gateway that stands still, after sessions have spoken once, and while nobody reads."""
        count = 200 if self._quick else 1_000
        async with self._front("ours", self._home("ours")) as front:
            await front.ask(WORDS)
            await asyncio.sleep(3)
            idle = resident(front.pid)
            # As many at once as later: what their connections take is not counted as the sessions'.
            await _speak_once(front, "warm", 400)
            await asyncio.sleep(1)
            before = resident(front.pid)
            await _speak_once(front, "s", count)
            await asyncio.sleep(1)
            grown = (resident(front.pid) - before) / count * 1_000
        async with self._front("ours", self._home("ours")) as front:
            left = await _unread(front, 2_000 if self._quick else 20_000)
        return [
            _memory("standing still", idle, 60),
            _memory("more per 1,000 sessions", grown, 2),
            _memory(f"after {_UNREAD} streams that nobody read", left, 120),
        ]

    # --- the two processes ---

    @asynccontextmanager
    async def _both(self) -> AsyncIterator[dict[str, Front]]:
        """The gateway and the floor, both warm."""
        async with AsyncExitStack() as stack:
            fronts: dict[str, Front] = {}
            for who in ("ours", "floor"):
                fronts[who] = await stack.enter_async_context(self._front(who, self._home(who)))
                for number in range(20):
                    await fronts[who].ask(WORDS, f"warm{number}")
            yield fronts

    def _home(self, who: str) -> Path:
        """A new one, and never removed meanwhile: files are dearer to make after many were deleted."""
        self._homes += 1
        home = self._folder / f"{who}{self._homes}"
        prepare(home, self._url)
        return home

    @asynccontextmanager
    async def _front(self, who: str, home: Path) -> AsyncIterator[Front]:
        headers = {"Authorization": f"Bearer {KEY}"}
        with _process(who, home, self._url) as (pid, port):
            async with (
                aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as http,
                aiohttp.ClientSession() as bare,
            ):
                direct = Direct(self._url, bare)
                front = Front(url=f"http://127.0.0.1:{port}", pid=pid, http=http, direct=direct)
                await _until(lambda: front.get("/health"))
                yield front


@contextmanager
def _process(who: str, home: Path, url: str) -> Iterator[tuple[int, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-P", "-m", "hermes", "gateway", "run", "--quiet"]
    around = {**surroundings(home), "API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}
    if who == "floor":
        command = [sys.executable, "-P", "-m", "bench.floor", str(port), str(home / "floor.db"), url]
    with subprocess.Popen(command, env=around | {"HERMES_RESERVE_MB": "0"}) as process:
        try:
            yield process.pid, port
        finally:
            process.terminate()
            process.wait()


async def _until(ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
    for _ in range(6_000):
        try:
            return await ask()
        except aiohttp.ClientError:
            await asyncio.sleep(0.005)
    raise RuntimeError("it did not become ready")


async def _unread(front: Front, words: int) -> int:
    """What is still held after so many streams that were never read have ended."""
    body = {"stream": True, "messages": [{"role": "user", "content": f"burst {words}"}]}
    url = f"{front.url}/v1/chat/completions"
    asleep = [await front.http.post(url, json=body, read_bufsize=1024) for _ in range(_UNREAD)]
    await asyncio.sleep(5)
    for response in asleep:
        response.close()
    await asyncio.sleep(5)
    return resident(front.pid)


async def _speak_once(front: Front, name: str, count: int) -> None:
    """So many sessions with a turn each, twenty at once."""
    for start in range(0, count, 20):
        await asyncio.gather(*(front.ask(WORDS, f"{name}{number}") for number in range(start, start + 20)))


def _written(pid: int) -> int:
    """Bytes that the process has caused to be written to the disk."""
    for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise LookupError(pid)


def _beside(
    name: str, ours: float, floor: float, unit: str, budget: float, better: Better = Better.LESS
) -> Figure:
    return _figure(
        name=name, value=ours, unit=unit, better=better, floor=floor, ratio=ours / floor, budget=budget
    )


def _memory(name: str, held: float, target: float) -> Figure:
    return Figure(bench="budget", name=name, value=held / _MEGABYTE, unit="MB", target=target)
