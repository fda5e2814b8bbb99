"""The tools of the agent: each module registers its own when it is imported.

The order of the imports is the order of the tools in every request to a model, and on the reference page."""

# isort: off
from hermes.agent.tools import files, history, jobs, messaging, patch
from hermes.agent.tools import clarify_todo, terminal
# isort: on

from hermes.agent.tools.reference import tools_page
from hermes.agent.tools.registry import (
    ABSENT,
    NO_TOOLSET,
    TOOLS,
    ToolInvocation,
    Workbench,
    default_tools,
    tool,
    toolsets,
    unknown_toolset,
)

__all__ = [
    "ABSENT",
    "NO_TOOLSET",
    "TOOLS",
    "ToolInvocation",
    "Workbench",
    "clarify_todo",
    "default_tools",
    "files",
    "history",
    "jobs",
    "messaging",
    "patch",
    "terminal",
    "tool",
    "tools_page",
    "toolsets",
    "unknown_toolset",
]
