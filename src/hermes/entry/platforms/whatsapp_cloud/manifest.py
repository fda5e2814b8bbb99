"""WhatsApp's Cloud API on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Flavour, Grade, Manifest, MediaLimit, SettingField
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import listener_fields, option, proxy_field

CAPTION = 1024
_MB = 1024 * 1024
_SOUNDS = ("audio/ogg", "audio/mpeg", "audio/mp4", "audio/aac", "audio/amr", "audio/opus")
_OFFICE = "application/vnd.openxmlformats-officedocument"
TAKEN = (
    "text/plain",
    "application/pdf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    f"{_OFFICE}.wordprocessingml.document",
    f"{_OFFICE}.spreadsheetml.sheet",
    f"{_OFFICE}.presentationml.presentation",
    *_SOUNDS,
    *("image/jpeg", "image/png", "image/webp", "video/mp4", "video/3gpp"),
)
"""The types that Meta lets one upload."""
_TEXTS = ("csv", "markdown", "html", "css", "xml", "yaml", "javascript", "calendar", "tab-separated-values")
_TEXTS_TOO = ("json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-sh", "sql", "x-ndjson", "rtf")
AS_TEXT = (
    *(f"text/{name}" for name in (*_TEXTS, "x-python", "x-log", "x-sh", "x-c", "x-script.python", "rtf")),
    *(f"application/{name}" for name in _TEXTS_TOO),
)
"""Text, which is uploaded as such under its own name."""
SENT_AS = {**dict.fromkeys(AS_TEXT, "text/plain"), "audio/opus": "audio/ogg"}
"""Opus in a file is always in Ogg (RFC 7845). Called audio/opus, Meta takes the upload and fails the message
later (131053; chatwoot/chatwoot #12713)."""

MANIFEST = Manifest(
    name="whatsapp_cloud",
    title="WhatsApp Business",
    adapter="hermes.entry.platforms.whatsapp_cloud.adapter:WhatsAppCloudAdapter",
    capabilities=Capabilities(
        max_text=4096,
        flavour=Flavour.WHATSAPP,
        # Three buttons or a list of ten, and they stay when they are pressed.
        buttons=Grade.PARTIAL,
        media={
            MediaKind.IMAGE: MediaLimit(
                mimes=("image/jpeg", "image/png"), max_bytes=5 * _MB, caption=CAPTION
            ),
            MediaKind.VOICE: MediaLimit(mimes=("audio/ogg",), max_bytes=16 * _MB),
            MediaKind.AUDIO: MediaLimit(mimes=_SOUNDS, max_bytes=16 * _MB),
            MediaKind.VIDEO: MediaLimit(
                mimes=("video/mp4", "video/3gpp"), max_bytes=16 * _MB, caption=CAPTION
            ),
            MediaKind.STICKER: MediaLimit(mimes=("image/webp",), max_bytes=100 * 1024),
            MediaKind.FILE: MediaLimit(mimes=(*TAKEN, *AS_TEXT), max_bytes=100 * _MB, caption=CAPTION),
        },
        fetches=True,
        typing=True,
        reactions=True,
        silence_seconds=900.0,
        send_interval=6.0,
        send_burst=45,
        reply_window=24 * 3600.0,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="WHATSAPP_CLOUD_PHONE_NUMBER_ID",
            title="The id of the phone number",
            hint="In the app dashboard: WhatsApp → API Setup → Phone number ID. It is not the number itself.",
        ),
        SettingField(
            env="WHATSAPP_CLOUD_ACCESS_TOKEN",
            title="The access token of a system user",
            secret=True,
            hint="Business settings → System users → Generate token; the one of API Setup ends after a day.",
        ),
        SettingField(
            env="WHATSAPP_CLOUD_APP_SECRET",
            title="The app secret, by which Meta signs its calls",
            secret=True,
            hint="In the app dashboard: App settings → Basic → App secret.",
        ),
        SettingField(
            env="WHATSAPP_CLOUD_VERIFY_TOKEN",
            title="A word of yours by which Meta proves that you entered the webhook address",
            secret=True,
            hint="Make one up, of 8 characters or more; enter the same one at WhatsApp → Configuration.",
        ),
        option(
            "WHATSAPP_CLOUD_TEMPLATE",
            "The template for messages to people who have not written for a day",
            "An approved template whose body has one variable; without it such messages wait.",
        ),
        option("WHATSAPP_CLOUD_TEMPLATE_LANGUAGE", "The template's language (en_US)"),
        *listener_fields(
            "WHATSAPP_CLOUD_WEBHOOK", "8090", "Your reverse proxy forwards /whatsapp/webhook to it."
        ),
        option("WHATSAPP_CLOUD_WEBHOOK_PATH", "Another path than /whatsapp/webhook"),
        option("WHATSAPP_CLOUD_API_URL", "Another address than https://graph.facebook.com/v24.0"),
        proxy_field("WHATSAPP_CLOUD_PROXY", "Meta"),
    ),
    people="phone numbers with the country code, without + or spaces, like 15551234567",
    person=r"\d{5,20}|[A-Z]{2}\.[A-Za-z0-9.]{1,132}",
    evidence="D: our fake of the Cloud API, judged by pywa",
)
