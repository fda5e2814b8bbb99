"""Feishu and Lark on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import (
    Capabilities,
    Flavour,
    Grade,
    Manifest,
    MediaLimit,
    PackageExtra,
    SettingField,
    TextUnit,
)
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import listener_fields, option, proxy_field

MOST_TEXT = 7_000
"""A card has at most 30 KB as JSON inside JSON, where a quotation mark takes four bytes."""
_FILE = MediaLimit(max_bytes=30 * 1024 * 1024)

MANIFEST = Manifest(
    name="feishu",
    title="Feishu / Lark",
    adapter="hermes.entry.platforms.feishu.adapter:FeishuAdapter",
    capabilities=Capabilities(
        max_text=MOST_TEXT,
        unit=TextUnit.BYTES,
        flavour=Flavour.COMMONMARK,
        edit_interval=0.8,
        draft_cursor=True,
        deletes=True,
        threads=Grade.PARTIAL,
        buttons=Grade.FULL,
        media={
            MediaKind.IMAGE: MediaLimit(
                mimes=("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff"),
                max_bytes=10 * 1024 * 1024,
            ),
            MediaKind.VOICE: MediaLimit(mimes=("audio/ogg", "audio/opus"), max_bytes=_FILE.max_bytes),
            MediaKind.FILE: _FILE,
        },
        fetches=True,
        dedupe_seconds=3_600.0,
        silence_seconds=300.0,
        called_by_name=True,
    ),
    requires=("aiohttp",),
    extra=PackageExtra(name="crypto", modules=("cryptography",), purpose="being called (FEISHU_WEBHOOK_URL)"),
    settings=(
        SettingField(
            env="FEISHU_APP_ID",
            title="The app's id",
            hint="open.feishu.cn or open.larksuite.com → your app → Credentials & Basic Info; cli_….",
        ),
        SettingField(
            env="FEISHU_APP_SECRET",
            title="The app's secret",
            secret=True,
            hint="On the same page, below the id.",
        ),
        option(
            "FEISHU_DOMAIN",
            "feishu (China) or lark (everywhere else)",
            "Or the address of a private installation, like https://open.example.com.",
            asked=True,
        ),
        option(
            "FEISHU_WEBHOOK_URL",
            "The public address at which Feishu calls, if not over a long connection",
            "Only for installations that have no long connections.",
        ),
        option(
            "FEISHU_ENCRYPT_KEY",
            "The key with which calls are encrypted and signed",
            "Events & Callbacks → Encryption Strategy; needed for FEISHU_WEBHOOK_URL.",
            secret=True,
        ),
        option(
            "FEISHU_VERIFICATION_TOKEN",
            "The token that each call carries",
            "On the same page; needed for FEISHU_WEBHOOK_URL.",
            secret=True,
        ),
        *listener_fields(
            "FEISHU_WEBHOOK", "8765", "Your reverse proxy forwards the address that Feishu calls to it."
        ),
        proxy_field("FEISHU_PROXY", "Feishu"),
    ),
    people="open ids of this app (ou_…); write to the bot and it tells you yours with a pairing code",
    person=r"ou_[A-Za-z0-9]{16,64}",
    evidence="D: our fake of the long connection, webhooks and messages, judged by the vendor's lark-oapi",
)
