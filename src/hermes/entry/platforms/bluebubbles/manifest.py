"""BlueBubbles on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Manifest, MediaLimit, SettingField
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import listener_fields, option

_FILE = MediaLimit(max_bytes=100_000_000)
_KINDS = (MediaKind.IMAGE, MediaKind.AUDIO, MediaKind.VIDEO, MediaKind.FILE)
# The server makes a voice message of an MP3, and of nothing else.
_VOICE = MediaLimit(mimes=("audio/mpeg",), max_bytes=_FILE.max_bytes)

MANIFEST = Manifest(
    name="bluebubbles",
    title="iMessage",
    adapter="hermes.entry.platforms.bluebubbles.adapter:BlueBubblesAdapter",
    capabilities=Capabilities(
        max_text=4000,
        media={**dict.fromkeys(_KINDS, _FILE), MediaKind.VOICE: _VOICE},
        fetches=True,
        # Both need the server's Private API.
        typing=True,
        reactions=True,
        silence_seconds=180.0,
        # The Mac's Messages app is waited for.
        send_seconds=330.0,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="BLUEBUBBLES_SERVER_URL",
            title="The address of your BlueBubbles server",
            hint="On the server's first page, like http://192.168.1.10:1234.",
        ),
        SettingField(
            env="BLUEBUBBLES_PASSWORD",
            title="The server's password",
            secret=True,
            hint="In the server: Connection → Server Password.",
        ),
        option(
            "BLUEBUBBLES_PRIVATE_API",
            "Whether the server's Private API is used: replies, reactions and typing (false)",
        ),
        option("BLUEBUBBLES_SEND_READ_RECEIPTS", "Whether people see that their messages were read (true)"),
        option(
            "BLUEBUBBLES_WEBHOOK_URL",
            "The address at which the Mac reaches this gateway, like http://192.168.1.20:8645",
            "Then the server rings as soon as a message comes; without it, it is asked every few seconds.",
        ),
        *listener_fields("BLUEBUBBLES_WEBHOOK", "8645", "The port in the address above."),
    ),
    people="phone numbers like +15551234567 or Apple IDs like ann@icloud.com",
    person=r"\+\d{5,15}|[^@\s]+@[^@\s]+\.[^@\s]+",
    evidence="E: our fake, from the server's sources alone; never tried on a Mac",
)
