"""Backups of a whole home: where they are kept, how many, how they are encrypted, and when the gateway makes
one by itself. When the next one is due follows from the newest file, so nothing else remembers it."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hermes.control.chores import Chore
from hermes.control.jobs.schedule import read_schedule
from hermes.domain.clock import Clock, zone_named
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import Settings
from hermes.state.home.homes import ARCHIVES_FOLDER
from hermes.state.home.wholefile import sync_file, sync_folder
from hermes.state.settings.loader import LoadedSettings

if TYPE_CHECKING:  # a gateway that makes none does without it
    from hermes.state.home.archive import ArchiveManifest, Progress

SEALED = ".sealed.zip"
_SEALED_KEY, _SEALED_HOME = "key.age", "home.zip.age"
_VARIABLE = "HERMES_BACKUP_PASSPHRASE"
_STAMP = "%Y%m%d-%H%M%S"
_NAME = re.compile(r"hermes-(\d{8}-\d{6})(?:-quick)?(?:\.sealed)?\.zip")
_LOOK_SECONDS = 300.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ROOM = "Make room there, or copy the backup to a folder that has some."
NO_PACKAGE = "Encryption needs a package."
INSTALL = "Install it: hermes platforms install backup"


class HomeBackups(Struct, frozen=True, kw_only=True):
    """Those of one home, in one folder."""

    home: Path
    folder: Path
    version: str
    passphrase: str = ""

    def make(
        self, target: Path, database: str, now: datetime, progress: Progress, *, quick: bool
    ) -> ArchiveManifest:
        """Write a backup; encrypted if there is a passphrase. Blocking."""
        from hermes.state.home.archive import ArchiveManifest, unwritten, write_archive

        manifest = ArchiveManifest(made_at=now, version=self.version, quick=quick)
        copy = Path(database) if database and not quick else None
        if not self.passphrase:
            write_archive(self.home, target, copy, manifest, progress)
            return manifest
        try:
            with TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
                plain = Path(folder) / "plain.zip"
                write_archive(self.home, plain, copy, manifest, progress)
                sealed = Path(folder) / target.name
                encrypt(plain, sealed, self.passphrase)
                sync_file(sealed)
                sealed.replace(target)
                sync_folder(target.parent)
        except OSError as error:
            raise unwritten(target, error) from None
        return manifest

    def target(self, now: datetime, *, quick: bool) -> Path:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self.folder} cannot be made ({error.strerror}).") from None
        kind = "-quick" if quick else ""
        ending = SEALED if self.passphrase else ".zip"
        return self.folder / f"hermes-{now.astimezone(UTC):{_STAMP}}{kind}{ending}"

    def listed(self) -> list[Path]:
        """Newest first."""
        there = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted((file for file in there if _NAME.fullmatch(file.name)), reverse=True)

    def prune(self, keep: int) -> None:
        for file in self.listed()[keep:]:
            file.unlink(missing_ok=True)


def made_at(backup: Path) -> datetime:
    match = _NAME.fullmatch(backup.name)
    assert match is not None
    return datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)


def known_passphrase(loaded: LoadedSettings) -> str:
    """The one that is set; empty if none is."""
    return loaded.settings.backup.passphrase.reveal() or loaded.variable(_VARIABLE)


def backups_folder(home: Path, settings: Settings) -> Path:
    named = settings.backup.folder
    return Path(os.path.abspath(home / Path(named).expanduser())) if named else home / ARCHIVES_FOLDER


# --- encryption --------------------------------------------------------------------------------------
#
# A sealed backup is a zip file of two: the archive encrypted to a key made for it, and that key encrypted
# with the passphrase. `age -d -i key.age home.zip.age` reads it without Hermes.


def encrypt(plain: Path, sealed: Path, passphrase: str) -> None:
    from zipfile import ZipFile

    pyrage = _pyrage()
    identity = pyrage.x25519.Identity.generate()
    key = pyrage.passphrase.encrypt(f"{identity}\n".encode(), passphrase)
    descriptor = os.open(sealed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with plain.open("rb") as source, os.fdopen(descriptor, "w+b") as file, ZipFile(file, "w") as out:
        out.writestr(_SEALED_KEY, key)
        with out.open(_SEALED_HOME, "w", force_zip64=True) as member:
            pyrage.encrypt_io(source, member, [identity.to_public()])


@contextmanager
def opened(backup: Path, passphrase: Callable[[], str]) -> Iterator[Path]:
    """A backup as a plain archive, decrypted for as long as it is needed: beside itself, or among the
    temporary files where that cannot be written."""
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(backup) as archive:
            key = archive.read(_SEALED_KEY) if set(archive.namelist()) == {_SEALED_KEY, _SEALED_HOME} else b""
    except OSError as error:
        raise UserError(f"{backup}: {error.strerror}.") from None
    except BadZipFile:
        key = b""  # who reads it says what is wrong with it
    if not key:
        yield backup
        return
    pyrage, words = _pyrage(), passphrase()
    place = backup.parent if _is_writable(backup.parent) else Path(gettempdir())
    no_room = UserError(f"There is too little room in {place} to decrypt {backup.name}.", hint=_ROOM)
    if shutil.disk_usage(place).free < backup.stat().st_size:
        raise no_room
    with TemporaryDirectory(dir=place, prefix=".backup-") as folder:
        plain = Path(folder) / "plain.zip"
        try:
            identity = pyrage.x25519.Identity.from_str(pyrage.passphrase.decrypt(key, words).decode().strip())
            with ZipFile(backup) as archive, archive.open(_SEALED_HOME) as source, plain.open("wb") as out:
                pyrage.decrypt_io(source, out, [identity])
        except (pyrage.DecryptError, pyrage.IdentityError, BadZipFile, OSError) as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise no_room from None
            hint = "The passphrase is wrong, or the file is damaged."
            raise UserError(f"{backup} cannot be decrypted.", hint=hint) from None
        yield plain


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY


def _pyrage() -> Any:
    try:
        import pyrage
    except ImportError:
        raise UserError(NO_PACKAGE, hint=INSTALL) from None
    return pyrage


# --- by the clock ------------------------------------------------------------------------------------


def archiving(
    home: Path,
    loaded: Callable[[], LoadedSettings],
    clock: Clock,
    version: str,
    copy_database: Callable[[], Awaitable[str]],
) -> Chore:
    """Makes a backup when one is due by `backup.schedule`."""

    async def look() -> str:
        now, known = clock.now(), loaded()
        current = known.settings
        chosen = current.backup
        if not chosen.schedule:
            return "not scheduled"
        backups = HomeBackups(
            home=home,
            folder=backups_folder(home, current),
            version=version,
            passphrase=known_passphrase(known),
        )
        if (last := next(map(made_at, backups.listed()), None)) is not None:
            due = read_schedule(chosen.schedule, last, zone_named(current.timezone)).after(last)
            if due is None or due > now:
                return "nothing was due"
        target = backups.target(now, quick=False)
        database = await copy_database()
        manifest = await asyncio.to_thread(
            backups.make, target, database, now, lambda files, size: None, quick=False
        )
        await asyncio.to_thread(backups.prune, chosen.keep)
        return f"made {target.name}, {len(manifest.files)} files"

    return Chore(name="home backup", every=_LOOK_SECONDS, run=look, first=60.0)
