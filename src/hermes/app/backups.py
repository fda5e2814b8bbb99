"""Backups of a whole home: where they are kept, how many, how they are encrypted, and when the gateway makes
one by itself. When the next one is due follows from the newest file, so nothing else remembers it."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from hermes.control.chores import Chore
from hermes.control.jobs.schedule import read_schedule
from hermes.domain.clock import Clock, zone_named
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.settings import Settings
from hermes.state.home.homes import ARCHIVES_FOLDER, agent_home
from hermes.state.settings.loader import LoadedSettings

if TYPE_CHECKING:  # a gateway that makes none does without it
    from hermes.state.home.archive import ArchiveManifest, Progress

SEALED = ".sealed.zip"
_SEALED_KEY, _SEALED_HOME = "key.age", "home.zip.age"
_VARIABLE = "HERMES_BACKUP_PASSPHRASE"
_STAMP = "%Y%m%d-%H%M%S"
_NAME = re.compile(r"hermes-(?P<at>\d{8}-\d{6})-(?P<home>.+?)(?P<kind>-auto|-quick)?(?:\.sealed)?\.zip")
AUTO, QUICK = "-auto", "-quick"
"""Kinds of backups: made by the clock, of which so many are kept; without conversations and files."""
_STRANGE = re.compile(r"[^A-Za-z0-9]")
_LOOK_SECONDS = 300.0
_DRAFT_SECONDS = 86400.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ROOM = "Make room there, or copy the backup to a folder that has some."
NO_PACKAGE = "Encryption needs a package."
INSTALL = "Install it: hermes platforms install backup"


class HomeBackups(Struct, frozen=True, kw_only=True):
    """Those of one home, in one folder, which other homes may use too."""

    home: Path
    folder: Path
    version: str
    passphrase: str = ""
    left_out: tuple[str, ...] = ()
    """What each of them names as not in it."""

    def make(
        self, target: Path, database: str, now: datetime, progress: Progress, *, quick: bool
    ) -> ArchiveManifest:
        """Write a backup; encrypted if there is a passphrase. Blocking."""
        from hermes.state.home.archive import ArchiveManifest, write_archive

        _check_place(self.home, target.parent)
        manifest = ArchiveManifest(
            made_at=now, version=self.version, quick=quick, left_out=list(self.left_out)
        )
        copy = Path(database) if database and not quick else None
        if self.passphrase:
            seal = partial(sealing, passphrase=self.passphrase)
            write_archive(self.home, target, copy, manifest, progress, wrap=seal)
        else:
            write_archive(self.home, target, copy, manifest, progress)
        return manifest

    def target(self, now: datetime, kind: str = "") -> Path:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self.folder} cannot be made ({error.strerror}).") from None
        ending = SEALED if self.passphrase else ".zip"
        return self.folder / f"hermes-{now.astimezone(UTC):{_STAMP}}-{self._name}{kind}{ending}"

    @property
    def _name(self) -> str:
        """Which home it is, so that several can share a folder."""
        home = os.path.realpath(self.home)
        return f"{_STRANGE.sub('', os.path.basename(home))}-{sha256(os.fsencode(home)).hexdigest()[:6]}"

    def listed(self, *kinds: str) -> list[Path]:
        """Newest first."""
        there = self.folder.iterdir() if self.folder.is_dir() else ()
        named = ((file, _NAME.fullmatch(file.name)) for file in there)
        own = [(file, match["kind"] or "") for file, match in named if match and match["home"] == self._name]
        return sorted((file for file, kind in own if not kinds or kind in kinds), reverse=True)

    def prune(self, keep: int) -> None:
        """Remove those beyond so many, and what backups left that were cut off more than a day ago."""
        for file in self.listed(AUTO)[keep:]:
            file.unlink(missing_ok=True)
        for draft in self.folder.glob(f".hermes-*-{self._name}*.part"):
            with suppress(FileNotFoundError):  # it was just finished
                if draft.stat().st_mtime < time.time() - _DRAFT_SECONDS:
                    draft.unlink()


def made_at(backup: Path) -> datetime:
    match = _NAME.fullmatch(backup.name)
    assert match is not None
    return datetime.strptime(match["at"], _STAMP).replace(tzinfo=UTC)


def known_passphrase(loaded: LoadedSettings) -> str:
    """The one that is set; empty if none is."""
    return loaded.settings.backup.passphrase.reveal() or loaded.variable(_VARIABLE)


def backups_folder(home: Path, settings: Settings) -> Path:
    named = settings.backup.folder
    folder = Path(os.path.abspath(home / Path(named).expanduser())) if named else home / ARCHIVES_FOLDER
    _check_place(home, folder)
    return folder


def homes_outside(home: Path, settings: Settings) -> tuple[str, ...]:
    """The homes of agents (`home_dir`) that no backup of this home holds."""
    outside = []
    for agent in settings.agents:
        with suppress(UserError):  # it is told with its home_dir
            place = agent_home(home, AgentId(agent), settings)
            if not place.is_relative_to(home):
                outside.append(f"{place}: the home of the agent {agent}, outside of {home}")
    return tuple(outside)


def _check_place(home: Path, folder: Path) -> None:
    inside, place = Path(os.path.realpath(home)), Path(os.path.realpath(folder))
    if place.is_relative_to(inside) and not place.is_relative_to(inside / ARCHIVES_FOLDER):
        raise UserError(
            f"{folder} is in the home, so each backup would hold the ones before it.",
            hint=f"Name a folder outside of {home}, or {home / ARCHIVES_FOLDER}.",
        )


# --- encryption --------------------------------------------------------------------------------------
#
# A sealed backup is a zip file of two: the archive encrypted to a key made for it, and that key encrypted
# with the passphrase. `age -d -i key.age home.zip.age` reads it without Hermes.


@contextmanager
def sealing(file: IO[bytes], passphrase: str) -> Iterator[IO[bytes]]:
    """Where to write what is encrypted into the file: a pipe, so that the plain text is on no disk."""
    from zipfile import ZipFile

    pyrage = _pyrage()
    identity = pyrage.x25519.Identity.generate()
    key = pyrage.passphrase.encrypt(f"{identity}\n".encode(), passphrase)
    with ZipFile(file, "w") as out:
        out.writestr(_SEALED_KEY, key)
        with out.open(_SEALED_HOME, "w", force_zip64=True) as member, ThreadPoolExecutor(1) as pool:
            reading, writing = os.pipe()

            def encrypt() -> None:
                with os.fdopen(reading, "rb") as source:
                    pyrage.encrypt_io(source, member, [identity.to_public()])

            with suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
                done = pool.submit(encrypt)
                yield pipe
            done.result()


@contextmanager
def opened(backup: Path, passphrase: Callable[[], str]) -> Iterator[IO[bytes]]:
    """A backup as a plain archive, decrypted for as long as it is needed: beside itself, or among the
    temporary files where that cannot be written, in a file without a name that no crash leaves behind."""
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(backup) as archive:
            key = archive.read(_SEALED_KEY) if set(archive.namelist()) == {_SEALED_KEY, _SEALED_HOME} else b""
    except OSError as error:
        raise UserError(f"{backup}: {error.strerror}.") from None
    except BadZipFile:
        key = b""  # who reads it says what is wrong with it
    if not key:
        with backup.open("rb") as plain:
            yield plain
        return
    pyrage, words = _pyrage(), passphrase()
    place = backup.parent if _is_writable(backup.parent) else Path(gettempdir())
    no_room = UserError(f"There is too little room in {place} to decrypt {backup.name}.", hint=_ROOM)
    if shutil.disk_usage(place).free < backup.stat().st_size:
        raise no_room
    with TemporaryFile(dir=place) as plain:
        try:
            identity = pyrage.x25519.Identity.from_str(pyrage.passphrase.decrypt(key, words).decode().strip())
            with ZipFile(backup) as archive, archive.open(_SEALED_HOME) as source:
                pyrage.decrypt_io(source, plain, [identity])
            plain.flush()
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
            left_out=homes_outside(home, current),
        )
        if (last := next(map(made_at, backups.listed(AUTO)), None)) is not None:
            due = read_schedule(chosen.schedule, last, zone_named(current.timezone)).after(last)
            if due is None or due > now:
                return "nothing was due"
        target = backups.target(now, AUTO)
        database = await copy_database()
        manifest = await asyncio.to_thread(
            backups.make, target, database, now, lambda files, size: None, quick=False
        )
        await asyncio.to_thread(backups.prune, chosen.keep)
        return f"made {target.name}, {len(manifest.files)} files"

    return Chore(name="home backup", every=_LOOK_SECONDS, run=look, first=60.0, reported=True)
