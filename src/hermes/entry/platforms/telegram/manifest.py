"""Telegram on paper."""

from __future__ import annotations

from hermes.domain.capabilities import (
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
from hermes.domain.message import MediaKind
from hermes.entry.kit.fields import listener_fields, proxy_field

CAPTION = 1024
_MB = 1_000_000

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
            MediaKind.IMAGE: MediaLimit(
                mimes=("image/jpeg", "image/png", "image/webp"), max_bytes=10 * _MB, caption=CAPTION
            ),
            MediaKind.VOICE: MediaLimit(
                mimes=("audio/ogg", "audio/opus", "audio/mpeg", "audio/mp4", "audio/x-m4a"),
                max_bytes=50 * _MB,
                caption=CAPTION,
            ),
            MediaKind.AUDIO: MediaLimit(
                mimes=("audio/mpeg", "audio/mp4", "audio/x-m4a"), max_bytes=50 * _MB, caption=CAPTION
            ),
            MediaKind.VIDEO: MediaLimit(mimes=("video/mp4",), max_bytes=50 * _MB, caption=CAPTION),
            MediaKind.FILE: MediaLimit(max_bytes=50 * _MB, caption=CAPTION),
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
        SettingField(
            env="TELEGRAM_WEBHOOK_URL",
            title="The public https address that Telegram calls, instead of being polled",
            required=False,
            hint="Leave it empty unless this machine can be reached from the internet.",
        ),
        SettingField(
            env="TELEGRAM_WEBHOOK_SECRET",
            title="A secret of yours that Telegram sends along with each call",
            required=False,
            secret=True,
            hint="1 to 256 letters, digits, _ and -; needed with a webhook address.",
        ),
        *listener_fields("TELEGRAM_WEBHOOK", "8443", "Your reverse proxy forwards the public address to it."),
        SettingField(
            env="TELEGRAM_BASE_URL",
            title="Another Bot API server than https://api.telegram.org",
            required=False,
            hint="For a Bot API server of your own.",
        ),
        proxy_field("TELEGRAM_PROXY", "Telegram"),
    ),
    people="numbers like 501234567. If you do not know yours, leave it empty and write to the bot",
    person=r"\d+",
    evidence="D: our fake of the Bot API, judged by python-telegram-bot and aiogram",
)
