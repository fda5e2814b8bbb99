"""A whole gateway behind its HTTP door, cut off at the n-th write and gone on with by the next one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes.app.app import App
from hermes.control.gateway import Gateway
from hermes.domain.ports.store import Store
from hermes.domain.word import replace
from hermes.testing import api as api_world
from hermes.testing.api import ApiWorld
from hermes.testing.crash import StoppingStore
from tests.journeys.cut import MOST_WRITES, SAMPLED, stops

Life = Callable[[ApiWorld], Awaitable[None]]


class CutApp(App):
    """The gateway, with a store that stops for good after so many writes."""

    writes = 0
    after = True
    cut: StoppingStore | None = None

    async def _run(self, store: Store, *rest: Any) -> None:
        if self.writes:
            CutApp.cut = store = StoppingStore(store, sys.maxsize, after=self.after)
        await super()._run(store, *rest)

    async def _drain(self, gateway: Gateway, hosts: list[asyncio.Task[None]], *, broken: bool) -> None:
        if CutApp.cut is None or not CutApp.cut.stopped.is_set():
            await super()._drain(gateway, hosts, broken=broken)


async def cut_everywhere(
    folder: Path, make: Callable[[Path], ApiWorld], live: Life, *, after: bool, full: bool
) -> None:
    """As for journeys: the story once for each of its writes once the gateway runs, stopped there, and told
    to its end by a second gateway on the same home."""
    api_world.App = CutApp  # type: ignore[misc]
    try:
        for number in stops(full, MOST_WRITES, folder.name)[:: 1 if full else 4]:
            place = folder / f"write-{number}-{'after' if after else 'before'}"
            place.mkdir()
            api = make(place)
            CutApp.writes, CutApp.after = number, after
            crashed = await _first_life(api, live)
            CutApp.writes = 0
            if not crashed:
                assert number > SAMPLED, "the gateway was never cut off"
                return
            try:
                async with replace(api) as again, asyncio.timeout(60):
                    await live(again)
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"{place.name}: {error!r}") from error
    finally:
        api_world.App = App  # type: ignore[misc]
        CutApp.writes, CutApp.cut = 0, None
    raise AssertionError("the story never came to its end")


async def _first_life(api: ApiWorld, live: Life) -> bool:
    before: set[asyncio.Task[Any]] = set(asyncio.all_tasks())
    cancelled: set[asyncio.Task[Any]] = set()
    CutApp.cut = None

    async def whole() -> None:
        async with api:
            assert CutApp.cut is not None
            CutApp.cut.allow(CutApp.writes)
            await live(api)

    living = asyncio.create_task(whole())
    while not living.done() and not (CutApp.cut is not None and CutApp.cut.stopped.is_set()):
        await asyncio.wait((living,), timeout=0.01)
    if living.done():
        living.result()
        return False
    CutApp.cut.kill()
    before |= {task for task in (asyncio.current_task(),) if task is not None}
    async with asyncio.timeout(60):
        while tasks := asyncio.all_tasks() - before:
            for task in tasks - cancelled:
                task.cancel()
            cancelled |= tasks
            await asyncio.wait(tasks, timeout=0.05)
    return True
