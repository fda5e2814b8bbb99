"""Settings of the backups of a whole home."""

from __future__ import annotations

from hermes.domain.settings.declaring import Secret, Section, setting


class BackupSettings(Section, frozen=True, kw_only=True):
    """Backups of the whole home that the gateway makes by itself (`hermes backup schedule`)."""

    schedule: str = setting("", "When, like `every day at 3am` or `0 3 * * *`; empty = never.")
    keep: int = setting(7, "How many of them are kept.", least=1, most=1000)
    folder: str = setting("", "Where they are kept; empty = `archives` in the home.")
    passphrase: Secret = setting(Secret(""), "With it they are encrypted.", env="HERMES_BACKUP_PASSPHRASE")
