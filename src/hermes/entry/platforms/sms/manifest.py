"""SMS on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Manifest, MediaLimit, SettingField, TextUnit
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import listener_fields, option, proxy_field

MOST_TEXT = 1600
_SOUNDS = ("basic", "L24", "mp4", "mpeg", "ogg", "vnd.wave", "3gpp", "3gpp2", "ac3", "webm", "amr-nb", "amr")
_AUDIO = tuple(f"audio/{name}" for name in _SOUNDS)
_VIDEO = tuple(f"video/{name}" for name in ("mpeg", "mp4", "quicktime", "webm", "3gpp", "3gpp2", "H264"))
_TEXT = tuple(
    f"text/{name}" for name in ("csv", "vcard", "x-vcard", "rtf", "richtext", "calendar", "directory")
)
_OTHER = ("application/pdf", "application/vcard", "image/bmp", "image/tiff")


def _passed_on(*mimes: str) -> MediaLimit:
    """Twilio makes pictures smaller; what is none it passes on as it is, and carriers take 600 KB of that."""
    return MediaLimit(mimes=mimes, max_bytes=600_000, caption=MOST_TEXT)


_IMAGE = MediaLimit(mimes=("image/jpeg", "image/png", "image/gif"), max_bytes=5_000_000, caption=MOST_TEXT)

MANIFEST = Manifest(
    name="sms",
    title="SMS",
    adapter="hermes.entry.platforms.sms.adapter:SmsAdapter",
    capabilities=Capabilities(
        max_text=MOST_TEXT,
        unit=TextUnit.UTF16,
        media={
            MediaKind.IMAGE: _IMAGE,
            MediaKind.AUDIO: _passed_on(*_AUDIO),
            MediaKind.VIDEO: _passed_on(*_VIDEO),
            MediaKind.FILE: _passed_on(*_TEXT, *_OTHER, *_AUDIO, *_VIDEO),
        },
        fetches=True,
        silence_seconds=300.0,
        hint="Each 160 characters (70 with emoji or other scripts) are paid for: be brief, without markup.",
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="TWILIO_ACCOUNT_SID",
            title="The account's SID",
            hint="On the first page of the Twilio Console; it begins with AC.",
        ),
        SettingField(
            env="TWILIO_AUTH_TOKEN",
            title="The account's auth token",
            secret=True,
            hint="Beside the SID. Twilio signs its calls with it.",
        ),
        SettingField(
            env="TWILIO_PHONE_NUMBER",
            title="Your Twilio number",
            identifies=True,
            hint="With country code, like +15551234567.",
        ),
        option(
            "SMS_WEBHOOK_URL",
            "The public https address that Twilio calls, instead of being asked every few seconds",
            "Needed for files that are sent and for reports of what did not arrive.",
        ),
        *listener_fields("SMS_WEBHOOK", "8080", "Your reverse proxy forwards the public address to it."),
        option("SMS_API_URL", "Another address than https://api.twilio.com"),
        proxy_field("SMS_PROXY", "Twilio"),
    ),
    people="phone numbers with the country code, like +15551234567",
    person=r"\+\d{5,15}",
    evidence="B: an emulator of Twilio by another maker; our fake, judged by Twilio's own SDK",
)
