"""WeCom's AI bot on paper."""

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
from hermes.entry.kit.fields import option, proxy_field

MOST_TEXT = 20_000
"""WeCom takes 20,480 bytes."""

MANIFEST = Manifest(
    name="wecom",
    title="WeCom",
    adapter="hermes.entry.platforms.wecom.adapter:WeComAdapter",
    capabilities=Capabilities(
        max_text=MOST_TEXT,
        unit=TextUnit.BYTES,
        flavour=Flavour.COMMONMARK,
        edit_interval=1.0,
        edits_drafts_only=True,
        draft_cursor=False,
        media={
            MediaKind.IMAGE: MediaLimit(
                mimes=("image/png", "image/jpeg", "image/gif"), max_bytes=10 * 1024 * 1024
            ),
            MediaKind.FILE: MediaLimit(max_bytes=20 * 1024 * 1024),
        },
        fetches=True,
        silence_seconds=100.0,
        # A chat takes 30 messages a minute and 1,000 an hour: 15 at once and then one in four seconds.
        send_interval=4.0,
        send_burst=15,
        called_by_name=True,
    ),
    requires=("aiohttp",),
    extra=PackageExtra(
        name="crypto", modules=("cryptography",), purpose="pictures and files that people send"
    ),
    settings=(
        SettingField(
            env="WECOM_BOT_ID",
            title="The bot's id",
            hint="WeCom → Workbench → AI bot → your bot → API mode, long connection.",
        ),
        SettingField(env="WECOM_SECRET", title="The bot's secret", secret=True, hint="On the same page."),
        option(
            "WECOM_BOT_NAME",
            "The bot's name",
            "As people see it in a group: it is cut out of what they say to the bot.",
            asked=True,
        ),
        option(
            "WECOM_WS_URL",
            "Where the long connection is (wss://openws.work.weixin.qq.com)",
            "Only for private installations.",
        ),
        proxy_field("WECOM_PROXY", "WeCom"),
    ),
    people="user ids of your organisation (the account in the admin console → Contacts)",
    person=r"[A-Za-z0-9_.@-]{1,64}",
    evidence="D: our fake of the AI bot's long connection, judged by wecom-aibot-sdk",
)
