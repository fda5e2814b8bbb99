"""The description of the app that Slack asks for, as `hermes platforms manifest slack` prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.slack.api import SCOPES
from hermes.entry.platforms.slack.app_manifest import MOST_COMMANDS, RESERVED, describe_app
from tests.cli.command import hermes

URL = "https://bot.example.invalid/slack/events"


def described(entries: list[MenuEntry], url: str = "", command: str = "") -> dict[str, Any]:
    found = {"SLACK_COMMAND": Secret(command)} if command else {}
    return describe_app(AdapterContext(settings=PlatformSettings(), find=found.get), entries, url)


def names(app: dict[str, Any]) -> list[str]:
    return [one["command"] for one in app["features"]["slash_commands"]]


def test_every_command_of_the_gateway_is_one_of_slack(tmp_path: Path) -> None:
    printed = hermes(tmp_path / "home", "platforms", "manifest", "slack")
    assert printed.code == 0, printed.err
    app = json.loads(printed.out)
    commands = names(app)
    assert commands[0] == "/hermes" and {"/new", "/stop", "/hermes-status"} <= set(commands)
    assert not {name[1:] for name in commands} & RESERVED, (
        "Slack refuses a manifest with one of its own names"
    )
    assert set(app["oauth_config"]["scopes"]["bot"]) == set(SCOPES)
    assert app["settings"]["socket_mode_enabled"] is True
    assert "request_url" not in printed.out


def test_with_an_address_slack_calls_it_and_uses_no_socket(tmp_path: Path) -> None:
    printed = hermes(tmp_path / "home", "platforms", "manifest", "slack", "--url", URL)
    app = json.loads(printed.out)
    assert app["settings"]["socket_mode_enabled"] is False
    assert app["settings"]["event_subscriptions"]["request_url"] == URL
    assert app["settings"]["interactivity"]["request_url"] == URL
    assert {one["url"] for one in app["features"]["slash_commands"]} == {URL}


def test_what_asks_for_no_app_says_so(tmp_path: Path) -> None:
    printed = hermes(tmp_path / "home", "platforms", "manifest", "telegram")
    assert printed.code != 0 and "asks for no description" in printed.err


def test_more_commands_than_slack_takes_are_left_out() -> None:
    """They work all the same: /hermes brings every command."""
    many = [MenuEntry(name=f"c{number:02d}", summary="does it") for number in range(80)]
    commands = names(described(many, command="/bot"))
    assert len(commands) == MOST_COMMANDS and commands[:2] == ["/bot", "/c00"]


@pytest.mark.parametrize(
    ("url", "command", "words"),
    [
        ("http://bot.example.invalid/slack/events", "", "no address that Slack can call"),
        ("https://bot.example.invalid/elsewhere", "", "no address that Slack can call"),
        ("", "hermes", "SLACK_COMMAND"),
        ("", "/Her mes", "SLACK_COMMAND"),
    ],
)
def test_bad_input_gets_a_sentence(url: str, command: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        described([], url, command)
