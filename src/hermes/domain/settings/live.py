"""The settings in force. Whoever needs a setting asks here when it needs it, so that a new generation counts
from the next step on; nobody keeps a copy, except a turn, whose agent is the one that was built with the
settings of its claim."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from hermes.domain.ids import AgentId
from hermes.domain.settings.settings import Settings


class LiveSettings:
    """`generation` counts from 1; each adopted change is the next one."""

    def __init__(self, settings: Settings) -> None:
        self.now = settings
        self.generation = 1
        self._own: dict[AgentId, tuple[Settings, Settings]] = {}

    def of(self, agent: AgentId) -> Settings:
        """Those of now as they count for one agent."""
        now = self.now
        if agent not in now.agents:
            return now
        made = self._own.get(agent)
        if made is None or made[0] is not now:
            made = self._own[agent] = now, now.of(agent)
        return made[1]

    def adopt(self, settings: Settings) -> int:
        """Put settings that were checked as a whole in force; their generation."""
        self.now, self._own = settings, {}
        self.generation += 1
        return self.generation


class SettingsReport(Struct, frozen=True, kw_only=True):
    """What became of a change: the keys that `changed`, those among them that count only after a restart, and
    the `boundaries` that hold somebody's commands from now on, as status tells of them. Generation 0 says
    that no gateway runs, so that the settings were only checked."""

    generation: int
    changed: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    boundaries: tuple[dict[str, Any], ...] = ()
