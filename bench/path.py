"""Path: a turn through the whole product (door → journal → model server → answer) beside a direct call to the
same server: alone, with tools, in a crowd, and 64 at once on a slow model. Also what "hi" weighs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from bench.figure import Better, Figure
from bench.model import model_process
from bench.stopwatch import Stopwatch, run
from bench.whole import Whole, whole
from hermes.testing.tools import world_tools

_TO = "direct aiohttp call"
_WORDS = "when does the next train to the sea leave, and what does it cost?"
_ROUNDS = 10
_BLOCKS = 5
_SLOW = 2.0
_CROWD = 64
_figure = partial(Figure, bench="path")


def measure(folder: Path, quick: bool) -> list[Figure]:
    with model_process() as url:
        figures = run(partial(_hi, folder / "hi", url))
        figures += run(partial(_alone, folder / "alone", url, 10 if quick else 40))
        figures += run(partial(_tools, folder / "tools", url, 5 if quick else 20))
        for people, turns in ((16, 15), (64, 5)):
            place = folder / f"crowd{people}"
            figures += run(partial(_crowd, place, url, people, turns // 5 if quick else turns))
        return figures + run(partial(_together, folder / "together", url))


async def _hi(home: Path, url: str) -> list[Figure]:
    async with whole(home, url) as it:
        await it.direct.facts()
        await it.ask("hi", "hi")
        facts = await it.direct.facts()
    split = f"system {facts['system']:,} + schemas {facts['schemas']:,}"
    weight = facts["system"] + facts["schemas"]
    return [_figure(name="prompt of “hi”", value=weight, unit="bytes", target=8_192, to=split)]


async def _alone(home: Path, url: str, turns: int) -> list[Figure]:
    """One person at a time: conversations one after the other, in turns with the bare program."""
    count = _BLOCKS * turns
    ours, bare = Stopwatch(), Stopwatch()
    async with whole(home, url) as it:
        await _time(Stopwatch(), lambda n: it.ask("warm", _WORDS), 10)
        await _time(Stopwatch(), lambda n: it.direct.ask(_WORDS), 10)
        for block in range(_BLOCKS):
            await _time(ours, partial(_ask, it, f"c{block}", _WORDS), turns)
            await _time(bare, lambda n: it.direct.ask(_WORDS), turns)
    cpu, wall = ours.cpu / count, ours.wall / count
    return [
        _figure(
            name="plain turn: CPU", value=cpu * 1e3, unit="ms", target=3.5,
            ratio=ours.cpu / bare.cpu, to=_TO,
        ),
        _figure(name="plain turn: wall", value=wall * 1e3, unit="ms", ratio=ours.wall / bare.wall, to=_TO),
        _figure(name="direct call: CPU", value=bare.cpu / count * 1e3, unit="ms"),
        _figure(name="direct call: wall", value=bare.wall / count * 1e3, unit="ms"),
    ]  # fmt: skip


async def _tools(home: Path, url: str, turns: int) -> list[Figure]:
    """What a round adds to a plain turn, without the model call it consists of; the tool does nothing."""
    with_tools, plain, bare = Stopwatch(), Stopwatch(), Stopwatch()
    async with whole(home, url, tools=world_tools(_nothing)) as it:
        await _time(Stopwatch(), lambda n: it.ask(f"w{n}", f"tools {_ROUNDS}"), 2)
        for turn in range(turns):
            await _time(with_tools, partial(_ask, it, f"t{turn}", f"tools {_ROUNDS}"), 1)
            await _time(plain, partial(_ask, it, f"p{turn}", _WORDS), 1)
            await _time(bare, lambda n: it.direct.ask("tools 1"), _ROUNDS)
    rounds = turns * _ROUNDS
    cpu = (with_tools.cpu - plain.cpu - bare.cpu) / rounds
    wall = (with_tools.wall - plain.wall - bare.wall) / rounds
    return [
        _figure(name="tool round beyond model and tool: CPU", value=cpu * 1e3, unit="ms", target=4),
        _figure(name="tool round beyond model and tool: wall", value=wall * 1e3, unit="ms"),
    ]


async def _crowd(home: Path, url: str, people: int, turns: int) -> list[Figure]:
    """Each waits for an answer before the next message; the bare program has as many callers."""
    count = _BLOCKS * people * turns

    async def all_of(watch: Stopwatch, talk: Callable[[int], Awaitable[object]]) -> None:
        async def talk_on(person: int) -> None:
            for _ in range(turns):
                await talk(person)

        await asyncio.gather(*(talk(person) for person in range(people)))
        with watch:
            await asyncio.gather(*(talk_on(person) for person in range(people)))

    ours, bare = Stopwatch(), Stopwatch()
    async with whole(home, url) as it:
        for block in range(_BLOCKS):
            await all_of(ours, partial(_ask_in, it, f"b{block}"))
            await all_of(bare, lambda person: it.direct.ask(_WORDS))
    rate, name = count / ours.wall, f"{people} sessions"
    return [
        _figure(
            name=f"{name}: turns per second", value=rate, unit="/s", better=Better.MORE,
            ratio=bare.wall / ours.wall, to=_TO,
        ),
        _figure(
            name=f"{name}: CPU per turn", value=ours.cpu / count * 1e3, unit="ms", ratio=ours.cpu / bare.cpu,
            to=_TO,
        ),
    ]  # fmt: skip


async def _together(home: Path, url: str) -> list[Figure]:
    async with whole(home, url) as it:
        await it.ask("warm", _WORDS)
        await it.direct.facts()
        with Stopwatch() as watch:
            await asyncio.gather(*(it.ask(f"s{n}", f"slow {_SLOW}") for n in range(_CROWD)))
        most = (await it.direct.facts())["most"]
    name = f"{_CROWD} turns at once, model of {_SLOW:g} s"
    return [
        _figure(name=f"{name}: at it together", value=most, unit="", better=Better.MORE, target=_CROWD),
        _figure(name=f"{name}: all answered after", value=watch.wall, unit="s"),
    ]


async def _time(watch: Stopwatch, ask: Callable[[int], Awaitable[object]], count: int) -> None:
    with watch:
        for n in range(count):
            await ask(n)


async def _ask(it: Whole, chat: str, text: str, n: int) -> None:
    await it.ask(chat, text)


async def _ask_in(it: Whole, block: str, person: int) -> None:
    await it.ask(f"{block}.{person}", _WORDS)


async def _nothing(tool: str, key: str, token: str) -> None:
    return None
