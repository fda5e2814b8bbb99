"""Turns: how many per second, what one costs, and what it writes; plain ones and ones with two tools.

Time is measured without counters. Units and syncs are counted in lives of their own: syncs by a shim under
SQLite, once for a crowd that shares commits and once for a single person who does not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw

from bench.bare import bare_turns
from bench.figure import Better, Figure
from bench.rig import QuickModel, Rig, Rounds
from bench.stopwatch import Stopwatch, run

_BENCH = "turns"
_INSIDE = ("take", "claim", "record", "absorb")
"""Units from the taking of the inbox row to the ending commit; the others are accept and delivery."""
_ORDER = ("accept", "take", "claim", "record", "draft", "shown", "attempt", "settle", "look")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """One sort of turn on one kind of platform."""

    name: str
    rounds: Rounds
    kind: str
    turns: int
    rate: float | None = None
    most_units: int | None = None


_TWO_ROUNDS: Rounds = (("read",), ("keyed",))
SORTS = (
    Sort(name="plain", rounds=(), kind="plain", turns=20, most_units=3),
    Sort(name="two tools", rounds=_TWO_ROUNDS, kind="plain", turns=20, rate=300, most_units=10),
    Sort(name="plain, drafts", rounds=(), kind="edits", turns=5, most_units=3),
    Sort(name="two tools, drafts", rounds=_TWO_ROUNDS, kind="edits", turns=5, most_units=10),
)
_TOGETHER = Sort(
    name="two tools in one reply", rounds=(("read", "read"),), kind="plain", turns=1, most_units=10
)


def measure(folder: Path, quick: bool) -> list[Figure]:
    sessions = 50 if quick else 200
    figures: list[Figure] = []
    for number, sort in enumerate((*SORTS, _TOGETHER)):
        place = folder / f"sort{number}"
        place.mkdir()
        units = run(partial(_count_units, place, sort))
        if sort.turns > 1:
            turns = max(1, sort.turns // (5 if quick else 1))
            figures += _times(place, sort, sessions, turns, units)
        figures += _units(sort, units)
        if sort.turns > 1:
            figures += run(partial(_count_syncs, place, sort, sessions))
    return figures


def _times(place: Path, sort: Sort, sessions: int, turns: int, units: dict[str, float]) -> Iterator[Figure]:
    ours = run(partial(_time, place, sort, sessions, turns))
    commits = round(sum(units.values()))
    with Stopwatch() as bare:
        work = partial(
            bare_turns,
            place / "bare.db",
            sessions=sessions,
            turns=turns,
            commits=commits,
            calls=len(sort.rounds) + 1,
        )
        run(work)
    count = sessions * turns
    to = f"bare, {commits} commits"
    rate, cpu = count / ours.wall, ours.cpu / count * 1e3
    yield Figure(
        bench=_BENCH, name=f"{sort.name}: turns per second", value=rate, unit="/s",
        better=Better.MORE, target=sort.rate, ratio=rate / (count / bare.wall), to=to,
    )  # fmt: skip
    yield Figure(
        bench=_BENCH, name=f"{sort.name}: CPU per turn", value=cpu, unit="ms",
        ratio=ours.cpu / bare.cpu, to=to,
    )  # fmt: skip


async def _time(place: Path, sort: Sort, sessions: int, turns: int) -> Stopwatch:
    folder = _folder(place, "time")
    async with Rig(folder=folder, kind=sort.kind, provider=QuickModel(sort.rounds)) as rig:
        await asyncio.gather(*(rig.talk(str(n), 1, begin="w") for n in range(sessions)))
        with Stopwatch() as watch:
            await asyncio.gather(*(rig.talk(str(n), turns) for n in range(sessions)))
        return watch


# --- what a turn writes ---


async def _count_units(place: Path, sort: Sort) -> dict[str, float]:
    sessions, turns = 20, 5
    folder = _folder(place, "units")
    async with Rig(folder=folder, kind=sort.kind, provider=QuickModel(sort.rounds), count=True) as rig:
        before = Counter(rig.units)
        await asyncio.gather(*(rig.talk(str(n), turns) for n in range(sessions)))
        await rig.rest()
        units = rig.units - before
    for name in ("boot", "close", "_prune", "<lambda>"):
        units.pop(name, None)
    return {name: units[name] / (sessions * turns) for name in _sorted(units)}


def _units(sort: Sort, units: dict[str, float]) -> Iterator[Figure]:
    inside = sum(units.get(name, 0.0) for name in _INSIDE)
    yield Figure(
        bench=_BENCH, name=f"{sort.name}: units, taking to ending", value=inside, unit="",
        target=sort.most_units,
    )  # fmt: skip
    split = " ".join(f"{name} {count:.3g}" for name, count in units.items())
    yield Figure(bench=_BENCH, name=f"{sort.name}: units, all", value=sum(units.values()), unit="", to=split)


def _sorted(units: Counter[str]) -> list[str]:
    known = [name for name in _ORDER if name in units]
    return known + sorted(units.keys() - set(_ORDER))


async def _count_syncs(place: Path, sort: Sort, sessions: int) -> list[Figure]:
    shim = SyncShim()
    figures: list[Figure] = []
    for who, people, turns in (("a crowd", sessions, 3), ("one person", 1, 20)):
        folder = _folder(place, f"syncs{people}")
        provider = QuickModel(sort.rounds)
        async with Rig(folder=folder, kind=sort.kind, provider=provider, vfs=shim.name) as rig:
            await asyncio.gather(*(rig.talk(str(n), 1, begin="w") for n in range(people)))
            before = shim.syncs
            await asyncio.gather(*(rig.talk(str(n), turns) for n in range(people)))
            per_turn = (shim.syncs - before) / (people * turns)
        name = f"{sort.name}: syncs, {who}"
        figures.append(Figure(bench=_BENCH, name=name, value=per_turn, unit=""))
    shim.unregister()
    return figures


class SyncShim(apsw.VFS):
    """The default file system, with a count of how often SQLite asks for a sync."""

    def __init__(self) -> None:
        self.name = "bench-syncs"
        self.syncs = 0
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _SyncFile:  # noqa: N802
        return _SyncFile(self, name, flags)


class _SyncFile(apsw.VFSFile):
    def __init__(self, shim: SyncShim, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._shim = shim
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._shim.syncs += 1
        super().xSync(flags)


def _folder(place: Path, name: str) -> Path:
    folder = place / name
    folder.mkdir()
    return folder
