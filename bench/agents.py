"""Many agents: what a thousand configured ones cost a gateway that starts, rests and answers, and what is
left of a hundred that were used and then let go."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from pathlib import Path

from bench.figure import Figure
from bench.model import model_process
from bench.start import gateway_process
from bench.stopwatch import resident
from bench.whole import Whole, prepare, whole
from hermes.app.agents.registry import AgentRegistry
from hermes.domain.ids import AgentId

MANY, USED = 1000, 100
_MEGABYTE = 1 << 20


def measure(folder: Path, quick: bool) -> list[Figure]:
    times = 2 if quick else 5
    with model_process() as url:
        one, many = folder / "one", folder / "many"
        prepare(one, url)
        prepare(many, url, _declared())
        (ready_one, held_one), (ready_many, held_many) = (_starts(home, times) for home in (one, many))
        count = 20 if quick else 100
        turns = [asyncio.run(_turns(one, url, count)), asyncio.run(_turns(many, url, count, _declared()))]
        used, left, children = asyncio.run(_used(folder / "used", url))
    more = (held_many - held_one) / _MEGABYTE
    return [
        Figure(bench="agents", name=f"start to ready, {MANY} agents", value=ready_many, unit="s", target=1.5),
        Figure(bench="agents", name="start to ready, one agent", value=ready_one, unit="s"),
        Figure(bench="agents", name=f"memory of {MANY} agents above one", value=more, unit="MB", target=30),
        Figure(bench="agents", name=f"a turn, CPU, {MANY} agents", value=turns[1] * 1e3, unit="ms"),
        Figure(bench="agents", name="a turn, CPU, one agent", value=turns[0] * 1e3, unit="ms"),
        Figure(bench="agents", name=f"memory of {USED} agents in use", value=used, unit="MB"),
        Figure(bench="agents", name="the same, let go", value=left, unit="MB"),
        Figure(bench="agents", name="processes that are left", value=children, unit=""),
    ]


def _declared() -> str:
    return "agents:\n" + "".join(f"  agent{n}: {{description: number {n}}}\n" for n in range(MANY))


def _starts(home: Path, times: int) -> tuple[float, float]:
    """The shortest start, after one that fills caches; and the memory of a gateway that rests."""
    readies, held = [], 0.0
    for number in range(times + 1):
        with gateway_process(home) as (process, seconds):
            if number:
                readies.append(seconds)
            if number == times:
                time.sleep(2.0)
                held = resident(process)
    return min(readies), held


async def _turns(home: Path, url: str, count: int, more: str = "") -> float:
    async with whole(home, url, (), more) as running:
        await running.ask("warm", "hi")
        began = time.process_time()
        for number in range(count):
            await running.ask(f"c{number}", "hi")
        return (time.process_time() - began) / count


async def _used(home: Path, url: str) -> tuple[float, float, int]:
    """What agents take that were spoken with once, what is left of that, and the processes beside ours."""
    async with whole(home, url, None, _declared()) as running:
        await running.ask("warm", "hi")
        before = _own_memory()
        for number in range(USED):
            await _speak(running, AgentId(f"agent{number}"))
        used = _own_memory() - before
        agents = running.gateway.agents
        assert isinstance(agents, AgentRegistry)
        await agents.let_go((), 0.0)
        gc.collect()
        return used, _own_memory() - before, _children()


async def _speak(running: Whole, agent: AgentId) -> None:
    await running.ask(f"c{agent}", "hi", agent=agent)


def _children() -> int:
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _own_memory() -> float:
    return resident(os.getpid()) / _MEGABYTE
