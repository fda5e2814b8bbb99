"""The reference pages are made from the code, and the committed ones are those pages.

`WRITE_DOCS=1 ./test tests/admin/test_reference_pages.py` writes them anew."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from hermes import cli
from hermes.admin.shell.examples import EXAMPLES
from hermes.admin.shell.tree import command_tree
from tests.admin import reference

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {
    "cli.md": lambda: reference.cli_page(cli.COMMANDS, cli.OPTIONS),
    "commands.md": reference.commands_page,
    "events.md": reference.events_page,
    "hooks.md": reference.hooks_page,
    "http.md": reference.http_page,
    "platforms.md": reference.platforms_page,
    "providers.md": reference.providers_page,
    "settings.md": reference.settings_page,
}


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_the_made_one(name: str) -> None:
    page = PAGES[name]()
    if os.environ.get("WRITE_DOCS"):
        (FOLDER / name).write_text(page, encoding="utf-8")
    assert (FOLDER / name).read_text(encoding="utf-8") == page, "made anew with WRITE_DOCS=1"


def test_every_command_is_one_of_the_help() -> None:
    """The table of `hermes --help` and the parsers of the commands know the same words."""
    tree = command_tree()
    bare = {name for name, node in tree.items() if node.below and name not in cli.COMMANDS}
    assert tree.keys() - bare == cli.COMMANDS.keys()
    assert all(name in cli.help_text() for name in cli.COMMANDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_typed(name: str) -> None:
    """Each is parsed as the shell and the command would; `--help` shows it."""
    tree = command_tree(name.partition(" ")[0])
    node, parser = tree[name], tree[name.partition(" ")[0]].parser
    assert "Examples:" in node.parser.format_help()
    for example in EXAMPLES[name]:
        words = shlex.split(example.split("|")[-1].partition(" > ")[0])
        words = words[[word.rpartition("/")[2] for word in words].index("hermes") + 1 :]
        if name == "chat" and words[:1] != ["chat"]:
            words = ["chat", *words]
        depth = len(name.split())
        assert words[:depth] == name.split() or not words, example
        parser.parse_args(words[1:])
