"""Accept: how fast messages become durable, by way of `Gateway.accept`, beside a bare program's same inserts.

The gateway is built and not started, so nothing but accepting goes on."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from bench.bare import BareWriter, Statement
from bench.figure import Better, Figure
from bench.rig import ACCOUNT, bench_settings, inbound
from bench.stopwatch import Stopwatch, percentile, run
from hermes.app.agents.registry import AgentRegistry
from hermes.control.core import Runtime
from hermes.control.gateway import Gateway
from hermes.control.wiring import GatewayParts
from hermes.control.workers import Supervisor
from hermes.domain.clock import SystemClock
from hermes.domain.ids import AgentId
from hermes.domain.settings.live import LiveSettings
from hermes.state.store.codec import encode
from hermes.state.store.migrations import FIRST
from hermes.state.store.writer import SqliteStore

_PRODUCERS = 64
_INSERT = (
    "INSERT INTO inbox (account, delivery, ref, body, accepted_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)
_CURSOR = (
    "INSERT INTO cursors VALUES (?, ?, ?)"
    " ON CONFLICT (account) DO UPDATE SET cursor = excluded.cursor, at = excluded.at"
)  # fmt: skip


def measure(folder: Path, quick: bool) -> list[Figure]:
    messages = 4_000 if quick else 20_000
    ours, waits, commits = run(lambda: _ours(folder, messages))
    bare, _ = run(lambda: _bare(folder, messages))
    rate, bare_rate = messages / ours.wall, messages / bare.wall
    cpu, to = ours.cpu / messages * 1e6, "bare inserts"
    figure = partial(Figure, bench="accept")
    return [
        figure(
            name="messages per second",
            value=rate,
            unit="/s",
            better=Better.MORE,
            target=2_000,
            ratio=rate / bare_rate,
            to=to,
        ),
        figure(name="wait, median", value=percentile(waits, 0.5) * 1e3, unit="ms"),
        figure(name="wait, p99", value=percentile(waits, 0.99) * 1e3, unit="ms", target=250),
        figure(name="CPU per message", value=cpu, unit="µs", ratio=ours.cpu / bare.cpu, to=to),
        figure(name="messages per commit", value=messages / commits, unit="", better=Better.MORE),
    ]


async def _ours(folder: Path, messages: int) -> tuple[Stopwatch, list[float], int]:
    async with SqliteStore(folder / "accept.db") as store:
        clock = SystemClock()
        loops = Supervisor(clock)

        async def no_agent(agent: AgentId) -> Runtime:
            raise AssertionError(f"{agent} is not asked for: messages are only accepted")

        gateway = Gateway(
            GatewayParts(
                store=store,
                agents=AgentRegistry([], no_agent),
                live=LiveSettings(bench_settings()),
                clock=clock,
                loops=loops,
            )
        )

        async def accept(n: int) -> None:
            await gateway.accept(ACCOUNT, [inbound(str(n % 500), f"m{n}")], str(n))

        await _produce(accept, range(1_000_000, 1_000_500))
        before = store.facts.commits
        watch, waits = await _produce(accept, range(messages))
        return watch, waits, store.facts.commits - before


async def _bare(folder: Path, messages: int) -> tuple[Stopwatch, list[float]]:
    schema = [statement for statement in FIRST if "inbox" in statement or "cursors" in statement]
    writer = BareWriter(folder / "bare.db", schema)

    async def insert(n: int) -> None:
        item = inbound(str(n % 500), f"m{n}")
        row: Statement = (_INSERT, (ACCOUNT, item.delivery, item.ref, encode(item), time.time()))
        await writer.write([row, (_CURSOR, (ACCOUNT, str(n), time.time()))])

    await _produce(insert, range(1_000_000, 1_000_500))
    measured = await _produce(insert, range(messages))
    writer.close()
    return measured


async def _produce(put: Callable[[int], Awaitable[None]], numbers: range) -> tuple[Stopwatch, list[float]]:
    """All numbers, by producers that each wait for one before they take the next."""
    waits: list[float] = []
    left = itertools.chain(numbers)

    async def produce() -> None:
        for n in left:
            began = time.perf_counter()
            await put(n)
            waits.append(time.perf_counter() - began)

    with Stopwatch() as watch:
        await asyncio.gather(*(produce() for _ in range(_PRODUCERS)))
    return watch, waits
