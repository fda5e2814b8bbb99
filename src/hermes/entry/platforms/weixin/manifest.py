"""Weixin's iLink bot on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Manifest, MediaLimit, PackageExtra, SettingField
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import option, proxy_field

MANIFEST = Manifest(
    name="weixin",
    title="Weixin",
    adapter="hermes.entry.platforms.weixin.adapter:WeixinAdapter",
    capabilities=Capabilities(
        max_text=4_000,
        media={
            MediaKind.IMAGE: MediaLimit(max_bytes=20 * 1024 * 1024),
            MediaKind.FILE: MediaLimit(max_bytes=50 * 1024 * 1024),
        },
        fetches=True,
        typing=True,
        # The bot's third message within a second is refused, and then many more are, whoever they are for
        # (chenhg5/cc-connect #1640).
        send_interval=2.0,
        send_burst=2,
        paces_account=True,
        silence_seconds=150.0,
    ),
    requires=("aiohttp",),
    extra=PackageExtra(name="crypto", modules=("cryptography",), purpose="pictures and files"),
    settings=(
        SettingField(
            env="WEIXIN_TOKEN",
            title="The bot's token",
            secret=True,
            hint="`hermes platforms login weixin` gets it: you scan a QR code with WeChat.",
        ),
        option("WEIXIN_BASE_URL", "Where the bot's interface is (https://ilinkai.weixin.qq.com)"),
        option("WEIXIN_CDN_URL", "Where its files are (https://novac2c.cdn.weixin.qq.com/c2c)"),
        proxy_field("WEIXIN_PROXY", "Weixin"),
    ),
    login="hermes.entry.platforms.weixin.login:log_in",
    people="ids that end in @im.wechat; write to the bot and it tells you yours with a pairing code",
    person=r"[!-9;-~]{4,128}",
    evidence="D: our fake of the iLink interface, judged by weixin-ilink",
)
