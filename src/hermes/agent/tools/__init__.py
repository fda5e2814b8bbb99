"""The tools of the agent: each module registers its own when it is imported."""

from hermes.agent.tools import files, history, jobs, messaging, patch, talk, terminal
from hermes.agent.tools.reference import tools_page
from hermes.agent.tools.registry import NO_TOOLSET, TOOLS, Desk, Workbench, default_tools, tool, toolsets

__all__ = [
    "NO_TOOLSET",
    "TOOLS",
    "Desk",
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
]
