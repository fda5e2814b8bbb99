"""The tools of the agent: each module registers its own when it is imported."""

from hermes.agent.tools import clarify_todo as talk
from hermes.agent.tools import files, history, jobs, messaging, patch, terminal
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
    "default_tools",
    "files",
    "history",
    "jobs",
    "messaging",
    "patch",
    "talk",
    "terminal",
    "tool",
    "tools_page",
    "toolsets",
    "unknown_toolset",
]
