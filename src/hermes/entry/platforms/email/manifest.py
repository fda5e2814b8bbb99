"""Email on paper."""

from __future__ import annotations

from hermes.domain.capabilities import (
    AlbumLimit,
    Capabilities,
    Flavour,
    Grade,
    Manifest,
    MediaLimit,
    SettingField,
)
from hermes.domain.message import MediaKind

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
        answers_strangers=False,
        hint="This is email: write whole sentences, and everything in one message, for nobody sees drafts.",
    ),
    requires=("aiosmtplib",),
    extra="email",
    settings=(
        SettingField(
            env="EMAIL_ADDRESS",
            title="The address that people write to",
            hint="Give it a mailbox of its own: every mail that comes there is read.",
        ),
        SettingField(
            env="EMAIL_OAUTH_PROVIDER",
            title="google or microsoft, if they are to let us in without a password (OAuth)",
            required=False,
            asked=True,
            hint="Outlook.com and Microsoft 365 take no passwords. Leave it empty for a password.",
        ),
        SettingField(
            env="EMAIL_PASSWORD",
            title="The mailbox's password",
            secret=True,
            required=False,
            unless="EMAIL_OAUTH_PROVIDER",
            hint="Where two factors are on (Gmail, iCloud, Yahoo), make an app password.",
        ),
        SettingField(
            env="EMAIL_OAUTH_CLIENT_ID",
            title="The id of the application that you registered with the provider",
            required=False,
            unless="EMAIL_PASSWORD",
            hint="docs/platforms/email.md says how.",
        ),
        SettingField(
            env="EMAIL_OAUTH_CLIENT_SECRET",
            title="The application's secret, if it has one",
            secret=True,
            required=False,
            unless="EMAIL_PASSWORD",
        ),
        SettingField(
            env="EMAIL_OAUTH_REFRESH_TOKEN",
            title="What access tokens are got with",
            secret=True,
            required=False,
            hint="`hermes platforms login email` gets it, once the rest is kept.",
        ),
        SettingField(
            env="EMAIL_OAUTH_TOKEN_URL",
            title="Where access tokens are got, if that is not the provider's usual place",
            required=False,
        ),
        SettingField(
            env="EMAIL_IMAP_HOST",
            title="The server that mail is read from",
            required=False,
            unless="EMAIL_OAUTH_PROVIDER",
            hint="For example imap.gmail.com; your provider's help page names it.",
        ),
        SettingField(
            env="EMAIL_SMTP_HOST",
            title="The server that mail is sent through",
            required=False,
            unless="EMAIL_OAUTH_PROVIDER",
            hint="For example smtp.gmail.com.",
        ),
        SettingField(
            env="EMAIL_AUTHSERV",
            title="The name by which your server signs what it found out about senders",
            required=False,
            hint="Leave it empty for Gmail, iCloud, Yahoo, AOL, Fastmail and Microsoft: they are known. Else"
            " it is the first word after “Authentication-Results:” in a mail that you received;"
            " *.example.org for any below that, several with commas.",
            asked=True,
        ),
        SettingField(
            env="EMAIL_AUTHSERV_PLACE",
            title="above or below: where your server writes that, seen from its own Received line (above)",
            required=False,
            hint="A sender can write below it, too: only for a server that checks every mail, or removes"
            " foreign lines with its name.",
        ),
        SettingField(
            env="EMAIL_TRUST_FROM",
            title="Whether every From line is believed (false)",
            required=False,
            hint="Whoever forges an allowed address is heard then.",
        ),
        SettingField(
            env="EMAIL_IMAP_PORT",
            title="The port for reading (993)",
            required=False,
            hint="993 is encrypted from the start; with any other the connection is upgraded (STARTTLS).",
        ),
        SettingField(
            env="EMAIL_SMTP_PORT",
            title="The port for sending (587)",
            required=False,
            hint="465 is encrypted from the start; with any other the connection is upgraded (STARTTLS).",
        ),
        SettingField(
            env="EMAIL_USER",
            title="The name to log in with, if it is not the address",
            required=False,
        ),
        SettingField(
            env="EMAIL_NAME",
            title="The name that people see as the sender (Hermes)",
            required=False,
        ),
        SettingField(
            env="EMAIL_FOLDER",
            title="The folder that is read (INBOX)",
            required=False,
        ),
        SettingField(
            env="EMAIL_MAX_PER_HOUR",
            title="How many mails an hour are taken from one sender (60); 0 is any number",
            required=False,
            hint="Two machines that answer each other would go on for ever.",
        ),
        SettingField(
            env="EMAIL_POLL_INTERVAL",
            title="Seconds between looks (15), where the server cannot tell of new mail by itself",
            required=False,
        ),
        SettingField(
            env="EMAIL_SELF_COPY",
            title="Whether each mail is also sent to the mailbox itself (true)",
            required=False,
            hint="It proves that a mail left when an answer of the server got lost.",
        ),
        SettingField(
            env="EMAIL_CA_FILE",
            title="A file with the certificate of a private authority",
            required=False,
            hint="For a mail server of your own.",
        ),
        SettingField(
            env="EMAIL_TLS",
            title="Whether connections are encrypted (true); false is for servers on this machine only",
            required=False,
        ),
    ),
    login="hermes.entry.platforms.email.login:log_in",
    people="addresses like ann@example.org",
    person=r"[^\s@]+@[^\s@]+",
    evidence="A: dovecot and postfix, and pymap with aiosmtpd",
)
