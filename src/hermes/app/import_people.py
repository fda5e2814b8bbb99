"""People whom the earlier product had let in: its files `pairing/<platform>-approved.json`, imported once."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from hermes.control.people.pairing import import_paired
from hermes.domain.address import DEFAULT_ACCOUNT
from hermes.domain.errors import UserError
from hermes.domain.pairing import Account, PairedUser
from hermes.domain.ports.store import Store
from hermes.domain.text import one_line
from hermes.state.home.jsonfile import read_mapping

log = logging.getLogger("hermes.app")
FOLDERS = ("platforms/pairing", "pairing")
_SUFFIX = "-approved.json"
_MOST_BYTES = 4_000_000
_NAME = 100


async def import_people(home: Path, store: Store) -> int:
    """Let in everybody who was approved there. A file that cannot be read is logged and tried at the
    next start; one that was imported is not read again, so that nobody who was revoked since comes back."""
    count = 0
    for file in await asyncio.to_thread(_files, home):
        try:
            people = await asyncio.to_thread(read_approved, file)
        except UserError as error:
            log.warning("pairing.not_imported %s", error)
            continue
        label = str(file.relative_to(home))
        new = await store.write(partial(import_paired, label=label, people=people))
        if new:
            log.info("pairing.imported file=%s people=%d", label, new)
        count += new
    return count


def read_approved(file: Path) -> list[PairedUser]:
    """The people of one file; a `UserError` if it is not what it should be."""
    tree = read_mapping(file, _MOST_BYTES)
    account = Account(platform=file.name.removesuffix(_SUFFIX).lower(), name=DEFAULT_ACCOUNT)
    return [_paired(account, user, facts, file) for user, facts in tree.items() if user.strip()]


def _paired(account: Account, user: str, facts: Any, file: Path) -> PairedUser:
    noted = facts if isinstance(facts, dict) else {}
    name = noted.get("user_name")
    return PairedUser(
        account=account,
        user=user.strip(),
        name=one_line(name, _NAME) if isinstance(name, str) else "",
        approved_at=_time(noted.get("approved_at"), file),
        by="imported",
    )


def _time(value: Any, file: Path) -> datetime:
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value)
            return read if read.tzinfo else read.replace(tzinfo=UTC)
        return datetime.fromtimestamp(float(value), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def _files(home: Path) -> list[Path]:
    return [
        file for folder in FOLDERS for file in sorted((home / folder).glob(f"*{_SUFFIX}")) if file.is_file()
    ]
