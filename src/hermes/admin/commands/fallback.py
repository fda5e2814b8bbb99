"""`hermes fallback`: the models that answer when the agent's own cannot, in their order."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from typing import Any

from hermes.admin.commands.model import make_search
from hermes.admin.shell.changing import DRY_RUN, apply_change
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare, number_to
from hermes.admin.shell.output import Column, dash
from hermes.domain.errors import UserError
from hermes.domain.models.providers import split_model
from hermes.state.home.homes import prepare_home
from hermes.state.settings.loader import load_settings
from hermes.state.settings.whole_changes import plan_change, section_of

_TABLE = "fallback_providers"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "The models that answer when the agent's own cannot, tried in their order."
    add = Subcommands(parser).add
    add("list", "List them.", _list, JSON)
    model = {"model": "the model as provider:model, like openrouter:qwen/qwen3-32b"}
    add("add", "Add one at the end.", _add, model | DRY_RUN)
    removed = add("remove", "Remove one.", _remove, DRY_RUN)
    declare(removed, {"number": "its number in the list"}, type=number_to(1000))
    add("clear", "Remove all of them.", _clear, DRY_RUN)


def _list(command: CliCommand) -> None:
    entries = load_settings(command.home, command.environ).settings.fallback_providers
    columns = [
        Column("number", "NUMBER", value=lambda row: row[0]),
        Column("provider", "PROVIDER", dash, lambda row: row[1].provider),
        Column("model", "MODEL", value=lambda row: row[1].model),
        Column("base_url", "ADDRESS", dash, lambda row: row[1].base_url),
    ]
    none = command.console.spell("There are none. Add one: hermes fallback add PROVIDER:MODEL")
    command.list([*enumerate(entries, 1)], columns, none=none)


def _add(command: CliCommand) -> None:
    loaded = load_settings(command.home, command.environ)
    provider, model = split_model(command.asked.model, loaded.settings.providers)
    if not provider or not model:
        raise UserError("Whose model is it?", hint="Write provider:model, like openrouter:qwen/qwen3-32b.")
    if missing := asyncio.run(make_search(command)).state(provider):
        command.console.note(f"⚠️ {provider} cannot answer yet: {missing}")
    _change(command, lambda entries: entries.append({"provider": provider, "model": model}))


def _remove(command: CliCommand) -> None:
    def remove(entries: list[Any]) -> None:
        if command.asked.number > len(entries):
            raise UserError(f"There is no number {command.asked.number}.", hint="See: hermes fallback list")
        del entries[command.asked.number - 1]

    _change(command, remove)


def _clear(command: CliCommand) -> None:
    _change(command, lambda entries: entries.clear())


def _change(command: CliCommand, change: Callable[[list[Any]], None]) -> None:
    def edit(data: Any) -> None:
        entries = section_of(data, _TABLE, list)
        change(entries)
        if not entries:
            del data[_TABLE]

    apply_change(command, plan_change(prepare_home(command.home), edit))
