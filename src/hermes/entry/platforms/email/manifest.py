"""Email on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import (
    AlbumLimit,
    Capabilities,
    Flavour,
    Grade,
    Manifest,
    MediaLimit,
    PackageExtra,
    SettingField,
)
from hermes.domain.chats.message import MediaKind
from hermes.entry.kit.fields import option

_FILE_BYTES = 18_000_000
"""Most servers take 25 MB, and a file grows by a third on its way."""
_TEXT = 50_000
_KINDS = (MediaKind.IMAGE, MediaKind.AUDIO, MediaKind.VIDEO, MediaKind.FILE)

MANIFEST = Manifest(
    name="email",
    title="Email",
    adapter="hermes.entry.platforms.email.adapter:EmailAdapter",
    capabilities=Capabilities(
        max_text=_TEXT,
        flavour=Flavour.HTML,
        threads=Grade.PARTIAL,
        media={kind: MediaLimit(max_bytes=_FILE_BYTES, caption=_TEXT) for kind in _KINDS},
        albums=(AlbumLimit(kinds=frozenset(_KINDS), most=20, max_bytes=_FILE_BYTES),),
        fetches=True,
        history=True,
        silence_seconds=900.0,
        # A server may look through a mail for ten minutes before it says that it has it (RFC 5321).
        send_seconds=660.0,
        answers_strangers=False,
        hint="This is email: write whole sentences, and everything in one message, for nobody sees drafts.",
    ),
    requires=("aiosmtplib",),
    extra=PackageExtra(name="email", modules=("aiosmtplib",)),
    settings=(
        SettingField(
            env="EMAIL_ADDRESS",
            title="The address that people write to",
            hint="Give it a mailbox of its own: every mail that comes there is read.",
        ),
        option(
            "EMAIL_OAUTH_PROVIDER",
            "google or microsoft, if they are to let us in without a password (OAuth)",
            "Outlook.com and Microsoft 365 take no passwords. Leave it empty for a password.",
            asked=True,
            choices=("google", "microsoft"),
        ),
        option(
            "EMAIL_PASSWORD",
            "The mailbox's password",
            "Where two factors are on (Gmail, iCloud, Yahoo), make an app password.",
            secret=True,
            unless="EMAIL_OAUTH_PROVIDER",
        ),
        option(
            "EMAIL_OAUTH_CLIENT_ID",
            "The id of the application that you registered with the provider",
            "docs/platforms/email.md says how.",
            unless="EMAIL_PASSWORD",
        ),
        option(
            "EMAIL_OAUTH_CLIENT_SECRET",
            "The application's secret, if it has one",
            secret=True,
            unless="EMAIL_PASSWORD",
        ),
        option(
            "EMAIL_OAUTH_REFRESH_TOKEN",
            "What access tokens are got with",
            "`hermes platforms login email` gets it, once the rest is kept.",
            secret=True,
        ),
        option(
            "EMAIL_OAUTH_TOKEN_URL", "Where access tokens are got, if that is not the provider's usual place"
        ),
        option(
            "EMAIL_IMAP_HOST",
            "The server that mail is read from",
            "For example imap.gmail.com; your provider's help page names it.",
            unless="EMAIL_OAUTH_PROVIDER",
        ),
        option(
            "EMAIL_SMTP_HOST",
            "The server that mail is sent through",
            "For example smtp.gmail.com.",
            unless="EMAIL_OAUTH_PROVIDER",
        ),
        option(
            "EMAIL_AUTHSERV",
            "The name by which your server signs what it found out about senders",
            "Leave it empty for Gmail, iCloud, Yahoo, AOL, Fastmail and Microsoft: they are known. Else"
            " it is the first word after “Authentication-Results:” in a mail that you received;"
            " *.example.org for any below that, several with commas.",
            asked=True,
        ),
        option(
            "EMAIL_AUTHSERV_PLACE",
            "above or below: where your server writes that, seen from its own Received line (above)",
            "A sender can write below it, too: only for a server that checks every mail, or removes"
            " foreign lines with its name.",
            choices=("above", "below"),
        ),
        option(
            "EMAIL_TRUST_FROM",
            "Whether every From line is believed (false)",
            "Whoever forges an allowed address is heard then.",
        ),
        option(
            "EMAIL_IMAP_PORT",
            "The port for reading (993)",
            "993 is encrypted from the start; with any other the connection is upgraded (STARTTLS).",
        ),
        option(
            "EMAIL_SMTP_PORT",
            "The port for sending (587)",
            "465 is encrypted from the start; with any other the connection is upgraded (STARTTLS).",
        ),
        option("EMAIL_USER", "The name to log in with, if it is not the address"),
        option("EMAIL_NAME", "The name that people see as the sender (Hermes)"),
        option("EMAIL_FOLDER", "The folder that is read (INBOX)"),
        option(
            "EMAIL_MAX_PER_HOUR",
            "How many mails an hour are taken from one sender (60); 0 is any number",
            "Two machines that answer each other would go on for ever.",
        ),
        option(
            "EMAIL_POLL_INTERVAL",
            "Seconds between looks (15), where the server cannot tell of new mail by itself",
        ),
        option(
            "EMAIL_SELF_COPY",
            "Whether each mail is also sent to the mailbox itself (true)",
            "It proves that a mail left when an answer of the server got lost.",
        ),
        option(
            "EMAIL_CA_FILE",
            "A file with the certificate of a private authority",
            "For a mail server of your own.",
        ),
        option(
            "EMAIL_TLS",
            "How connections are encrypted: true, direct or false (true)",
            "direct: from the start, on any port; false: not at all, for servers on this machine only.",
            choices=("true", "direct", "false"),
        ),
    ),
    login="hermes.entry.platforms.email.oauth:log_in",
    people="addresses like ann@example.org",
    person=r"[^\s@]+@[^\s@]+",
    evidence="A: dovecot and postfix, and pymap with aiosmtpd",
)
