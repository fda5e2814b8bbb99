"""Discord on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import (
    AlbumLimit,
    Capabilities,
    Flavour,
    Grade,
    Manifest,
    MediaLimit,
    MenuLimits,
    SettingField,
    TextUnit,
)
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import option, proxy_field

MEBI = 1024 * 1024
MAX_FILE = 10 * MEBI
BOOSTED = {2: 50 * MEBI, 3: 100 * MEBI}
"""What a server takes that its members boosted, by its level."""
MOST_FILE = max(BOOSTED.values())
"""What some server takes; what a server takes itself is asked before sending."""
MAX_TEXT = 2000


def _file(*mimes: str) -> MediaLimit:
    return MediaLimit(mimes=mimes, max_bytes=MOST_FILE, caption=MAX_TEXT)


MANIFEST = Manifest(
    name="discord",
    title="Discord",
    adapter="hermes.entry.platforms.discord.adapter:DiscordAdapter",
    capabilities=Capabilities(
        max_text=MAX_TEXT,
        # Nobody says what a character is; counted so, a text fits either way.
        unit=TextUnit.UTF16,
        flavour=Flavour.DISCORD,
        # Five edits in five seconds are taken in a channel.
        edit_interval=1.2,
        deletes=True,
        threads=Grade.FULL,
        buttons=Grade.FULL,
        media={
            MediaKind.IMAGE: _file("image/png", "image/jpeg", "image/gif", "image/webp"),
            MediaKind.VOICE: MediaLimit(mimes=("audio/ogg", "audio/opus"), max_bytes=MOST_FILE),
            MediaKind.AUDIO: _file("audio/mpeg", "audio/mp4", "audio/wav", "audio/flac", "audio/ogg"),
            MediaKind.VIDEO: _file("video/mp4", "video/webm", "video/quicktime"),
            MediaKind.FILE: _file(),
        },
        # Voice messages go alone. What goes together fits everywhere.
        albums=(
            AlbumLimit(
                kinds=frozenset({MediaKind.IMAGE, MediaKind.AUDIO, MediaKind.VIDEO, MediaKind.FILE}),
                max_bytes=MAX_FILE,
            ),
        ),
        fetches=True,
        typing=True,
        reactions=True,
        # Discord drops a second message with the same nonce for “a few minutes”.
        dedupe_seconds=120.0,
        menu=MenuLimits(),
        silence_seconds=180.0,
        called_by_name=True,
        marks_work=True,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="DISCORD_BOT_TOKEN",
            title="The bot's token",
            secret=True,
            hint="discord.com/developers/applications → your application → Bot → Reset Token. Turn on"
            " “Message Content Intent” on the same page.",
        ),
        option(
            "DISCORD_AUTO_THREAD",
            "Whether who mentions it in a channel is answered in a thread of its own (true)",
            "With false it answers in the channel itself.",
        ),
        option(
            "DISCORD_NO_THREAD_CHANNELS",
            "The numbers of channels where it answers without a thread",
            "Several with commas between.",
        ),
        option(
            "DISCORD_IGNORE_NO_MENTION",
            "Whether it leaves messages alone that name other people and not it (true)",
            "It counts on servers, also where no mention is needed.",
        ),
        proxy_field("DISCORD_PROXY", "Discord"),
        option(
            "DISCORD_BASE_URL",
            "Another address of the HTTP API than https://discord.com/api/v10",
            "For an API proxy of your own.",
        ),
    ),
    people="numbers like 501234567890123456 (Settings → Advanced → Developer Mode, then right-click a person"
    " → Copy User ID)",
    person=r"\d+",
    evidence="C for the HTTP API: Discord's OpenAPI description through Prism; D for the gateway: our fake,"
    " judged by discord.py and hikari",
)
