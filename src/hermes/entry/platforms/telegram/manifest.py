"""Telegram on paper."""

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
from hermes.domain.word import replace
from hermes.entry.kit.fields import listener_fields, option, proxy_field

CAPTION = 1024
_MB = 1_000_000
_SOUNDS = ("audio/mpeg", "audio/mp4", "audio/x-m4a")


def _file(megabytes: int, *mimes: str) -> MediaLimit:
    return MediaLimit(mimes=mimes, max_bytes=megabytes * _MB, caption=CAPTION)


MANIFEST = Manifest(
    name="telegram",
    title="Telegram",
    adapter="hermes.entry.platforms.telegram.adapter:TelegramAdapter",
    capabilities=Capabilities(
        max_text=4096,
        unit=TextUnit.UTF16,
        flavour=Flavour.TELEGRAM_HTML,
        # One message a second is taken in a chat; edits count.
        edit_interval=1.0,
        # Twenty a minute in a group.
        group_edit_interval=3.0,
        # A draft of Telegram's own goes after half a minute.
        preview_seconds=20.0,
        deletes=True,
        threads=Grade.FULL,
        buttons=Grade.FULL,
        media={
            MediaKind.IMAGE: _file(10, "image/jpeg", "image/png", "image/webp"),
            MediaKind.VOICE: _file(50, "audio/ogg", "audio/opus", *_SOUNDS),
            MediaKind.AUDIO: _file(50, *_SOUNDS),
            MediaKind.VIDEO: _file(50, "video/mp4"),
            MediaKind.FILE: _file(50),
        },
        albums=tuple(
            AlbumLimit(kinds=frozenset(kinds), max_bytes=50 * _MB)
            for kinds in ((MediaKind.IMAGE, MediaKind.VIDEO), (MediaKind.AUDIO,), (MediaKind.FILE,))
        ),
        fetches=True,
        typing=True,
        reactions=True,
        menu=MenuLimits(summary=256, dash="_"),
        silence_seconds=180.0,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="TELEGRAM_BOT_TOKEN",
            title="The bot's token",
            secret=True,
            hint="Write /newbot to @BotFather in Telegram; it looks like 123456:ABC-DEF1234.",
        ),
        option(
            "TELEGRAM_WEBHOOK_URL",
            "The public https address that Telegram calls, instead of being polled",
            "Leave it empty unless this machine can be reached from the internet.",
        ),
        option(
            "TELEGRAM_WEBHOOK_SECRET",
            "A secret of yours that Telegram sends along with each call",
            "1 to 256 letters, digits, _ and -; needed with a webhook address.",
            secret=True,
        ),
        *listener_fields("TELEGRAM_WEBHOOK", "8443", "Your reverse proxy forwards the public address to it."),
        option(
            "TELEGRAM_BASE_URL",
            "Another Bot API server than https://api.telegram.org",
            "For a Bot API server of your own.",
        ),
        option(
            "TELEGRAM_DISABLE_LINK_PREVIEWS",
            "Whether links in its messages are shown without a preview (false)",
        ),
        option(
            "TELEGRAM_LOCAL_FILES",
            "The folder in which a Bot API server with --local keeps its files",
            "Its working directory (--dir), as it is seen on this machine.",
        ),
        proxy_field("TELEGRAM_PROXY", "Telegram"),
    ),
    people="numbers like 501234567. If you do not know yours, leave it empty and write to the bot",
    person=r"\d+",
    evidence="D: our fake of the Bot API, judged by python-telegram-bot and aiogram",
)


def for_local(capabilities: Capabilities) -> Capabilities:
    """The same with a Bot API server of one's own that runs with --local: larger files, photos as ever."""
    media = {
        kind: limit if kind is MediaKind.IMAGE else replace(limit, max_bytes=2000 * _MB)
        for kind, limit in capabilities.media.items()
    }
    return replace(capabilities, media=media)
