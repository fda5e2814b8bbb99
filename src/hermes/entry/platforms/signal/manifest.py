"""Signal on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Manifest, MediaLimit, SettingField
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import option

DIALECTS = ("daemon", "rest")
# A file travels as one string of JSON, and signal-cli's reader takes 20,000,000 characters of one.
_FILE = MediaLimit(max_bytes=14_900_000, caption=2000)
_KINDS = (MediaKind.IMAGE, MediaKind.AUDIO, MediaKind.VIDEO, MediaKind.FILE)
# Signal on iPhones plays no Ogg (Signal-iOS 5771); the apps themselves record AAC.
_VOICE = MediaLimit(mimes=("audio/mp4", "audio/aac", "audio/mpeg"), max_bytes=_FILE.max_bytes)

MANIFEST = Manifest(
    name="signal",
    title="Signal",
    adapter="hermes.entry.platforms.signal.adapter:SignalAdapter",
    capabilities=Capabilities(
        # What is longer than 2,000 bytes travels as a file that Signal's apps show as text.
        max_text=8000,
        media={**dict.fromkeys(_KINDS, _FILE), MediaKind.VOICE: _VOICE},
        fetches=True,
        typing=True,
        reactions=True,
        silence_seconds=120.0,
    ),
    requires=("aiohttp",),
    settings=(
        SettingField(
            env="SIGNAL_HTTP_URL",
            title="The address of your signal-cli",
            hint="For example http://127.0.0.1:8080; signal-cli daemon --http 127.0.0.1:8080 listens there.",
        ),
        SettingField(
            env="SIGNAL_ACCOUNT",
            title="The number of the account",
            hint="With country code, like +15551234567, as in signal-cli listAccounts.",
        ),
        option(
            "SIGNAL_DIALECT",
            "What answers there: signal-cli itself (daemon) or signal-cli-rest-api (rest)",
            "daemon, if you do not say otherwise.",
            choices=DIALECTS,
        ),
    ),
    people="numbers with the country code, like +15551234567, or their Signal id (a UUID)",
    person=r"\+\d{5,15}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    evidence="D: our fake, judged by signalbot; the real signal-cli without an account for its errors",
)
