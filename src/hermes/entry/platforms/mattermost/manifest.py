"""Mattermost on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import (
    AlbumLimit,
    Capabilities,
    Flavour,
    Grade,
    Manifest,
    MediaLimit,
    SettingField,
    TextUnit,
)
from hermes.domain.chats.message import MediaKind
from hermes.domain.word import replace
from hermes.entry.kit.fields import listener_fields, option, proxy_field

MOST_TEXT = 16_383
_KINDS = (MediaKind.IMAGE, MediaKind.AUDIO, MediaKind.VIDEO, MediaKind.FILE)
_FILE = MediaLimit(max_bytes=100_000_000, caption=MOST_TEXT)

MANIFEST = Manifest(
    name="mattermost",
    title="Mattermost",
    adapter="hermes.entry.platforms.mattermost.adapter:MattermostAdapter",
    capabilities=Capabilities(
        max_text=MOST_TEXT,
        unit=TextUnit.CHARS,
        flavour=Flavour.COMMONMARK,
        edit_interval=1.0,
        deletes=True,
        threads=Grade.FULL,
        # Without an address at which the server can reach us, questions are answered in words.
        buttons=Grade.PARTIAL,
        media=dict.fromkeys(_KINDS, _FILE),
        albums=(AlbumLimit(kinds=frozenset(_KINDS), max_bytes=_FILE.max_bytes),),
        fetches=True,
        typing=True,
        reactions=True,
        history=True,
        dedupe_seconds=30.0,
        silence_seconds=150.0,
        # Its own programs keep a line that begins with a slash for themselves.
        command_prefix="!",
        called_by_name=True,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="MATTERMOST_URL",
            title="The address of your Mattermost server",
            hint="As in your browser, without the team's name: https://chat.example.com",
        ),
        SettingField(
            env="MATTERMOST_TOKEN",
            title="The bot's access token",
            secret=True,
            hint="Integrations → Bot Accounts → Add Bot Account shows it once; 26 letters and digits.",
        ),
        option(
            "MATTERMOST_REPLY_MODE",
            "Whether it answers in channels in a thread (thread) or below (off)",
            choices=("thread", "off"),
        ),
        option(
            "MATTERMOST_CALLBACK_URL",
            "The address at which Mattermost tells us of pressed buttons",
            "Empty if the server cannot reach this machine: questions are then answered in words.",
        ),
        option(
            "MATTERMOST_COMMAND_TOKEN",
            "The token of a slash command that brings all others",
            "Integrations → Slash Commands shows it; the command's address is the one for buttons.",
            secret=True,
        ),
        *listener_fields(
            "MATTERMOST_CALLBACK",
            "8447",
            "Your reverse proxy forwards the address that Mattermost calls to it.",
        ),
        proxy_field("MATTERMOST_PROXY", "Mattermost"),
    ),
    people="user ids of 26 letters and digits, not names (System Console → Users → a person shows it)",
    person=r"[a-z0-9]{26}",
    evidence="D: our fake of REST v4 and the WebSocket, judged by the vendor's @mattermost/client",
)


def limited(capabilities: Capabilities, most: int) -> Capabilities:
    """The same, where a post may have so many characters."""
    most = min(most, capabilities.max_text)
    limits = capabilities.media.items()
    media = {kind: replace(limit, caption=min(limit.caption, most)) for kind, limit in limits}
    return replace(capabilities, max_text=most, media=media)
