"""The description of our app that Slack asks for when one is made (“From a manifest”): permissions, events
and every command as a slash command of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.entry.platforms.slack.api import SCOPES

MOST_COMMANDS = 50
RESERVED = frozenset({
    "active", "apps", "archive", "away", "call", "collapse", "dm", "dnd", "expand", "feed", "feedback",
    "huddle", "invite", "join", "kick", "leave", "me", "msg", "mute", "open", "prefs", "pro", "remind",
    "remove", "rename", "search", "shortcuts", "shrug", "star", "status", "topic", "who",
})  # fmt: skip
"""Slack's own commands: a manifest that has one of these names is refused."""
EVENTS = (
    "app_mention", "message.channels", "message.groups", "message.im", "message.mpim", "reaction_added",
    "member_joined_channel", "member_left_channel", "channel_rename", "group_rename", "app_uninstalled",
    "tokens_revoked",
)  # fmt: skip
_COMMAND = re.compile(r"/[a-z0-9_-]{1,31}", re.ASCII)
_URL = re.compile(r"https://[^\s/?#@]+/slack/events")


def describe_app(context: AdapterContext, entries: Sequence[MenuEntry], url: str) -> dict[str, Any]:
    """For Socket Mode, or for the public address at which Slack calls."""
    command = context.setting("SLACK_COMMAND", "/hermes")
    if not _COMMAND.fullmatch(command):
        raise UserError(
            f"SLACK_COMMAND is {one_line(command, 40)}: a name like /hermes is wanted, in small letters."
        )
    if url and not _URL.fullmatch(url):
        raise UserError(
            f"{one_line(url, 80)} is no address that Slack can call.",
            hint="It begins with https:// and ends with /slack/events.",
        )
    called = {"request_url": url} if url else {}
    first = MenuEntry(name=command[1:], summary="Any command of the agent", takes_text=True)
    named = {first.name: first} | {_name(entry.name, first.name): entry for entry in entries}
    commands = [
        {
            "command": f"/{name}",
            "description": entry.summary or name,
            **({"usage_hint": "text"} if entry.takes_text else {}),
            "should_escape": False,
            **({"url": url} if url else {}),
        }
        for name, entry in named.items()
        if _COMMAND.fullmatch(f"/{name}")
    ]
    return {
        "display_information": {"name": "Hermes"},
        "features": {
            "app_home": {"messages_tab_enabled": True, "messages_tab_read_only_enabled": False},
            "bot_user": {"display_name": "hermes", "always_online": True},
            "slash_commands": commands[:MOST_COMMANDS],
        },
        "oauth_config": {"scopes": {"bot": sorted(SCOPES)}},
        "settings": {
            "event_subscriptions": {**called, "bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True, **called},
            # With it on, Slack calls no address at all.
            "socket_mode_enabled": not url,
            "token_rotation_enabled": False,
        },
    }


def _name(name: str, own: str) -> str:
    """What a command is called in Slack: one whose name Slack keeps for itself has ours before it."""
    return f"{own}-{name}" if name in RESERVED else name
