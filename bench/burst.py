"""Burst: ten messages each from a thousand chats at once, while fifty other people are being answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial
from pathlib import Path

from bench.figure import Better, Figure
from bench.rig import Rig
from bench.stopwatch import Stopwatch, most_resident, percentile, resident, run, settle_memory

_MEGABYTE = 1 << 20
_EACH = 10
_OTHERS = 50
_ENDLESS = 1_000_000


def measure(folder: Path, quick: bool) -> list[Figure]:
    return run(lambda: _measure(folder, 100 if quick else 1_000))


async def _measure(folder: Path, producers: int) -> list[Figure]:
    async with Rig(folder=folder) as rig:
        others = [asyncio.create_task(rig.talk(f"o{n}", _ENDLESS)) for n in range(_OTHERS)]
        await asyncio.sleep(0.5)
        settle_memory()
        answered = rig.desk.answers.total()
        before, waits = resident(), list[float]()
        with Stopwatch() as whole:
            began = time.perf_counter()
            await asyncio.gather(*(_produce(rig, str(n), waits) for n in range(producers)))
            accepted = time.perf_counter() - began
            during = (rig.desk.answers.total() - answered) / accepted
            for other in others:
                other.cancel()
            await rig.rest()
        growth = most_resident() - before
    sent = {f"b{n}.{place}" for n in range(producers) for place in range(_EACH)}
    answers = Counter({token: count for token, count in rig.desk.answers.items() if token in sent})
    figure = partial(Figure, bench="burst")
    return [
        figure(name=f"{len(sent):,} accepted after", value=accepted, unit="s", target=5),
        figure(name="wait for accept, median", value=percentile(waits, 0.5) * 1e3, unit="ms"),
        figure(name="wait for accept, p99", value=percentile(waits, 0.99) * 1e3, unit="ms", target=500),
        figure(name="answers meanwhile", value=during, unit="/s", better=Better.MORE),
        figure(name="all answered after", value=whole.wall, unit="s", target=60),
        figure(name="CPU per message, accepted to sent", value=whole.cpu / len(sent) * 1e3, unit="ms"),
        figure(name="most memory above the start", value=growth / _MEGABYTE, unit="MB", target=100),
        figure(name="lost", value=len(sent - answers.keys()), unit="", better=Better.FAULT, target=0),
        figure(
            name="answered twice",
            value=sum(count > 1 for count in answers.values()),
            unit="",
            better=Better.FAULT,
            target=0,
        ),
    ]


async def _produce(rig: Rig, chat: str, waits: list[float]) -> None:
    for place in range(_EACH):
        began = time.perf_counter()
        await rig.say(chat, f"b{chat}.{place}")
        waits.append(time.perf_counter() - began)
