"""`hermes tools`: which toolsets agents have, for everybody, for one agent or on one platform. It writes the
settings; a gateway that runs adopts them at once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from hermes import plugins
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column
from hermes.admin.shell.picker import PickOption, pick_many
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind, read_platform
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.text import list_some, one_line
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolsets import GROUPS, NO_TOOLSET, check_names, is_chosen, preset_of, stands_for
from hermes.entry.desk import apply_settings
from hermes.state.home.homes import agent_home, prepare_home
from hermes.state.settings.by_key import find_key, set_setting
from hermes.state.settings.loader import load_settings
from hermes.state.settings.names import PlatformNames

_WHERE = {
    "--platform NAME": "only on this platform or account, or cli, cron, api_server, webhook",
    "--agent ID": "only this agent",
}
_COLUMNS = [Column("name", "TOOLSET"), Column("state", "STATE"), Column("tools", "TOOLS", ", ".join)]
_Tools = dict[str, list[str]]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=choose)
    parser.description = "Choose the toolsets of agents. Without a command it asks, if there is a terminal."
    declare(parser, _WHERE | JSON)
    add = Subcommands(parser, required=False).add
    add(
        "list",
        "List the toolsets and their groups, and which are used.",
        _list,
        _WHERE | JSON,
    )
    for name, summary, act in (
        ("enable", "Use toolsets again.", _enable),
        ("disable", "Do without toolsets.", _disable),
    ):
        changed = add(name, summary, act, _WHERE)
        declare(changed, {"names": "toolsets, groups of them, or single tools"}, nargs="+")


def _list(command: CliCommand) -> None:
    settings, tools = _settings(command), _known(command)
    _check_place(command, settings)
    rows: list[dict[str, Any]] = [
        {"name": toolset, "state": _state(command, settings, toolset, names), "tools": names}
        for toolset, names in tools.items()
    ]
    rows += [{"name": name, "state": "group", "tools": [group.about]} for name, group in GROUPS.items()]
    command.list(rows, _COLUMNS, whole=2, wrap=lambda rows: {"toolsets": rows})


def _state(command: CliCommand, settings: Settings, toolset: str, names: Sequence[str]) -> str:
    left = [name for name in names if all(_limits(command, settings, name, toolset))]
    return "on" if len(left) == len(names) else f"without {', '.join({*names} - {*left})}" if left else "off"


def _limits(command: CliCommand, settings: Settings, name: str, toolset: str) -> Iterator[bool]:
    """Whether each of the limits leaves a tool."""
    from hermes.app.agents.tools import TurnLimits

    platform, account = read_platform(command.asked.platform or LOCAL_DOOR)
    platform = {"cli": LOCAL_DOOR}.get(platform, platform)
    address = Address(platform=platform, account=account, chat="-")
    source = Source(address=address, kind=SourceKind.PRIVATE) if command.asked.platform else None
    agent = AgentId(command.asked.agent or MAIN_AGENT)
    for limit in TurnLimits(settings=lambda: settings, agent=agent)(None, source):
        yield is_chosen(limit.enabled, name, toolset) and not any(
            stands_for(each, name, toolset) for each in limit.disabled
        )


def choose(command: CliCommand) -> None:
    """Which toolsets are on, switched at the terminal; without one they are listed."""
    settings, tools = _settings(command), _known(command)
    if not command.console.interactive or command.asked.json:
        return _list(command)
    _check_place(command, settings)
    options = [
        PickOption(key=name, detail=list_some(some, 6), on=_state(command, settings, name, some) != "off")
        for name, some in tools.items()
    ]
    before = {option.key for option in options if option.on}
    after = pick_many(command.console, "Which toolsets?", options)
    for names, enabled in ((after - before, True), (before - after, False)):
        if names:
            command.asked.names = sorted(names)
            _change(command, enabled=enabled)
    if after == before:
        command.console.line("Nothing was changed.")


# --- changing ----------------------------------------------------------------------------------------


def _enable(command: CliCommand) -> None:
    _change(command, enabled=True)


def _disable(command: CliCommand) -> None:
    _change(command, enabled=False)


def _change(command: CliCommand, *, enabled: bool) -> None:
    settings, tools, names = _settings(command), _known(command), command.asked.names
    _check_place(command, settings)
    if command.asked.platform and command.asked.agent:
        raise UserError("A limit is for a platform or for an agent, not for both.", hint="Leave one out.")
    check_names(names, {*tools, *(each for some in tools.values() for each in some)})
    pairs = [(each, toolset) for toolset, some in tools.items() for each in some]
    if command.asked.platform:
        preset, group = preset_of(command.asked.platform.partition("@")[0])
        key, chosen = f"platform_toolsets.{command.asked.platform}", _allowed(command, settings) or (preset,)
        named = tuple(group if name == preset else name for name in chosen)
        listed = _with(named, names, pairs) if enabled else _without(named, names, pairs)
        listed = [preset if name == group else name for name in listed]
    else:
        key, off = _denied(command, settings)
        listed = [name for name in off if name not in names] + ([] if enabled else names)
        _check_on(names if enabled else [], listed, pairs)
    home = prepare_home(command.home)
    written = set_setting(home, key, f"[{', '.join(listed)}]", _platforms())
    if enabled and not command.asked.platform and settings.toolsets:
        wider = _with(settings.toolsets, names, pairs)
        if wider != list(settings.toolsets):
            set_setting(home, "toolsets", f"[{', '.join(wider)}]", _platforms())
    state = "enabled" if enabled else "disabled"
    command.console.line(f"{', '.join(names)}: {state} ({written.name} in {written.file}).")
    gateway = open_home(command)
    if gateway.running:
        gateway.ask(apply_settings)
    now = _settings(command)
    meant = [pair for name in names for pair in _meant(name, pairs)]
    if enabled and not all(all(_limits(command, now, *pair)) for pair in meant):
        command.console.note("Another limit of the settings still leaves some of it out: hermes config show")


def _allowed(command: CliCommand, settings: Settings) -> tuple[str, ...]:
    there = settings.platform_toolsets.get(command.asked.platform)
    return () if there is None else there.toolsets


def _denied(command: CliCommand, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """The list of what all agents, or one, do without."""
    agent = command.asked.agent
    if not agent or agent == MAIN_AGENT:
        return "agent.disabled_toolsets", settings.agent.disabled_toolsets
    return f"agents.{agent}.disabled_toolsets", settings.agents[agent].disabled_toolsets


def _check_place(command: CliCommand, settings: Settings) -> None:
    """A `UserError` for a platform or an agent that there is not."""
    agent, platform = command.asked.agent, command.asked.platform
    if platform:
        find_key(f"platform_toolsets.{platform}", platforms=_platforms())
    if agent and agent not in (MAIN_AGENT, *settings.agents):
        known = ", ".join([MAIN_AGENT, *settings.agents])
        raise UserError(f"There is no agent “{one_line(agent, 60)}”.", hint=f"Known: {known}.")


_Pairs = Sequence[tuple[str, str]]


def _meant(name: str, pairs: _Pairs) -> _Pairs:
    """The tools, with their toolsets, that a name stands for; one that is not here stands for itself."""
    return [pair for pair in pairs if stands_for(name, *pair)] or [(name, name)]


def _with(chosen: Sequence[str], names: Sequence[str], pairs: _Pairs) -> list[str]:
    listed = [each for each in chosen if each != NO_TOOLSET and each.removeprefix("-") not in names]
    listed = listed or [NO_TOOLSET]
    for name in names:
        if not all(is_chosen(listed, *pair) for pair in _meant(name, pairs)):
            listed = [*(each for each in listed if each != NO_TOOLSET), name]
    _check_on(names, [each[1:] for each in listed if each.startswith("-")], pairs)
    return listed


def _without(chosen: Sequence[str], names: Sequence[str], pairs: _Pairs) -> list[str]:
    listed = [each for each in chosen if each not in names] or [NO_TOOLSET]
    for name in names:
        if any(is_chosen(listed, *pair) for pair in _meant(name, pairs)):
            listed.append(f"-{name}")
    return listed


def _check_on(names: Sequence[str], off: Sequence[str], pairs: _Pairs) -> None:
    """A `UserError` if something would stay off all the same, through another name."""
    for name in names:
        for pair in _meant(name, pairs):
            cause = next((each for each in off if stands_for(each, *pair)), "")
            if cause:
                raise UserError(f"{name} is off because {cause} is.", hint=f"hermes tools enable {cause}")


# --- the home ----------------------------------------------------------------------------------------


def _settings(command: CliCommand) -> Settings:
    names = [manifest.name for manifest in plugins.platform_manifests()]
    return load_settings(command.home, command.environ, platforms=names).settings


def _platforms() -> PlatformNames:
    return PlatformNames.of(plugins.platform_manifests())


def _known(command: CliCommand) -> _Tools:
    """The toolsets that are here, with their tools; a plugin that makes its tools later goes by its name."""
    from hermes.agent.tools.registry import toolsets

    settings = _settings(command)
    offered = plugins.tools(settings.plugins)  # loads our own too
    known, agent = toolsets(), AgentId(command.asked.agent or MAIN_AGENT)
    servers: Sequence[Tool] = ()
    if settings.mcp_servers:
        from hermes.app.agents.mcp import known_tools

        home = agent_home(command.home, agent, settings)
        servers = known_tools(Profile(agent=agent, home=home, settings=settings))
    for tool in (*offered.plain, *servers):
        known.setdefault(tool.toolset, []).append(tool.name)
    return known | {name: [name] for name in offered.toolsets if name not in known}
