"""The reference pages are made from the code, and the committed ones are those pages.

`WRITE_DOCS=1 ./test tests/admin/test_reference_pages.py` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes import cli
from tests.admin import reference

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {
    "cli.md": lambda: reference.cli_page(cli.COMMANDS, cli.OPTIONS),
    "commands.md": reference.commands_page,
    "events.md": reference.events_page,
    "hooks.md": reference.hooks_page,
    "http.md": reference.http_page,
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
    for name in cli.COMMANDS:
        reference._arguments(name)
    below = {
        f"{name} {sub}" for name in {one.split()[0] for one in cli.COMMANDS} for sub in reference.below(name)
    }
    assert below <= set(cli.COMMANDS)
    assert all(name in cli.help_text() for name in cli.COMMANDS)
