"""HTTP: what the HTTP door adds to a call made straight to the same model server. The gateway is the real
process on a home of its own (FULL sync, default prompt and tools); its CPU is read from the system, so that
of the load generator is not in the figures."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from bench.figure import Better, Figure
from bench.model import Direct, model_process, surroundings
from bench.stopwatch import percentile, resident, run
from bench.whole import prepare

KEY = "the key of the bench, long enough"
WORDS = "when does the next train to the sea leave, and what does it cost?"
_TO = "direct call"
_CROWD = 64
_SLOW = 2.0
_WATCHERS, _STALLED = 500, 50
# The gateway writes JSON without spaces, the fake model, which the relay only passes on, with them.
_FIRST_WORD = re.compile(rb'"content": ?"w')
_TICK = os.sysconf("SC_CLK_TCK")
_figure = partial(Figure, bench="http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A process that serves the API, and the bare call beside it."""

    url: str
    pid: int
    http: aiohttp.ClientSession
    direct: Direct

    def cpu(self) -> float:
        """Seconds that the process has used, all threads together."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    async def get(self, path: str) -> None:
        async with self.http.get(self.url + path) as heard:
            await heard.read()

    async def ask(self, text: str, session: str | None = None) -> str:
        headers = {"X-Hermes-Session-Id": session} if session else {}
        body = {"messages": [{"role": "user", "content": text}]}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body, headers=headers) as heard:
            told = await heard.json()
            if heard.status != 200:
                raise RuntimeError(f"{heard.status}: {told}")
            answer: str = told["choices"][0]["message"]["content"]
            return answer

    async def stream(self, text: str) -> tuple[float, int]:
        """Seconds to the first word, and how many bytes came."""
        began, first, count = time.perf_counter(), 0.0, 0
        body = {"stream": True, "messages": [{"role": "user", "content": text}]}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body) as heard:
            async for data in heard.content.iter_any():
                if not first and _FIRST_WORD.search(data):
                    first = time.perf_counter() - began
                count += len(data)
        return first, count


def measure(folder: Path, quick: bool) -> list[Figure]:
    with model_process() as url:
        figures: list[Figure] = []
        for part in (_alone, _crowd, _together, _streams, _sessions, _long, _watched):
            with gateway_process(folder / part.__name__.strip("_"), url) as (pid, address):
                figures += run(partial(_with_front, part, pid, address, url, quick))
        return figures


@contextmanager
def gateway_process(home: Path, url: str) -> Iterator[tuple[int, str]]:
    prepare(home, url)
    environ = {**surroundings(home), "API_SERVER_KEY": KEY, "API_SERVER_PORT": "0", "HERMES_RESERVE_MB": "0"}
    command = [sys.executable, "-m", "hermes", "gateway", "run", "--quiet"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid, _address(home)
        finally:
            process.terminate()
            process.wait()


def _address(home: Path) -> str:
    for _ in range(400):
        try:
            told = json.loads((home / "gateway_state.json").read_bytes())
            if told.get("api"):
                address: str = told["api"]
                return address
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise RuntimeError("the gateway did not become ready")


async def _with_front(part: Any, pid: int, address: str, url: str, quick: bool) -> list[Figure]:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as http,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as bare,
    ):
        front = Front(url=address, pid=pid, http=http, direct=Direct(url, bare))
        for _ in range(5):
            await front.ask(WORDS)
            await front.direct.ask(WORDS)
        figures: list[Figure] = await part(front, quick)
        return figures


async def _alone(front: Front, quick: bool) -> list[Figure]:
    """One client, one request after the other, in turns with the direct call."""
    ours: list[float] = []
    bare: list[float] = []
    cpu = 0.0
    turns = 20 if quick else 80
    for _ in range(5):
        before = front.cpu()
        for _ in range(turns):
            began = time.perf_counter()
            await front.ask(WORDS)
            ours.append(time.perf_counter() - began)
        cpu += front.cpu() - before
        for _ in range(turns):
            began = time.perf_counter()
            await front.direct.ask(WORDS)
            bare.append(time.perf_counter() - began)
    added = (percentile(ours, 0.5) - percentile(bare, 0.5)) * 1e3
    ratio = percentile(ours, 0.5) / percentile(bare, 0.5)
    return [
        _figure(name="turn: CPU of the gateway", value=cpu / len(ours) * 1e3, unit="ms", target=3.5),
        _figure(name="turn: added p50, one client", value=added, unit="ms", target=5, ratio=ratio, to=_TO),
        _figure(name="direct call: p50", value=percentile(bare, 0.5) * 1e3, unit="ms"),
    ]


async def _crowd(front: Front, quick: bool) -> list[Figure]:
    turns = 3 if quick else 15

    async def client() -> None:
        for _ in range(turns):
            await front.ask(WORDS)

    began, before = time.perf_counter(), front.cpu()
    await asyncio.gather(*(client() for _ in range(_CROWD)))
    count, wall = _CROWD * turns, time.perf_counter() - began
    name = f"{_CROWD} clients"
    return [
        _figure(
            name=f"{name}: turns per second", value=count / wall, unit="/s", better=Better.MORE, target=400
        ),
        _figure(name=f"{name}: CPU per turn", value=(front.cpu() - before) / count * 1e3, unit="ms"),
    ]


async def _together(front: Front, quick: bool) -> list[Figure]:
    await front.direct.facts()
    await asyncio.gather(*(front.ask(f"slow {_SLOW}") for _ in range(_CROWD)))
    most = (await front.direct.facts())["most"]
    name = f"{_CROWD} requests on a model of {_SLOW:g} s: at it together"
    return [_figure(name=name, value=most, unit="", better=Better.MORE, target=_CROWD)]


async def _streams(front: Front, quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    async with relay(front) as bare_relay:
        firsts = [(await front.stream("single 20"))[0] for _ in range(20)]
        bare = [(await bare_relay.stream("single 20"))[0] for _ in range(20)]
        late = (percentile(firsts, 0.5) - percentile(bare, 0.5)) * 1e3
        figures.append(_figure(name="stream: first word after the relay's", value=late, unit="ms", target=5))
        for pace, words, times in (("burst", 20_000, 5), ("single", 2_000, 3)):
            ours, theirs = 0.0, 0.0
            for _ in range(times):
                before = front.cpu()
                await front.stream(f"{pace} {words // 10 if quick else words}")
                ours += front.cpu() - before
                before = bare_relay.cpu()
                await bare_relay.stream(f"{pace} {words // 10 if quick else words}")
                theirs += bare_relay.cpu() - before
            each = ours / (times * (words // 10 if quick else words)) * 1e6
            if pace == "burst":
                figures.append(_figure(name="in bursts: CPU per word", value=each, unit="µs", target=25))
                continue
            figures.append(_figure(name="one by one: CPU per word", value=each, unit="µs"))
            figures.append(
                _figure(
                    name="one by one: CPU to the relay's", value=ours / max(theirs, 0.01), unit="×",
                    better=Better.RATIO, target=2,
                )
            )  # fmt: skip
    return figures


@asynccontextmanager
async def relay(front: Front) -> AsyncIterator[Front]:
    command = (sys.executable, "-m", "bench.relay", front.direct.base_url)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None and process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        yield Front(url=f"http://127.0.0.1:{port}", pid=process.pid, http=front.http, direct=front.direct)
    finally:
        process.stdin.close()
        await process.wait()


async def _sessions(front: Front, quick: bool) -> list[Figure]:
    count = 200 if quick else 1_000
    for number in range(100):
        await front.ask(WORDS, f"warm{number}")
    await asyncio.sleep(1)
    before = resident(front.pid)
    for start in range(0, count, 20):
        await asyncio.gather(*(front.ask(WORDS, f"s{number}") for number in range(start, start + 20)))
    await asyncio.sleep(1)
    grown = (resident(front.pid) - before) / (1 << 20)
    return [_figure(name=f"{count:,} distinct sessions: memory growth", value=grown, unit="MB", target=4)]


async def _long(front: Front, quick: bool) -> list[Figure]:
    """A long conversation: what its late turns cost beside its early ones, as the gateway's CPU."""
    last = 100 if quick else 500

    async def cost(turns: int) -> float:
        before = front.cpu()
        for _ in range(turns):
            await front.ask(WORDS, "long")
        return (front.cpu() - before) / turns

    early = await cost(30)
    for _ in range(last - 60):
        await front.ask(WORDS, "long")
    late = await cost(30)
    name = f"turn {last} of one session: CPU to turn 10's"
    return [_figure(name=name, value=late / early, unit="×", better=Better.RATIO, target=1.5)]


async def _watched(front: Front, quick: bool) -> list[Figure]:
    """Run events with many watchers, some of which never read: what it takes, and how late the others are."""
    watchers, stalled, words = (_WATCHERS // 5, _STALLED // 5, 100) if quick else (_WATCHERS, _STALLED, 600)
    body = {"input": f"single {words * 10}"}
    async with front.http.post(f"{front.url}/v1/runs", json=body) as heard:
        if heard.status != 202:
            return []
        run_id = (await heard.json())["run_id"]
    before, cpu, began = resident(front.pid), front.cpu(), time.perf_counter()
    url = f"{front.url}/v1/runs/{run_id}/events"
    sleepers = [await front.http.get(url, read_bufsize=1024) for _ in range(stalled)]
    ended = await asyncio.gather(*(_follow(front, url) for _ in range(watchers - stalled)))
    grown = (resident(front.pid) - before) / (1 << 20)
    spread = max(ended) - min(ended)
    for sleeper in sleepers:
        sleeper.close()
    name = f"{watchers} watchers, {stalled} of them asleep"
    return [
        _figure(name=f"{name}: memory growth", value=grown, unit="MB", target=60),
        _figure(name=f"{name}: last reader behind the first", value=spread, unit="s", target=1),
        _figure(name=f"{name}: CPU", value=(front.cpu() - cpu) / (time.perf_counter() - began), unit="cores"),
    ]


async def _follow(front: Front, url: str) -> float:
    async with front.http.get(url) as heard:
        last, ended = b"", False
        async for data in heard.content.iter_any():
            # The last event carries the whole answer, so its name may be far from the end.
            ended = ended or b"run.completed" in last + data
            last = data[-32:]
        if not ended:
            raise RuntimeError("a watcher did not see the end")
        return time.perf_counter()
