"""Feed: what a streamed word costs on its way from the model through run, actor and feed to one watcher, and
in a chat where a draft grows by edits at its usual pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from bench.figure import Figure
from bench.rig import LAST_WORDS, Rig, bench_settings, look_back
from bench.stopwatch import Stopwatch, run
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.turns.event import Snapshot, TextDelta
from hermes.domain.turns.turn import TurnInput

_WORD = "word "
_CHAT_WORDS = 200
_WORD_SECONDS = 0.01
_SOURCE = Source(address=Address(platform="api", chat="bench"), kind=SourceKind.API, user="bench")


class Talker:
    """Says the same word again and again; after each `burst` of them others may run."""

    def __init__(self, words: int, burst: int) -> None:
        self._words = words
        self._burst = burst

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        for n in range(1, self._words + 1):
            yield TextDelta(text=_WORD)
            if n % self._burst == 0:
                await asyncio.sleep(0)
        yield ModelEnd(model="talker")


def measure(folder: Path, quick: bool) -> list[Figure]:
    words = 10_000 if quick else 50_000
    figures = run(partial(_in_chats, folder, 10 if quick else 40))
    for burst, name in ((1, "one by one"), (20, "in bursts of 20")):
        place = folder / f"burst{burst}"
        place.mkdir()
        ours, events = run(partial(_ours, place, Talker(words, burst), words))
        bare = run(partial(_bare, Talker(words, burst)))
        figure = partial(Figure, bench="feed")
        figures += [
            figure(
                name=f"{name}: CPU per word",
                value=ours.cpu / words * 1e6,
                unit="µs",
                ratio=ours.cpu / bare.cpu,
                to="bare generator",
            ),
            figure(name=f"{name}: events seen per word", value=events / words, unit=""),
        ]
    return figures


class SlowTalker:
    """Speaks at the speed of a fast model."""

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        token, _ = look_back(request.entries)
        yield TextDelta(text=f"{token} ")
        for _ in range(_CHAT_WORDS):
            await asyncio.sleep(_WORD_SECONDS)
            yield TextDelta(text="another ")
        yield TextDelta(text=LAST_WORDS)
        yield ModelEnd(model="talker")


async def _in_chats(folder: Path, chats: int) -> list[Figure]:
    async with Rig(folder=folder, kind="edits", provider=SlowTalker(), count=True) as rig:
        with Stopwatch() as watch:
            await asyncio.gather(*(rig.talk(str(n), 1) for n in range(chats)))
        await rig.rest()
    figure = partial(Figure, bench="feed")
    units = rig.units.total() / chats
    split = " ".join(f"{name} {count / chats:.3g}" for name, count in sorted(rig.units.items()))
    return [
        figure(name="draft in a chat: CPU per word", value=watch.cpu / chats / _CHAT_WORDS * 1e6, unit="µs"),
        figure(name=f"draft in a chat: units, {_CHAT_WORDS} words", value=units, unit="", to=split),
    ]


async def _ours(folder: Path, talker: Talker, words: int) -> tuple[Stopwatch, int]:
    async with Rig(folder=folder, provider=talker, settings=bench_settings(cache_mb=0)) as rig:
        await _watch(rig, words)
        with Stopwatch() as watch:
            events = await _watch(rig, words)
        return watch, events


async def _watch(rig: Rig, words: int) -> int:
    """One turn, watched to its end; how many live events it came in."""
    submission = Submission(agent=MAIN_AGENT, source=_SOURCE, input=TurnInput(text="talk"))
    turn = await rig.gateway.submit(submission)
    heard = events = 0
    async for seen in rig.gateway.watch(MAIN_AGENT, turn.id):
        if isinstance(seen, TextDelta | Snapshot):
            heard += len(seen.text)
            events += 1
    if heard != words * len(_WORD):
        raise RuntimeError(f"the watcher heard {heard} characters of {words * len(_WORD)}")
    return events


async def _bare(talker: Talker) -> Stopwatch:
    request = ModelRequest(model="", system="", entries=(), tools=())
    with Stopwatch() as watch:
        async for _ in talker.call(request):
            pass
    return watch
