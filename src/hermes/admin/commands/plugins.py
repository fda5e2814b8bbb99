"""`hermes plugins`: which plugins are installed, and whether they can be used."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from hermes import plugins
from hermes.admin.commands.status import ask_gateway
from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.output import Column
from hermes.domain.errors import UserError
from hermes.domain.text import closest, one_line
from hermes.domain.word import replace
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import set_setting
from hermes.state.settings.loader import load_settings

_UNTRIED = "its function is called when a gateway runs"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("list", "List the installed plugins, and why one cannot be used.", _list, JSON)
    name = {"name": "its package, or one entry of it, like tools:weather"}
    add("enable", "Use a plugin again, after a restart of the gateway.", partial(_switch, off=False), name)
    add("disable", "Do without a plugin, after a restart of the gateway.", partial(_switch, off=True), name)


def _list(command: CliCommand) -> None:
    columns = [
        Column("group", "GROUP", lambda group: group.removeprefix("hermes.")),
        Column("name", "PLUGIN"),
        Column("package", "PACKAGE"),
        Column("version", "VERSION"),
        Column("state", "STATE", value=_state),
        Column("why", "WHY"),
    ]
    manifests = plugins.platform_manifests()
    loaded = load_settings(command.home, command.environ, platforms=[one.name for one in manifests])
    installed = plugins.survey(loaded.settings.plugins)
    live = ask_gateway(command.home, command.environ)
    broken = None if live is None else live["facts"].get("plugins_broken", {})
    foreign = [_as_used(plugin, broken) for plugin in installed if plugin.package != plugins.OURS]
    command.list(foreign, columns, none="No plugins are installed.")


def _switch(command: CliCommand, *, off: bool) -> None:
    name, settings = command.asked.name, load_settings(command.home, command.environ).settings.plugins
    installed = [one for one in plugins.survey(settings) if one.package != plugins.OURS]
    known = {
        word for one in installed for word in (one.package, f"{one.group.removeprefix('hermes.')}:{one.name}")
    }
    if name not in {*known, *settings.disabled}:
        near = closest(name, known)
        hint = f"Did you mean {near}?" if near else "`hermes plugins list` shows them."
        raise UserError(f"There is no plugin “{one_line(name, 60)}”.", hint=hint)
    listed = [each for each in settings.disabled if each != name] + [name] * off
    home = prepare_home(command.home)
    set_setting(home, "plugins.disabled", f"[{', '.join(listed)}]")
    if settings.enabled and not off and name not in settings.enabled:
        set_setting(home, "plugins.enabled", f"[{', '.join((*settings.enabled, name))}]")
    command.console.line(f"{name} is {'disabled' if off else 'enabled'}.")
    command.console.note("A running gateway does so after: hermes gateway restart")


def _as_used(plugin: plugins.InstalledPlugin, broken: Mapping[str, str] | None) -> plugins.InstalledPlugin:
    """What the gateway that runs says of a plugin's function; without one nobody has called it."""
    if plugin.disabled or plugin.why or plugin.group not in plugins.PARTS or not callable(plugin.value):
        return plugin
    if broken is None:
        return replace(plugin, why=_UNTRIED)
    return replace(plugin, why=broken.get(f"{plugin.group.removeprefix('hermes.')}:{plugin.name}", ""))


def _state(plugin: plugins.InstalledPlugin) -> str:
    if plugin.disabled:
        return "disabled"
    if plugin.why == _UNTRIED:
        return "loads"
    return "left out" if plugin.why else "ok"
