"""The archive of a home: a zip file with its files, a copy of its database, and a manifest with the checksum
of each. It is read strictly: what the manifest does not name, or names otherwise, is refused.

Left out is what a home makes anew or keeps elsewhere: logs, caches and sandboxes (also those of agents),
earlier backups and archives, other profiles, and what belongs to a running process. Links, and files whose
names are not UTF-8, are left out too, and named."""

from __future__ import annotations

import hashlib
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec
from msgspec import Struct, field

from hermes.domain.errors import UserError
from hermes.domain.text import one_line, storable
from hermes.state.home.homes import AGENTS_FOLDER, ARCHIVES_FOLDER, PROFILES_FOLDER, RESTORING
from hermes.state.home.wholefile import sync_file, sync_folder

FORMAT = 1
BACKUPS_FOLDER = "backups"
BEFORE_RESTORE = "before-restore"
_MANIFEST = "manifest.json"
_INSIDE = "home/"
_LARGEST_MANIFEST = 200_000_000
_PIECE = 1 << 20
_MADE_ANEW = frozenset(("logs", "cache", "sandboxes"))
KEPT_OUT = _MADE_ANEW | {BACKUPS_FOLDER, ARCHIVES_FOLDER, RESTORING, BEFORE_RESTORE, PROFILES_FOLDER}
"""Names at the top of a home that no archive holds and no restore touches; but for its backups."""
_RUNTIME = ("gateway", "reserve.bin")
"""How the names of files begin that belong to a process or to its database."""
_QUICK = frozenset(
    ("config.yaml", ".env", "auth.json", "SOUL.md", "memories", "cron", "hooks", AGENTS_FOLDER)
)
Progress = Callable[[int, int], None]
"""Hears how many files and bytes are done."""


class ArchivedFile(Struct, frozen=True, kw_only=True):
    path: str
    size: int
    mode: int
    sha256: str


class ArchiveManifest(Struct, kw_only=True):
    """`database` is the path of the database's copy; `left_out` what could not be taken along, and why."""

    made_at: datetime
    version: str
    database: str = ""
    quick: bool = False
    format: int = FORMAT
    files: list[ArchivedFile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


# --- writing -----------------------------------------------------------------------------------------


def write_archive(
    home: Path,
    target: Path,
    database: Path | None,
    manifest: ArchiveManifest,
    progress: Progress,
    skips: Callable[[str], bool] = lambda path: False,
    wrap: Callable[[IO[bytes]], AbstractContextManager[IO[bytes]]] = nullcontext,
) -> None:
    """Write an archive of the home to `target`, whole or not at all. Blocking. `database` is a copy of the
    database that nobody changes; what it `skips` stays behind; `wrap` may encrypt what goes to the file."""
    draft = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    try:
        with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as out:
            own = os.fstat(out.fileno())
            with (
                wrap(out) as packed,
                zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            ):
                if database is not None:
                    manifest.database = f"{BACKUPS_FOLDER}/{database.name}"
                    _add(archive, database, manifest.database, manifest)
                for path in (path for path in _files_of(home, manifest, own) if not skips(path)):
                    _add(archive, home / path, path, manifest)
                    progress(len(manifest.files), manifest.size)
                archive.writestr(_MANIFEST, msgspec.json.encode(manifest))
            out.flush()
            os.fsync(out.fileno())
        draft.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{target} cannot be written ({reason}).", hint="Name another place with -o."
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _files_of(home: Path, manifest: ArchiveManifest, own: os.stat_result) -> Iterator[str]:
    """All but the draft itself: it may lie in the home, and would grow for ever."""
    for top, folders, names in os.walk(home, onerror=lambda error: _leave_out(manifest, home, error)):
        at_top, of_agent = Path(top) == home, Path(top).parent == home / AGENTS_FOLDER
        if at_top or of_agent:
            kept_out = KEPT_OUT if at_top else _MADE_ANEW
            kept = (name for name in folders if name not in kept_out)
            folders[:] = sorted(name for name in kept if not manifest.quick or name in _QUICK)
            names = [name for name in names if not (at_top and name.startswith(_RUNTIME))]
            names = [name for name in names if not manifest.quick or name in _QUICK]
        for name in sorted(names + [name for name in folders if os.path.islink(os.path.join(top, name))]):
            path = os.path.relpath(os.path.join(top, name), home)
            try:
                info = os.lstat(os.path.join(top, name))
            except OSError as error:
                _leave_out(manifest, home, error)
                continue
            if stat.S_ISLNK(info.st_mode):
                manifest.left_out.append(f"{storable(path)}: a link")
            elif stat.S_ISREG(info.st_mode) and storable(path) != path:
                manifest.left_out.append(f"{storable(path)}: its name is not UTF-8")
            elif stat.S_ISREG(info.st_mode) and not os.path.samestat(info, own):
                yield path


def _leave_out(manifest: ArchiveManifest, home: Path, error: OSError) -> None:
    manifest.left_out.append(f"{storable(os.path.relpath(error.filename, home))}: {error.strerror}")


def _add(archive: zipfile.ZipFile, source: Path, path: str, manifest: ArchiveManifest) -> None:
    """A file that is gone by now, or may not be read, is left out; a member once begun is always ended."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        manifest.left_out.append(f"{path}: {error.strerror}")
        return
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(descriptor)
        digest, size = hashlib.sha256(), 0
        with archive.open(f"{_INSIDE}{path}", "w", force_zip64=True) as member:
            while piece := file.read(min(_PIECE, info.st_size - size)):  # a log may grow meanwhile
                member.write(piece)
                digest.update(piece)
                size += len(piece)
    manifest.files.append(
        ArchivedFile(path=path, size=size, mode=info.st_mode & 0o777, sha256=digest.hexdigest())
    )


# --- reading -----------------------------------------------------------------------------------------

_DAMAGED = (OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, RuntimeError, EOFError)
"""What reading a damaged archive raises, also where the damage makes it look packed or locked otherwise."""


def read_archive(source: Path, content: IO[bytes] | None = None) -> ArchiveManifest:
    """The manifest; a `UserError` says why the file is none of ours. `content` is it, decrypted."""
    try:
        with zipfile.ZipFile(content or source) as archive:
            return _manifest_of(archive, source)
    except _DAMAGED as error:
        raise _unreadable(source, error) from None


def unpack_archive(
    source: Path, folder: Path | None, progress: Progress, content: IO[bytes] | None = None
) -> ArchiveManifest:
    """Check every file of an archive; with a folder, put them there. Blocking."""
    try:
        with zipfile.ZipFile(content or source) as archive:
            manifest = _manifest_of(archive, source)
            held = {info.filename: info for info in archive.infolist()}
            named = {f"{_INSIDE}{file.path}" for file in manifest.files}
            if len(named) != len(manifest.files) or held.keys() != named | {_MANIFEST}:
                raise UserError(f"{source} does not hold what its manifest names.", hint=_ANOTHER)
            done = size = 0
            for file in manifest.files:
                with archive.open(held[f"{_INSIDE}{file.path}"]) as member:
                    _take(member, file, None if folder is None else folder / file.path, source)
                done, size = done + 1, size + file.size
                progress(done, size)
            return manifest
    except _DAMAGED as error:
        raise _unreadable(source, error) from None


_ANOTHER = "It is damaged or was changed. Use another backup."


def _unreadable(source: Path, error: Exception) -> UserError:
    if isinstance(error, OSError) and error.strerror:
        return UserError(f"{error.filename or source}: {error.strerror}.")
    return UserError(f"{source} is no whole backup of Hermes ({one_line(str(error), 120)}).", hint=_ANOTHER)


def _manifest_of(archive: zipfile.ZipFile, source: Path) -> ArchiveManifest:
    try:
        info = archive.getinfo(_MANIFEST)
        if info.file_size > _LARGEST_MANIFEST:
            raise ValueError("its manifest is too large")
        content = archive.read(info)
        if (made := msgspec.json.decode(content, type=_FormatOnly).format) != FORMAT:
            raise UserError(
                f"{source} has format {made}, and this Hermes reads format {FORMAT}.",
                hint="Update Hermes, and try again.",
            )
        manifest = msgspec.json.decode(content, type=ArchiveManifest)
    except (KeyError, msgspec.DecodeError) as error:
        raise ValueError("it has no manifest") from error
    for file in manifest.files:
        _check_path(file.path)
    if manifest.database and manifest.database not in {file.path for file in manifest.files}:
        raise ValueError("its database is missing")
    return manifest


class _FormatOnly(Struct):
    format: int


def _check_path(path: str) -> None:
    parts = PurePosixPath(path).parts
    wrong = (
        not parts
        or path.startswith("/")
        or ".." in parts
        or "\0" in path
        or str(PurePosixPath(*parts)) != path
    )
    if wrong or (parts[0] in KEPT_OUT and (parts[0] != BACKUPS_FOLDER or len(parts) != 2)):
        raise ValueError(f"it names “{one_line(path, 80)}”")


def _write(out: IO[bytes], piece: bytes, place: Path) -> None:
    try:
        while piece:
            piece = piece[out.write(piece) :]
    except OSError as error:
        hint = "Nothing was changed. Make room, and try again."
        raise UserError(f"{place} cannot be written ({error.strerror}).", hint=hint) from None


def _take(member: IO[bytes], file: ArchivedFile, target: Path | None, source: Path) -> None:
    digest, size = hashlib.sha256(), 0
    if target is not None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = target or Path(os.devnull)
    flags = os.O_WRONLY | (os.O_CREAT | os.O_EXCL if target else 0)
    with os.fdopen(os.open(place, flags, 0o600), "wb", buffering=0) as out:
        while (piece := member.read(_PIECE)) and size <= file.size:
            _write(out, piece, place)
            digest.update(piece)
            size += len(piece)
    if (size, digest.hexdigest()) != (file.size, file.sha256):
        raise UserError(f"In {source}, {one_line(file.path, 120)} is not what it was.", hint=_ANOTHER)
    if target is not None:
        target.chmod(file.mode & 0o777)
        sync_file(target)
