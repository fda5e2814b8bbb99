"""The agents that a gateway hosts: which there are, and the runtime of each.

A runtime is built when its agent is first needed, once even if many ask at the same time. It is let go when
nobody has needed it for a while and it has nothing going on. An agent that cannot be built stays one of them:
whoever asks for it is refused with the reason, and it is tried again after a pause, or when somebody applies
the settings. A new generation of settings brings other ids and another way to build: whoever holds a runtime
of the old one keeps it, and the next who asks gets another."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

from hermes.control.core import AgentUnavailable, Runtime, no_such_agent
from hermes.domain.errors import HermesError, as_user_error
from hermes.domain.ids import MAIN_AGENT, AgentId

log = logging.getLogger("hermes.agents")
BuildRuntime = Callable[[AgentId], Awaitable[Runtime]]
"""Makes the runtime of an agent, off the loop where it takes time; a `UserError` says why it cannot."""
IDLE_SECONDS = 1800.0
"""How long a runtime is kept that nobody needs."""
RETRY_SECONDS = 30.0
"""How long an agent that could not be built is not tried again: building may take long, and many may ask."""


class AgentRegistry:
    """A collection of agent ids, in the order of the settings, that has the runtime of each. `release` frees
    what an idle runtime holds; it says False, and nothing is done, if the runtime has something going on."""

    def __init__(
        self,
        ids: Iterable[AgentId],
        build: BuildRuntime,
        release: Callable[[AgentId], Awaitable[bool]] | None = None,
    ) -> None:
        self._ids = dict.fromkeys(ids)
        self._build = build
        self._release = release
        self._built: dict[AgentId, Runtime] = {}
        self._building: dict[AgentId, asyncio.Task[Runtime]] = {}
        self._used: dict[AgentId, float] = {}
        self.broken: dict[AgentId, str] = {}
        """Those that could not be built, and why."""
        self._failed_at: dict[AgentId, float] = {}

    def __contains__(self, agent: object) -> bool:
        return agent in self._ids

    def __iter__(self) -> Iterator[AgentId]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def built(self, agent: AgentId) -> Runtime | None:
        return self._built.get(agent)

    async def get(self, agent: AgentId) -> Runtime:
        runtime = self._built.get(agent)
        if runtime is not None:
            self._used[agent] = time.monotonic()
            return runtime
        if agent not in self._ids:
            raise no_such_agent(agent, self)
        if agent in self.broken and time.monotonic() - self._failed_at[agent] < RETRY_SECONDS:
            raise AgentUnavailable(agent, self.broken[agent])
        building = self._building.get(agent)
        if building is None:
            building = asyncio.create_task(self._make(agent, self._build), name=f"build agent {agent}")
            self._building[agent] = building
        return await asyncio.shield(building)

    async def _make(self, agent: AgentId, build: BuildRuntime) -> Runtime:
        try:
            runtime = await build(agent)
        except Exception as error:  # plugins have a part in an agent, and may raise anything
            why, foreign = as_user_error(error), not isinstance(error, HermesError | OSError)
            log.error("agent.left_out agent=%s why=%s", agent, why, exc_info=foreign)
            if agent == MAIN_AGENT:  # without it there is no gateway: its start fails with the error itself
                raise why from error
            if build is self._build:
                self.broken[agent], self._failed_at[agent] = str(why), time.monotonic()
            raise AgentUnavailable(agent, str(why)) from error
        finally:
            if self._building.get(agent) is asyncio.current_task():
                del self._building[agent]
        if build is self._build:
            self._built[agent], self._used[agent] = runtime, time.monotonic()
            if self.broken.pop(agent, None) is not None:
                log.info("agent.mended agent=%s", agent)
        return runtime

    def renew(
        self,
        ids: Iterable[AgentId],
        build: BuildRuntime,
        release: Callable[[AgentId], Awaitable[bool]],
        main: Runtime,
    ) -> None:
        """Another generation of settings: its agents, and the main one of them, which is built already."""
        self._ids, self._build, self._release = dict.fromkeys(ids), build, release
        self._built, self._building, self.broken = {MAIN_AGENT: main}, {}, {}

    def retry(self) -> None:
        """What kept agents from being built may be put right: each is tried again on its next use."""
        self.broken = {}

    async def let_go(self, busy: Collection[AgentId], idle_seconds: float = IDLE_SECONDS) -> int:
        """Let go of the runtimes that nobody has needed for so long, except the main one and those that are
        `busy`; how many these were."""
        gone, now, build = 0, time.monotonic(), self._build
        for agent in [agent for agent in self._built if agent != MAIN_AGENT and agent not in busy]:
            if build is not self._build:
                break  # the others belonged to settings that have changed meanwhile
            if now - self._used.get(agent, now) < idle_seconds or self._release is None:
                continue
            runtime = self._built.pop(agent)
            if await self._release(agent):
                gone += 1
            elif build is self._build:
                self._built.setdefault(agent, runtime)
        return gone
