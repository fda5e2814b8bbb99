"""A skill as a whole: its files by their paths, checked before anybody looks into them. What escapes, links,
is too large or too much is refused, whether it comes as a folder or as a zip."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from unicodedata import normalize

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.knowledge.skill import SKILL_FILE, SkillTrust, check_name, digest_of, slug
from hermes.domain.text import one_line, trouble_told
from hermes.state.skills.manifest import SkillManifest, read_manifest
from hermes.state.skills.shelf import SkillShelf, read_file

if TYPE_CHECKING:
    from zipfile import ZipFile

MOST_FILES, MOST_BYTES, LARGEST_FILE = 200, 4 << 20, 1 << 20
LARGEST_ZIP = 20 << 20
_DEEPEST, _LONGEST = 6, 200
_BROKEN = (EOFError, RuntimeError, ValueError, LookupError, ArithmeticError, OSError)
"""What a broken zip has its reader raise, beside errors of its own."""
_SKIPPED = frozenset({".git", "__pycache__", ".DS_Store", "__MACOSX"})


class SkillPackage(Struct, frozen=True, kw_only=True):
    """A skill that can be installed."""

    files: Mapping[str, bytes]
    manifest: SkillManifest

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def digest(self) -> str:
        return digest_of(self.files)


def pack(files: Mapping[str, bytes], folder: str) -> SkillPackage:
    """The files as a skill; `folder` is the name of the one that they lie in."""
    for path in files:
        check_file_path(path)
    _check_apart(files)
    _check_amount(len(files), sum(map(len, files.values())))
    try:
        text = files[SKILL_FILE].decode("utf-8")
    except KeyError:
        raise UserError(f"There is no {SKILL_FILE} in it.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{SKILL_FILE} is not UTF-8 text.") from error
    manifest = read_manifest(text, folder)
    check_name(manifest.name)
    return SkillPackage(files=dict(files), manifest=manifest)


def is_kept(path: str) -> bool:
    """Whether a file belongs to the skill, and was not left beside it by some program."""
    return _SKIPPED.isdisjoint(PurePosixPath(path).parts)


def check_file_path(path: str) -> None:
    parts = PurePosixPath(path).parts
    plain = path == "/".join(parts) and not path.startswith("/") and path.isprintable() and "\\" not in path
    far = len(parts) > _DEEPEST or len(path) > _LONGEST or any(len(os.fsencode(p)) > _LONGEST for p in parts)
    if not plain or not parts or {"..", "."} & {*parts} or far:
        raise UserError(f"“{one_line(path, 80)}” leads out of the skill or is no plain path.")


def _check_apart(files: Iterable[str]) -> None:
    """Every disk can hold them: no name is a file and a folder, or another one's but for capitals."""
    seen, folders = set[str](), set[str]()
    for path in files:
        plain = PurePosixPath(normalize("NFC", path).casefold())
        if str(plain) in seen:
            raise UserError(f"“{one_line(path, 80)}” is there twice.")
        seen.add(str(plain))
        folders.update(map(str, plain.parents))
    if both := sorted(seen & folders):
        raise UserError(f"“{one_line(both[0], 80)}” is a file and a folder.")


def _check_amount(count: int, size: int) -> None:
    if count > MOST_FILES or size > MOST_BYTES:
        raise UserError(f"A skill has at most {MOST_FILES} files and {MOST_BYTES >> 20} MB.")


def choose_root(paths: Iterable[str], wanted: str) -> str:
    """The folder of the skill that is meant, among the paths of files; empty if it is the top one."""
    roots = {PurePosixPath(path).parent for path in paths if _is_skill(path)}
    outer = [root for root in roots if roots.isdisjoint(root.parents)]
    shown = [root for root in outer if not any(part.startswith(".") for part in root.parts)]
    return _choose(("" if root == PurePosixPath() else str(root) for root in shown or outer), wanted)


def _choose(names: Iterable[str], wanted: str) -> str:
    """The folder of the skill that is meant, among those that hold one."""
    folders = sorted(set(names))
    if folders == [""]:
        return ""
    if wanted:
        named = [name for name in folders if slug(PurePosixPath(name).name) == slug(wanted)]
        if len(named) == 1:
            return named[0]
        if folders and not named:
            listed = ", ".join(PurePosixPath(name).name for name in folders[:20])
            raise UserError(f"There is no skill “{one_line(wanted, 70)}” in it, but {one_line(listed, 300)}.")
        folders = named
    elif len(folders) == 1:
        return folders[0]
    if not folders:
        raise UserError(f"There is no {SKILL_FILE} in it.")
    listed = ", ".join(PurePosixPath(name).name for name in folders[:20])
    raise UserError(
        f"There are several skills in it: {one_line(listed, 300)}.",
        hint="Name one behind the address: …#name",
    )


def pack_folder(folder: Path, wanted: str = "") -> SkillPackage:
    """The skill in a folder, or the one of this name below it. Blocking: call it off the loop."""
    if not (folder / SKILL_FILE).is_file():
        shelf = SkillShelf(folder, SkillTrust.COMMUNITY)
        shelf.scan()
        if not shelf.skills and shelf.faults:
            raise UserError(f"{one_line(shelf.faults[0].folder)}: {shelf.faults[0].why}")
        folder = Path(_choose((skill.folder for skill in shelf.skills), wanted))
    files: dict[str, bytes] = {}
    size = 0
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        check_file_path(name)
        files[name] = read_file(folder, name, LARGEST_FILE)
        size += len(files[name])
        _check_amount(len(files), size)
    return pack(files, folder.name)


def _walk(folder: Path) -> Iterable[Path]:
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as inside:
                entries = sorted(inside, key=lambda entry: entry.name)
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {trouble_told(error)}.") from error
        for entry in entries:
            if entry.name in _SKIPPED:
                continue
            if entry.is_symlink():
                raise UserError(f"{one_line(entry.name)} is a link, and a skill may hold none.")
            if entry.is_dir():
                waiting.append(Path(entry.path))
            else:
                yield Path(entry.path)


def pack_zip(data: bytes, wanted: str = "") -> SkillPackage:
    """The skill in a zip. Nothing is unpacked that was not counted first; what its list says of sizes is not
    believed."""
    import struct
    import zipfile
    import zlib

    if len(data) > LARGEST_ZIP:
        raise UserError(f"The zip is larger than {LARGEST_ZIP >> 20} MB.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _unzip(archive, wanted)
    except (zipfile.BadZipFile, zlib.error, struct.error, *_BROKEN) as error:
        raise UserError("It is no zip that can be read.") from error


def _unzip(archive: ZipFile, wanted: str) -> SkillPackage:
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    root = choose_root(archive.namelist(), wanted)
    files: dict[str, bytes] = {}
    size = 0
    for entry in entries:
        path = PurePosixPath(entry.filename)
        if ".." in path.parts or path.is_absolute():
            check_file_path(entry.filename)
        if (root and not path.is_relative_to(root)) or not is_kept(entry.filename):
            continue
        name = entry.filename.removeprefix(f"{root}/") if root else entry.filename
        check_file_path(name)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise UserError(f"{one_line(name)} is a link, and a skill may hold none.")
        if entry.compress_type not in (0, 8):  # others unpack more than one asked for
            raise UserError(f"{one_line(name)} is packed in a way that is not read.")
        with archive.open(entry) as file:
            content = file.read(LARGEST_FILE + 1)
        size += len(content)
        if len(content) > LARGEST_FILE:
            raise UserError(f"{one_line(name)} is larger than {LARGEST_FILE >> 20} MB.")
        files[name] = content
        _check_amount(len(files), size)
    return pack(files, PurePosixPath(root).name)


def _is_skill(name: str) -> bool:
    return name == SKILL_FILE or name.endswith(f"/{SKILL_FILE}")
