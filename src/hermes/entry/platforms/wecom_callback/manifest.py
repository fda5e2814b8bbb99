"""WeCom apps that are called, on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import (
    Capabilities,
    Flavour,
    Manifest,
    MediaLimit,
    PackageExtra,
    SettingField,
    TextUnit,
)
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import listener_fields, option, proxy_field

MANIFEST = Manifest(
    name="wecom_callback",
    title="WeCom apps",
    adapter="hermes.entry.platforms.wecom_callback.adapter:WeComCallbackAdapter",
    capabilities=Capabilities(
        max_text=2_048,
        unit=TextUnit.BYTES,
        flavour=Flavour.PLAIN,
        deletes=True,
        media={
            MediaKind.IMAGE: MediaLimit(mimes=("image/png", "image/jpeg"), max_bytes=10 * 1024 * 1024),
            MediaKind.FILE: MediaLimit(max_bytes=20 * 1024 * 1024),
        },
        fetches=True,
        # A person takes 30 messages a minute and 1,000 an hour; what is more is dropped without an error.
        send_interval=4.0,
        send_burst=15,
    ),
    requires=("aiohttp",),
    extra=PackageExtra(name="crypto", modules=("cryptography",)),
    settings=(
        SettingField(
            env="WECOM_CALLBACK_CORP_ID",
            title="The organisation's id",
            hint="work.weixin.qq.com → My Company, at the bottom; like ww1234….",
        ),
        SettingField(
            env="WECOM_CALLBACK_CORP_SECRET",
            title="The app's secret",
            secret=True,
            hint="App Management → your app → Secret.",
        ),
        SettingField(
            env="WECOM_CALLBACK_AGENT_ID", title="The app's AgentId", hint="On the same page; a number."
        ),
        SettingField(
            env="WECOM_CALLBACK_TOKEN",
            title="The token with which WeCom signs its calls",
            secret=True,
            hint="The app → Receive messages → API → Token.",
        ),
        SettingField(
            env="WECOM_CALLBACK_AES_KEY",
            title="The EncodingAESKey with which they are encrypted",
            secret=True,
            hint="On the same page; 43 letters and digits.",
        ),
        SettingField(
            env="WECOM_CALLBACK_URL",
            title="The public address that WeCom calls",
            hint="The URL on the same page, like https://hermes.example.com/wecom.",
        ),
        *listener_fields(
            "WECOM_CALLBACK", "8648", "Your reverse proxy forwards the address that WeCom calls to it."
        ),
        option(
            "WECOM_CALLBACK_API_URL",
            "Where WeCom's interface is (https://qyapi.weixin.qq.com)",
            "Only for private installations.",
        ),
        proxy_field("WECOM_CALLBACK_PROXY", "WeCom"),
    ),
    people="user ids of your organisation (the account in the admin console → Contacts)",
    person=r"[A-Za-z0-9_.@-]{1,64}",
    evidence="D: our fake of encrypted calls and the interface for messages, judged by wechatpy",
)
