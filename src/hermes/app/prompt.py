"""The system prompt of an agent, made from its files and settings. New sessions ask for it; it is read anew
when it is older than a moment, so a crowd of new sessions reads it once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from hermes.agent.context.prompt import build_prompt, local_environment
from hermes.domain.clock import Clock, zone_named
from hermes.domain.settings.settings import Profile
from hermes.state.memory.files import MemoryFiles

log = logging.getLogger("hermes.app")
_GOOD_FOR = 1.0


@dataclass(slots=True, kw_only=True)
class SystemPrompt:
    profile: Profile
    tools: Sequence[str]
    workspace: Path
    model: str
    clock: Clock
    _text: str = field(init=False, default="")
    _until: float = field(init=False, default=float("-inf"))
    _environment: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._environment = local_environment(self.workspace)

    async def current(self) -> str:
        """The prompt as it is now, give or take a second."""
        if self.clock.monotonic() >= self._until:
            self._text = await asyncio.to_thread(self.build)
            self._until = self.clock.monotonic() + _GOOD_FOR
        return self._text

    def build(self) -> str:
        """Reads files: call it off the loop."""
        files, settings = MemoryFiles(self.profile.home), self.profile.settings
        return build_prompt(
            today=_today(self.clock, settings.timezone),
            identity=_read(files, "SOUL.md"),
            tools=list(self.tools),
            environment=self._environment,
            instructions=settings.agent.system_prompt,
            memory={
                "What you have noted": _read(files, "MEMORY.md"),
                "About the user": _read(files, "USER.md"),
            },
            model=self.model,
        )


def _today(clock: Clock, timezone: str) -> date:
    return clock.now().astimezone(zone_named(timezone)).date()


def _read(files: MemoryFiles, name: str) -> str:
    try:
        return files.read(name)
    except OSError as error:
        log.warning("memory.unreadable file=%s why=%s", name, error.strerror)
        return ""
