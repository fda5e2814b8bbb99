"""All commands as their own parsers know them: for shell completion and the reference."""

from __future__ import annotations

import argparse
from importlib import import_module
from pkgutil import iter_modules

from msgspec import Struct

from hermes.admin import commands
from hermes.admin.shell.command import CliParser


class CommandNode(Struct, frozen=True, kw_only=True):
    """A command: its options with their help, the words that may follow, the commands below it."""

    name: str
    parser: argparse.ArgumentParser
    below: dict[str, argparse.ArgumentParser]

    @property
    def actions(self) -> list[argparse.Action]:
        return [
            action
            for action in self.parser._actions
            if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction)
        ]

    @property
    def options(self) -> dict[str, str]:
        return {name: str(action.help) for action in self.actions for name in action.option_strings}

    @property
    def choices(self) -> list[str]:
        """What its first argument may be, where that is known."""
        plain = [action for action in self.actions if not action.option_strings]
        return [*map(str, plain[0].choices)] if plain and plain[0].choices else []


def command_tree(only: str = "") -> dict[str, CommandNode]:
    """Every command by its name, `config` and `config set` alike; or one with those below it."""
    tree: dict[str, CommandNode] = {}
    for module in iter_modules(commands.__path__):
        name = module.name.replace("_", "-")
        declare = getattr(import_module(f"{commands.__name__}.{module.name}"), "arguments", None)
        if declare is None or only not in ("", name):
            continue
        parser = CliParser(prog=f"hermes {name}")
        declare(parser)
        parts = [part for part in parser._actions if isinstance(part, argparse._SubParsersAction)]
        below: dict[str, argparse.ArgumentParser] = dict(parts[0].choices) if parts else {}
        tree[name] = CommandNode(name=name, parser=parser, below=below)
        for sub, inner in below.items():
            tree[f"{name} {sub}"] = CommandNode(name=f"{name} {sub}", parser=inner, below={})
    return tree
