"""What an agent is given to work with: its toolsets, without secrets in what they tell, and a provider that
tells its model a little more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.agent.tools.registry import (
    ABSENT,
    NO_TOOLSET,
    Workbench,
    default_tools,
    toolsets,
    unknown_toolset,
)
from hermes.domain.errors import HermesError
from hermes.domain.ports.agent import ModelPiece, ModelRequest, Provider
from hermes.domain.settings.settings import Settings
from hermes.domain.tool import Tool, ToolContext, ToolResult
from hermes.state.settings.loader import LoadedSettings

_MCP = "mcp-"
EVERY_TOOLSET = frozenset({"*", "all", "hermes-cli", "hermes-gateway"})
Inject = Callable[[ModelRequest], ModelRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolsets:
    """Which toolsets an agent has: those enabled (all if none is named, nothing for `none`), without those
    disabled."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class InjectingProvider:
    """A provider whose model is told more than the transcript says. What is injected is stored nowhere."""

    def __init__(self, provider: Provider, inject: Inject) -> None:
        self._provider = provider
        self._inject = inject

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        return self._provider.call(self._inject(request))


def choose_tools(bench: Workbench, chosen: Toolsets, added: Sequence[Tool], settings: Settings) -> list[Tool]:
    """The tools of an agent: those Hermes brings along, which know nothing of toolsets that only plugins
    have, and those that plugins `added`."""
    foreign = {tool.toolset for tool in added}
    enabled = [name for name in chosen.enabled if name not in foreign]
    disabled = [name for name in chosen.disabled if name not in foreign]
    only_foreign = chosen.enabled and not enabled
    own = [] if only_foreign else default_tools(bench, enabled=enabled, disabled=disabled)
    allowed = (set(chosen.enabled) or foreign) - set(chosen.disabled)
    return limited_tools([*own, *(tool for tool in added if tool.toolset in allowed)], settings)


def check_toolsets(loaded: LoadedSettings, added: Sequence[Tool]) -> None:
    """A `SettingsError` for a limit that names a toolset which is none: it may be mistyped."""
    known = {*toolsets(), *(tool.toolset for tool in added)}
    settings = loaded.settings
    limits = {"toolsets": settings.toolsets, "agent.disabled_toolsets": settings.agent.disabled_toolsets}
    for key, names in limits.items():
        for name in names:
            if name not in known | ABSENT | EVERY_TOOLSET | {NO_TOOLSET} and not name.startswith(_MCP):
                error = unknown_toolset(name, known)
                raise loaded.wrong(key, f"{key}: {error.message}", error.hint)


def limited_tools(tools: Sequence[Tool], settings: Settings) -> list[Tool]:
    """Those that the settings leave to every agent."""
    enabled, disabled = set(settings.toolsets), set(settings.agent.disabled_toolsets)
    every = not enabled or (bool(enabled & EVERY_TOOLSET) and NO_TOOLSET not in enabled)
    return [
        tool
        for tool in tools
        if (every or tool.toolset in enabled) and not disabled & {tool.toolset, *EVERY_TOOLSET}
    ]


def redacting(tools: Sequence[Tool], redact: Callable[[str], str]) -> list[Tool]:
    """The tools, with no loaded secret in what they tell: neither the model, nor the transcript, nor anybody
    who reads along gets to see one."""
    return [replace(tool, run=_redacted(tool, redact)) for tool in tools]


def _redacted(
    tool: Tool, redact: Callable[[str], str]
) -> Callable[[ToolContext, Mapping[str, object]], Awaitable[ToolResult]]:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        quiet = replace(context, output=lambda text: context.output(redact(text)))
        try:
            result = await tool.run(quiet, arguments)
        except HermesError as error:
            return ToolResult(text=redact(str(error)), failed=True)
        return replace(result, text=redact(result.text))

    return run
