"""QQ's official bots on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Manifest, MediaLimit, PackageExtra, SettingField
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import listener_fields, option, proxy_field

MOST_TEXT = 3_000
MOST_FILE = 10 * 1024 * 1024

MANIFEST = Manifest(
    name="qqbot",
    title="QQ",
    adapter="hermes.entry.platforms.qqbot.adapter:QQAdapter",
    capabilities=Capabilities(
        # Few messages answer one of theirs, so long ones are better than many.
        max_text=MOST_TEXT,
        replies=4,
        media={
            MediaKind.IMAGE: MediaLimit(mimes=("image/png", "image/jpeg"), max_bytes=MOST_FILE),
            MediaKind.VIDEO: MediaLimit(mimes=("video/mp4",), max_bytes=MOST_FILE),
            MediaKind.FILE: MediaLimit(max_bytes=MOST_FILE),
        },
        fetches=True,
        silence_seconds=150.0,
        called_by_name=True,
    ),
    requires=("aiohttp",),
    extra=PackageExtra(name="crypto", modules=("cryptography",), purpose="being called (QQ_WEBHOOK_URL)"),
    settings=(
        SettingField(
            env="QQ_APP_ID", title="The bot's AppID", hint="q.qq.com → your bot → Development → Settings."
        ),
        SettingField(
            env="QQ_CLIENT_SECRET", title="The bot's AppSecret", secret=True, hint="On the same page."
        ),
        option(
            "QQ_WEBHOOK_URL",
            "The public address that QQ calls, instead of a WebSocket",
            "Ports 80, 443, 8080 and 8443 are allowed; your reverse proxy forwards it.",
        ),
        *listener_fields(
            "QQ_WEBHOOK", "8649", "Your reverse proxy forwards the address that QQ calls to it."
        ),
        option("QQ_API_URL", "Where QQ's interface is (https://api.sgroup.qq.com)"),
        option("QQ_TOKEN_URL", "Where tokens come from (https://bots.qq.com/app/getAppAccessToken)"),
        proxy_field("QQ_PROXY", "QQ"),
    ),
    people="open ids of this bot (32 letters and digits), different in each group; use a pairing code",
    person=r"[A-Za-z0-9]{16,64}",
    evidence="D: our fake of tokens, gateway, signed calls and messages, judged by nonebot-adapter-qq",
)
