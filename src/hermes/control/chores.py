"""Maintenance: chores that the gateway does by itself now and then. Each is known by name, says when it last
ran and how that ended, and can be run by hand; one that fails is tried again at its next time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from hermes.control.core import AgentUnavailable, GatewayCore
from hermes.control.workers import Supervisor
from hermes.domain.chats.rows import MediaItem
from hermes.domain.clock import Clock
from hermes.domain.ids import EVERY_AGENT, AgentId
from hermes.domain.ports.store import Store

log = logging.getLogger("hermes.upkeep")
HOURLY = 3600.0
DAILY = 24 * HOURLY
_SWEPT = 1000
MEDIA_KEPT = timedelta(days=1)
"""How old a file must be before it can be missing from everything: until then it may be on its way."""


class Chore(Struct, frozen=True, kw_only=True):
    """Something to be done every so many seconds; `run` says in a few words what it did."""

    name: str
    every: float
    run: Callable[[], Awaitable[str]]
    first: float = 0.0
    """Seconds after the start until it is done for the first time."""
    reported: bool = False
    """Whether the operator is told when it fails."""


class ChoreState(Struct, kw_only=True):
    """How a chore is: when it last ended, what it did or what was wrong, and how often it ran since the
    start."""

    name: str
    every: float
    last_at: datetime | None = None
    outcome: str = ""
    ok: bool = True
    runs: int = 0


class Chores:
    def __init__(
        self,
        clock: Clock,
        chores: Sequence[Chore],
        report: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        """`report` tells the operator of the name of a chore and of what was wrong."""
        self._clock = clock
        self._report = report
        self._chores = {chore.name: chore for chore in chores}
        self.states = {chore.name: ChoreState(name=chore.name, every=chore.every) for chore in chores}

    def begin(self, loops: Supervisor) -> list[asyncio.Task[None]]:
        """A task for each, until it is cancelled."""
        return [loops.keep(one.name, partial(self._keep, one)) for one in self._chores.values()]

    async def run(self, name: str) -> ChoreState:
        chore, state = self._chores[name], self.states[name]
        try:
            state.outcome, state.ok = await chore.run(), True
        except Exception as error:  # whatever it was, it is told of, and the other chores go on
            log.warning("upkeep.failed chore=%s why=%s", name, error, exc_info=True)
            state.outcome, state.ok = str(error) or type(error).__name__, False
        state.runs += 1
        state.last_at = self._clock.now()
        if chore.reported and not state.ok and self._report is not None:
            await self._report(name, state.outcome)
        return state

    async def _keep(self, chore: Chore) -> None:
        if chore.first:
            await self._clock.sleep(chore.first)
        while True:
            await self.run(chore.name)
            await self._clock.sleep(chore.every)


def forgetting(store: Store, clock: Clock, age: timedelta) -> Chore:
    """What is settled is forgotten by its age: deliveries and requests that counted once, messages sent."""

    async def forget() -> str:
        now, gone = clock.now(), 0
        while pruned := await store.write(lambda tx: tx.recovery.prune(now - age, now)):
            gone += pruned  # in bites, so that none holds up the writer for long
        return f"{gone} rows forgotten"

    return Chore(name="retention", every=HOURLY, run=forget)


def pruning(core: GatewayCore) -> Chore:
    """Checkpoints that are too old or too many. Agents that nobody needed have made none."""

    async def prune() -> str:
        if not core.live.now.checkpoints.auto_prune:
            return "switched off"
        built = (core.agents.built(agent) for agent in list(core.agents))
        cares = [runtime.checkpoints for runtime in built if runtime is not None and runtime.checkpoints]
        left = [view for care in cares for view in await care.tend("prune")]
        return f"{sum(view.checkpoints for view in left)} checkpoints left"

    return Chore(name="checkpoint clean-up", every=DAILY, run=prune, first=600.0)


def tidying(core: GatewayCore) -> Chore:
    """Files that nothing names any more, those of deleted sessions among them. Agents that nobody needed in
    this life of the gateway and that have no such file are left alone."""

    async def tidy() -> str:
        before, gone = core.clock.now() - MEDIA_KEPT, 0
        everybody = core.store.scoped(EVERY_AGENT)
        unused: dict[AgentId, list[MediaItem]] = {}
        for agent, item in await everybody.read(lambda tx: tx.media.unused(before, _SWEPT)):
            unused.setdefault(agent, []).append(item)
        for agent in list(core.agents):
            if agent in unused or core.agents.built(agent) is not None:
                with contextlib.suppress(AgentUnavailable):  # it keeps its files, and others lose theirs
                    media = (await core.agents.get(agent)).media
                    gone += 0 if media is None else await media.sweep(before, unused.get(agent, ()))
        return f"{gone} files removed"

    return Chore(name="media clean-up", every=DAILY, run=tidy, first=300.0)
