"""Names of toolsets: which tools a name stands for. A name is that of a tool, of a toolset, or of a group of
them; the groups are data. A name with `-` before it takes away what it stands for; one with `=` before it,
which nobody but the gateway writes, is that of a tool alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import closest, one_line

NO_TOOLSET = "none"
EVERY_TOOLSET = frozenset({"*", "all"})
EXACTLY = "="
MCP = "mcp-"
PRESET = "hermes-"
_TOOLSETS = """terminal file skills memory todo session_search clarify cronjob messaging web browser vision
    image_gen tts delegation project homeassistant spotify discord discord_admin video
    video_gen x_search kanban computer_use yuanbao moa"""
TOOLSETS = frozenset(_TOOLSETS.split())
"""The toolsets of Hermes Agent. Some may not be here: to name one that is not changes nothing."""


class ToolsetGroup(Struct, frozen=True, kw_only=True):
    """What all of these names stand for, without what those do."""

    includes: tuple[str, ...] = ("all",)
    without: tuple[str, ...] = ()
    about: str = ""


_CODING = """file terminal process web browser vision skills memory todo session_search clarify code_execution
    delegation"""
GROUPS = {
    "search": ToolsetGroup(includes=("web_search",), about="search the web, open no page"),
    "safe": ToolsetGroup(includes=("web", "vision", "image_gen"), about="nothing that touches this machine"),
    "debugging": ToolsetGroup(includes=("terminal", "web", "file"), about="commands, files and the web"),
    "coding": ToolsetGroup(includes=tuple(_CODING.split()), about="what work on code needs"),
    "hermes-cli": ToolsetGroup(about="everything, for the terminal"),
    "hermes-gateway": ToolsetGroup(about="everything, for chats"),
    "hermes-acp": ToolsetGroup(without=("clarify",), about="everything but questions"),
    "hermes-api-server": ToolsetGroup(without=("clarify",), about="everything but questions"),
    "hermes-cron": ToolsetGroup(without=("clarify", "cronjob", "messaging"), about="what jobs have anyway"),
    "hermes-webhook": ToolsetGroup(
        includes=("web", "vision", "clarify"), about="for events, whose words are anybody's"
    ),
}
"""The groups that Hermes Agent has too."""


def preset_of(platform: str) -> tuple[str, str]:
    """The name of a platform's preset, and the group that it is: everything, unless there is one for it."""
    name = f"{PRESET}{platform.replace('_', '-')}"
    return name, name if name in GROUPS else "hermes-gateway"


def stands_for(name: str, tool: str, toolset: str) -> bool:
    """Whether a name means this tool of this toolset. A server of tools may go by its bare name, unless a
    toolset is called so."""
    if name.startswith(EXACTLY):
        return name[len(EXACTLY) :] == tool
    if name in EVERY_TOOLSET or name in (tool, toolset):
        return True
    group = GROUPS.get(name)
    if group is None:
        return toolset == f"{MCP}{name}" and name not in TOOLSETS
    inside = any(stands_for(each, tool, toolset) for each in group.includes)
    return inside and not any(stands_for(each, tool, toolset) for each in group.without)


def is_chosen(names: Iterable[str], tool: str, toolset: str) -> bool:
    """Whether a list of names leaves this tool. One that only takes away, or is empty, begins with all."""
    listed = tuple(names)
    if NO_TOOLSET in listed or any(
        stands_for(name[1:], tool, toolset) for name in listed if name.startswith("-")
    ):
        return False
    wanted = [name for name in listed if not name.startswith("-")]
    return not wanted or any(stands_for(name, tool, toolset) for name in wanted)


def check_names(names: Iterable[str], existing: Collection[str]) -> None:
    """A `UserError` for a name that means nothing; `existing` are the toolsets and tools that there are,
    beside those of Hermes Agent."""
    every = {*existing, *GROUPS, *TOOLSETS, *EVERY_TOOLSET, NO_TOOLSET}
    for name in names:
        bare = name.removeprefix("-")
        if bare not in every and not bare.startswith(MCP):
            raise unknown_toolset(bare, {*existing, *GROUPS, NO_TOOLSET})


def unknown_toolset(name: str, toolsets: Collection[str]) -> UserError:
    near = closest(name, toolsets)
    hint = f"Did you mean {near}?" if near else f"Known: {', '.join(sorted(toolsets))}."
    return UserError(f"There is no toolset “{one_line(name, 40)}”.", hint=hint)
