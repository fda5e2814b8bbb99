"""`hermes plugins`: which plugins are installed, and whether they can be used."""

from __future__ import annotations

import argparse

from hermes import plugins
from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.output import Column
from hermes.state.settings.loader import load_settings


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
    foreign = [plugin for plugin in installed if plugin.package != plugins.OURS]
    command.list(foreign, columns, none="No plugins are installed.")


def _state(plugin: plugins.InstalledPlugin) -> str:
    if plugin.disabled:
        return "disabled"
    return "left out" if plugin.why else "ok"
