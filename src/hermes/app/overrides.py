"""What a test or an embedding program brings along, instead of what settings and plugins say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from hermes.app.agents.ladder import SandboxProbes
from hermes.app.agents.models import Inject
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.ports.agent import Provider
from hermes.domain.ports.platform import Platform
from hermes.domain.settings.settings import Settings
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import ToolsetLimit


class AppOverrides(Struct, frozen=True, kw_only=True):
    """What a test or an embedding program brings along, instead of what settings and plugins say.

    `workspace` is where the agents' commands start, `toolsets` are the main agent's, `change` has the last
    word on the settings, `inject` on what a model is told, `in_memory` keeps nothing, and only where it
    `boots` do hooks hear of the start and BOOT.md runs. One that does not `stay` ends once no terminal uses
    it. `probes` say which sandboxes work."""

    provider: Provider | None = None
    tools: Sequence[Tool] | None = None
    platforms: Mapping[str, Platform] | None = None
    clock: Clock = field(default_factory=SystemClock)
    workspace: Path | None = None
    toolsets: ToolsetLimit = field(default_factory=ToolsetLimit)
    change: Callable[[Settings], Settings] | None = None
    inject: Inject | None = None
    in_memory: bool = False
    boots: bool = True
    stay: bool = True
    probes: SandboxProbes | None = None

    @property
    def replaces(self) -> bool:
        """Whether something here stands in the place of what settings and plugins say."""
        parts = (self.provider, self.tools, self.platforms, self.change, self.inject, self.probes)
        return any(part is not None for part in parts)
