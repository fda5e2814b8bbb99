"""A tool plugin: counts the lines of a file where the agent's commands run, for whoever asks."""

from __future__ import annotations

from hermes.agent.tools.registry import ToolInvocation, ToolRegistry
from hermes.domain.ports.world import Backend
from hermes.domain.settings.settings import PluginOptions
from hermes.domain.tools.tool import Effect

HERMES_API = 1
REGISTRY = ToolRegistry()


@REGISTRY.tool("lines", Effect.READ, needs=(Backend, PluginOptions), parallel=True)
async def count_lines(invocation: ToolInvocation, path: str) -> str:
    """Count the lines of a text file.

    path: relative to the session's folder, or absolute
    """
    data = await invocation.backend.files.read(invocation.session, path)
    lines, person = data.count(b"\n"), invocation.context.source
    # `plugins: {entries: {lines: {unit: rows}}}` in config.yaml
    unit = invocation.services.get(PluginOptions).values.get("unit", "lines")
    return f"{path} has {lines} {unit}, {person.user if person else 'nobody'}."


make = REGISTRY.make
