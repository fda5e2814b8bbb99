"""DingTalk on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import (
    Capabilities,
    Flavour,
    Manifest,
    MediaLimit,
    SettingField,
    TextUnit,
)
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import option, proxy_field

MOST_PARAM = 15_000
"""So many bytes a message's parameters may have, as JSON (the robot interface's documents)."""
MOST_TEXT = 5_500
"""Of text, so many bytes fit into that, whatever has to be escaped."""
MOST_FILE = 20 * 1024 * 1024
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/bmp")

MANIFEST = Manifest(
    name="dingtalk",
    title="DingTalk",
    adapter="hermes.entry.platforms.dingtalk.adapter:DingTalkAdapter",
    capabilities=Capabilities(
        max_text=MOST_TEXT,
        unit=TextUnit.BYTES,
        flavour=Flavour.COMMONMARK,
        # Every change of a card is a call that counts against the organisation's monthly quota.
        edit_interval=2.0,
        edits_drafts_only=True,
        draft_cursor=False,
        deletes=True,
        media={
            MediaKind.IMAGE: MediaLimit(mimes=IMAGES, max_bytes=MOST_FILE),
            MediaKind.FILE: MediaLimit(max_bytes=MOST_FILE),
        },
        fetches=True,
        silence_seconds=150.0,
        # In groups a bot is only told of what mentions it.
        called_by_name=True,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="DINGTALK_CLIENT_ID",
            title="The app's client id (AppKey)",
            hint="open-dev.dingtalk.com → your app → Credentials & Basic Information.",
        ),
        SettingField(
            env="DINGTALK_CLIENT_SECRET",
            title="The app's client secret (AppSecret)",
            secret=True,
            hint="On the same page, below the client id.",
        ),
        option(
            "DINGTALK_CARD_TEMPLATE",
            "The AI card in which answers grow, or off",
            "Empty: the public one of DingTalk's own SDK. With off, answers are sent once they are whole.",
        ),
        option(
            "DINGTALK_CARD_KEY",
            "The variable of that template which holds the text (content)",
            "Only for a template of your own.",
        ),
        option(
            "DINGTALK_API_URL",
            "Where DingTalk's interface is (https://api.dingtalk.com)",
            "https://api.dingtalk.io for organisations outside China.",
        ),
        proxy_field("DINGTALK_PROXY", "DingTalk"),
    ),
    people="staff ids (userid), which the admin console shows under Contacts → a member",
    person=r"[^\s:,]{1,64}",
    evidence="D: our fake of Stream mode, the robot interface and AI cards, judged by DingTalk's own SDK",
)
