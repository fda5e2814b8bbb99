"""Matrix on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import (
    Capabilities,
    Flavour,
    Grade,
    Manifest,
    MediaLimit,
    PackageExtra,
    SettingField,
    TextUnit,
)
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import option, proxy_field

_MB = 1_000_000
_KINDS = (MediaKind.IMAGE, MediaKind.VOICE, MediaKind.AUDIO, MediaKind.VIDEO, MediaKind.FILE)

MANIFEST = Manifest(
    name="matrix",
    title="Matrix",
    adapter="hermes.entry.platforms.matrix.adapter:MatrixAdapter",
    capabilities=Capabilities(
        # An event has 65,535 bytes, for the words with and without markup, escaped and perhaps encrypted.
        max_text=16_000,
        unit=TextUnit.BYTES,
        flavour=Flavour.HTML,
        edit_interval=2.0,
        draft_cursor=False,
        deletes=True,
        history=True,
        threads=Grade.FULL,
        # Numbers to react with; Matrix has no buttons.
        buttons=Grade.PARTIAL,
        media={kind: MediaLimit(max_bytes=50 * _MB) for kind in _KINDS},
        fetches=True,
        typing=True,
        reactions=True,
        # A transaction id counts once. Synapse remembers it for a day, others for half an hour.
        dedupe_seconds=1500.0,
        silence_seconds=180.0,
        command_prefix="!",
        called_by_name=True,
        marks_work=True,
        marks_after=3.0,
    ),
    requires=("aiohttp",),
    extra=PackageExtra(name="matrix", modules=("nio", "vodozemac"), purpose="encrypted rooms"),
    settings=(
        SettingField(
            env="MATRIX_HOMESERVER",
            title="The homeserver: its address, or the name at the end of its users' ids",
            hint="Like https://matrix.example.org, or example.org.",
        ),
        option(
            "MATRIX_USER_ID",
            "The bot's user, to log in with a password",
            "Like @hermes:example.org.",
            identifies=True,
            asked=True,
        ),
        option("MATRIX_PASSWORD", "Its password", secret=True, asked=True),
        option(
            "MATRIX_ACCESS_TOKEN",
            "Or an access token that does not expire, of a login that no other program uses",
            "If there is one, the password is not used.",
            secret=True,
            unless="MATRIX_PASSWORD",
        ),
        option(
            "MATRIX_DEVICE_ID",
            "The name of the login that a password makes",
            "Only needed if several gateways use one account.",
        ),
        option(
            "MATRIX_INVITES",
            "Whose invitations are accepted: allowed, everyone or nobody (allowed)",
            "allowed = of people who may write to it, or would be given a pairing code.",
            choices=("allowed", "everyone", "nobody"),
        ),
        option(
            "MATRIX_ENCRYPTION",
            "Encrypted rooms: off, optional or required (optional, if matrix-nio is installed)",
            "Element makes direct chats encrypted: without it they cannot be read.",
            asked=True,
            choices=("off", "optional", "required"),
        ),
        option(
            "MATRIX_RECOVERY_KEY",
            "The account's recovery key, by which it vouches for the bot's device",
            "From Element, logged in as the bot: Settings → Encryption. Without it many programs give the"
            " bot no keys to encrypted messages.",
            secret=True,
            asked=True,
        ),
        option(
            "MATRIX_AUTO_THREAD",
            "Whether who mentions it in a room is answered in a thread (false)",
            "With true each such thread is a conversation of its own.",
        ),
        proxy_field("MATRIX_PROXY", "the homeserver"),
    ),
    people="users like @you:example.org",
    person=r"@[^\s:]+:\S+",
    evidence="A: a real Synapse, which the tests start; beside it our fake, judged by matrix-nio",
)
