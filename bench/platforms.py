"""Platforms: what it costs to import each adapter; a gateway with six accounts connected that has nothing to
do, and one with all of them; and how soon somebody who writes sees the first words of an answer.

The services are the fakes of the tests, in this process; the gateway and the model have processes of their
own."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.figure import Figure
from bench.model import model_process
from bench.start import gateway_process, one_start
from bench.stopwatch import percentile, resident, spent
from bench.whole import prepare
from hermes.testing.platform_suite import Does, Testbed

_BEDS = {
    "telegram": "TelegramBed",
    "discord": "DiscordBed",
    "slack": "SlackBed",
    "mattermost": "MattermostBed",
    "matrix": "MatrixBed",
    "email": "EmailBed",
}
_OTHER_BEDS = {
    "whatsapp_cloud": "WhatsAppBed",
    "signal": "SignalBed",
    "sms": "SmsBed",
    "homeassistant": "HomeBed",
    "bluebubbles": "BlueBubblesBed",
    "dingtalk": "DingTalkBed",
    "feishu": "FeishuBed",
    "wecom": "WeComBed",
    "wecom_callback": "WeComAppBed",
    "weixin": "WeixinBed",
    "qqbot": "QQBed",
}
_LIBRARIES = {
    "telegram": 577,
    "discord": 790,
    "slack": 640,
    "mattermost": 444,
    "matrix": 942,
    "email": 110,
}
"""Milliseconds of CPU that importing the library usual for each platform takes."""
_PATIENCE = 60.0
_MEGABYTE = 1 << 20
_QUESTION = "When does the next train to the sea leave?"


def measure(folder: Path, quick: bool) -> list[Figure]:
    figures = list(_imports(2 if quick else 5))
    with model_process() as url:
        home = folder / "home"
        prepare(home, url)
        with (home / "config.yaml").open("a", encoding="utf-8") as file:
            file.write("streaming:\n  enabled: true\n")
        idle = 3.0 if quick else 15.0
        figures += asyncio.run(_connected(home, _BEDS, idle, 150, times=3 if quick else 15))
        figures += asyncio.run(_connected(home, _BEDS | _OTHER_BEDS, idle, 160))
    return figures


def _imports(times: int) -> Iterator[Figure]:
    """The least CPU of several starts of Python that import an adapter, beyond one that imports the words
    which a gateway has anyway."""
    words = ("-c", "import hermes.domain.ports.store, hermes.domain.chats.adapter")
    bare = min(one_start(words)[1] for _ in range(times + 1))
    for name, library in _LIBRARIES.items():
        words = ("-c", f"import hermes.entry.platforms.{name}.adapter")
        cpu = min(one_start(words)[1] for _ in range(times + 1)) - bare
        told = f"{name}: import of the adapter, CPU"
        yield Figure(bench="platforms", name=told, value=cpu * 1e3, unit="ms", target=library)


async def _connected(
    home: Path, kinds: Mapping[str, str], idle: float, most: float, times: int = 0
) -> list[Figure]:
    """A gateway with these connected stands still; then each is asked so many times."""
    async with _services(kinds) as beds:
        said = {"GATEWAY_ALLOW_ALL_USERS": "true"}
        for bed in beds.values():
            said |= {**bed.variables(), **bed.said}
        starting = gateway_process(home, said)
        process, ready = await asyncio.to_thread(starting.__enter__)
        try:
            await _all_connected(home, beds)
            await asyncio.sleep(5)
            before = spent(process)
            await asyncio.sleep(idle)
            busy = (spent(process) - before) / idle * 100
            held = resident(process) / _MEGABYTE
            shown = [await _first_shown(name, bed, times) for name, bed in beds.items()] if times else []
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)
    count = f"{len(beds)} connected"
    return [
        Figure(bench="platforms", name=f"{count}: start to ready", value=ready, unit="s", target=3),
        Figure(bench="platforms", name=f"{count}: idle CPU", value=busy, unit="%", target=0.5),
        Figure(bench="platforms", name=f"{count}: idle memory", value=held, unit="MB", target=most),
        *shown,
    ]


@asynccontextmanager
async def _services(kinds: Mapping[str, str]) -> AsyncIterator[Mapping[str, Testbed]]:
    async with AsyncExitStack() as stack:
        beds: dict[str, Testbed] = {}
        for name, kind in kinds.items():
            make = getattr(importlib.import_module(f"tests.platforms.{name}.bed"), kind)
            beds[name] = await stack.enter_async_context(make())
        yield beds


async def _all_connected(home: Path, beds: Mapping[str, Testbed]) -> None:
    end = time.perf_counter() + _PATIENCE
    waiting: list[str] = []
    while time.perf_counter() < end:
        told = json.loads((home / "gateway_state.json").read_text(encoding="utf-8"))["platforms"]
        waiting = [name for name in beds if told.get(name, {}).get("state") != "connected"]
        if not waiting:
            return
        await asyncio.sleep(0.2)
    raise RuntimeError(f"not connected: {waiting}")


async def _first_shown(name: str, bed: Testbed, times: int) -> Figure:
    """From the moment somebody writes to the moment a message of ours is there; the middle of several."""
    took: list[float] = []
    for _ in range(times):
        before = len(bed.shown())
        began = time.perf_counter()
        await bed.do(Does.TEXT, _QUESTION)
        while len(bed.shown()) == before:
            if time.perf_counter() - began > _PATIENCE:
                raise RuntimeError(f"no answer on {name}")
            await asyncio.sleep(0.001)
        took.append(time.perf_counter() - began)
        await asyncio.sleep(1.6)
    told = f"{name}: written to first words shown"
    target = 30 if bed.manifest.capabilities.edits else None
    return Figure(bench="platforms", name=told, value=percentile(took, 0.5) * 1e3, unit="ms", target=target)
