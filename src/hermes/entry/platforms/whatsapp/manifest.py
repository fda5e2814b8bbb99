"""WhatsApp with a personal account on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Flavour, Manifest, MediaLimit
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import option

MODES = ("self-chat", "bot")
RISK = (
    "WhatsApp does not permit automated personal accounts and may block the number for good. Use a number "
    "that you can lose; for anything else there is WhatsApp Business (whatsapp_cloud)"
)
_MB = 1024 * 1024
_CAPTION = 1024

MANIFEST = Manifest(
    name="whatsapp",
    title="WhatsApp",
    adapter="hermes.entry.platforms.whatsapp.adapter:WhatsAppAdapter",
    capabilities=Capabilities(
        max_text=4096,
        flavour=Flavour.WHATSAPP,
        edit_interval=4.0,
        draft_cursor=False,
        deletes=True,
        media={
            MediaKind.IMAGE: MediaLimit(
                mimes=("image/jpeg", "image/png"), max_bytes=16 * _MB, caption=_CAPTION
            ),
            MediaKind.VOICE: MediaLimit(mimes=("audio/ogg",), max_bytes=16 * _MB),
            MediaKind.AUDIO: MediaLimit(max_bytes=16 * _MB),
            MediaKind.VIDEO: MediaLimit(
                mimes=("video/mp4", "video/3gpp"), max_bytes=64 * _MB, caption=_CAPTION
            ),
            MediaKind.STICKER: MediaLimit(mimes=("image/webp",), max_bytes=_MB),
            MediaKind.FILE: MediaLimit(max_bytes=100 * _MB, caption=_CAPTION),
        },
        fetches=True,
        typing=True,
        reactions=True,
        dedupe_seconds=86_400.0,
        silence_seconds=120.0,
        # Nobody says what is too much; an account that writes like a machine is blocked.
        send_interval=1.0,
        send_burst=10,
    ),
    settings=(
        option(
            "WHATSAPP_ENABLED",
            "Whether a personal account of WhatsApp is used (true or false)",
            f"{RISK}. Answer true to use it all the same.",
            asked=True,
            choices=("true", "false"),
        ),
        option(
            "WHATSAPP_MODE",
            "Who it talks with: you, in your chat with yourself (self-chat), or who may write to it (bot)",
            "self-chat, if you do not say otherwise; bot is for a number of its own.",
            asked=True,
            choices=MODES,
        ),
        option(
            "WHATSAPP_REPLY_PREFIX",
            "What stands before each answer, none for nothing",
            "In the chat with yourself it tells the agent's messages from yours: *Hermes* and a new line.",
        ),
        option(
            "WHATSAPP_SEND_READ_RECEIPTS",
            "Whether people see that their messages were read (true, or false as usual)",
            choices=("true", "false"),
        ),
        option("WHATSAPP_NODE", "The Node.js program, version 20 or later (node, as it is found in PATH)"),
    ),
    login="hermes.entry.platforms.whatsapp.login:log_in",
    people="phone numbers with the country code, without + or spaces, like 15551234567",
    person=r"\d{5,20}|\d{5,30}@lid",
    evidence="D: the real Baileys, up to its socket, which is ours; never seen against WhatsApp's servers",
)
