"""`hermes plugins`: which plugins are installed, and whether they can be used."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from hermes import plugins
from hermes.admin.commands.status import ask_gateway
from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.output import Column
from hermes.domain.word import replace
from hermes.state.settings.loader import load_settings

_UNTRIED = "its function is called when a gateway runs"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("list", "List the installed plugins, and why one cannot be used.", _list, JSON)


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
