"""Slack on paper."""

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

# Slack takes a gigabyte; what goes out is held in memory while it is sent.
_KINDS = (MediaKind.IMAGE, MediaKind.AUDIO, MediaKind.VIDEO, MediaKind.FILE)
_FILE = MediaLimit(max_bytes=100_000_000, caption=4000)

MANIFEST = Manifest(
    name="slack",
    title="Slack",
    adapter="hermes.entry.platforms.slack.adapter:SlackAdapter",
    capabilities=Capabilities(
        # A message may be longer, an edit of one may not; an answer grows by edits. Slack's pages say
        # characters, its API counts bytes.
        max_text=4000,
        unit=TextUnit.BYTES,
        flavour=Flavour.SLACK_MRKDWN,
        # Fifty edits a minute in a workspace.
        edit_interval=1.5,
        deletes=True,
        threads=Grade.FULL,
        buttons=Grade.FULL,
        media=dict.fromkeys(_KINDS, _FILE),
        albums=(AlbumLimit(kinds=frozenset(_KINDS), max_bytes=_FILE.max_bytes),),
        fetches=True,
        # In threads: Slack has no such sign elsewhere.
        typing=True,
        reactions=True,
        history=True,
        silence_seconds=180.0,
        command_prefix="!",
        called_by_name=True,
        marks_work=True,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="SLACK_BOT_TOKEN",
            title="The bot's token",
            secret=True,
            hint="Make an app at api.slack.com/apps “From a manifest”; `hermes platforms manifest slack`"
            " prints it. OAuth & Permissions shows the token; it begins with xoxb-.",
        ),
        option(
            "SLACK_APP_TOKEN",
            "The app's token, for Socket Mode",
            "Basic Information, App-Level Tokens, with connections:write; it begins with xapp-.",
            secret=True,
            asked=True,
        ),
        option(
            "SLACK_SIGNING_SECRET",
            "The signing secret, where Slack calls a public address instead",
            "Basic Information, App Credentials; only without an app token.",
            secret=True,
            unless="SLACK_APP_TOKEN",
        ),
        *listener_fields(
            "SLACK_WEBHOOK", "8446", "Your reverse proxy forwards the public address to /slack/events on it."
        ),
        option(
            "SLACK_REPLY_IN_THREAD",
            "Whether who mentions it in a channel is answered in a thread (true)",
            "With false it answers in the channel itself.",
        ),
        option(
            "SLACK_MARKDOWN_BLOCKS",
            "Whether answers go in Markdown blocks, which show tables and take 12,000 characters (false)",
        ),
        option(
            "SLACK_STREAMING",
            "Whether answers in threads of direct messages come through Slack's own streams (false)",
            "Implies SLACK_MARKDOWN_BLOCKS.",
        ),
        option("SLACK_COMMAND", "The slash command that brings all others (/hermes)"),
        option(
            "SLACK_API_URL",
            "Another address of the Web API than https://slack.com/api",
            "GovSlack: https://slack-gov.com/api.",
        ),
        proxy_field("SLACK_PROXY", "Slack"),
    ),
    app="hermes.entry.platforms.slack.app_manifest:describe_app",
    people="member ids like U0123456789 (a person's profile, ⋮, Copy member ID)",
    person=r"[UW][A-Z0-9]+",
    evidence="D: our fake of the Web API, Socket Mode and the Events API, judged by slack-bolt; the Web API"
    " also B: npm emulate",
)


def in_blocks(capabilities: Capabilities) -> Capabilities:
    """The same where answers go in Markdown blocks. All of them in a message take 12,000 characters, and the
    whole message has a limit that is not told; words under files cannot be in blocks."""
    media = {kind: replace(limit, caption=0) for kind, limit in capabilities.media.items()}
    return replace(
        capabilities, max_text=11_000, unit=TextUnit.UTF16, flavour=Flavour.COMMONMARK, media=media
    )
