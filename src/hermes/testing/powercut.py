"""A disk whose power can be cut. It lies under SQLite as a VFS, lets everything through to real files, and
remembers beside them what was synced and what was only written. A cut gives the files as they may be found
afterwards: all that was synced, and of the rest any part, torn at 512 bytes."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw

SECTOR = 512
_names = itertools.count(1)


@dataclass(slots=True)
class _Disk:
    """One file: what is safe, and what happened since (a write at a place, or a new length)."""

    safe: bytearray = field(default_factory=bytearray)
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for place, data in self.since:
            _apply(self.safe, place, data)
        self.since.clear()

    def after_cut(self, dice: random.Random) -> bytes:
        found = bytearray(self.safe)
        for place, data in self.since:
            if data is None:
                if dice.random() < 0.5:
                    _apply(found, place, None)
                continue
            # Sectors reach the disk in any order, so each of them may or may not be there.
            kept = dice.choice((0.0, 0.5, 1.0))
            for start in range(0, len(data), SECTOR):
                if dice.random() < kept:
                    _apply(found, place + start, data[start : start + SECTOR])
        return bytes(found)


def _apply(content: bytearray, place: int, data: bytes | None) -> None:
    if data is None:
        del content[place:]
        return
    if len(content) < place:
        content.extend(bytes(place - len(content)))
    content[place : place + len(data)] = data


class PowerCut(apsw.VFS):
    """The VFS. `cuts` are asked for beforehand; each is taken in the midst of an operation of the disk.

    `before_cut` is called at that very moment, on the thread that writes: what it notes was true when the
    power went."""

    def __init__(self, seed: int, before_cut: Callable[[], object] = lambda: None) -> None:
        self.name = f"powercut-{next(_names)}"
        self.cuts: list[tuple[object, dict[str, bytes]]] = []
        self._dice = random.Random(seed)
        self._before_cut = before_cut
        self._disks: dict[str, _Disk] = {}
        self._lock = threading.RLock()
        self._countdown = 0
        self._wanted = 0
        self._mean = 1
        super().__init__(self.name, "")

    def load(self, folder: Path, files: dict[str, bytes]) -> None:
        """Begin with these files, safe on the disk."""
        for name, content in files.items():
            (folder / name).write_bytes(content)
            self._disks[name] = _Disk(safe=bytearray(content))

    def want(self, count: int, mean: int) -> None:
        """Take that many cuts from now on, about `mean` operations of the disk apart."""
        self._wanted, self._mean = count, mean
        self._countdown = self._dice.randint(1, 2 * mean)

    @property
    def wanted(self) -> int:
        return self._wanted

    def cut(self) -> dict[str, bytes]:
        """The files as they would be found if the power went now."""
        with self._lock:
            return {name: disk.after_cut(self._dice) for name, disk in self._disks.items()}

    # --- what files report ---

    def disk(self, name: str) -> _Disk:
        with self._lock:
            return self._disks.setdefault(name, _Disk())

    def happened(self, disk: _Disk, place: int, data: bytes | None) -> None:
        with self._lock:
            disk.since.append((place, data))
            self._maybe_cut()

    def synced(self, disk: _Disk) -> None:
        with self._lock:
            self._maybe_cut()
            disk.sync()

    def _maybe_cut(self) -> None:
        if not self._wanted:
            return
        self._countdown -= 1
        if self._countdown <= 0:
            noted = self._before_cut()
            self.cuts.append((noted, self.cut()))
            self._wanted -= 1
            self._countdown = self._dice.randint(1, 2 * self._mean)

    # --- the VFS ---

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        with self._lock:
            self._disks.pop(Path(filename).name, None)


class _RecordedFile(apsw.VFSFile):
    def __init__(self, vfs: PowerCut, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._vfs = vfs
        # A file without a name is SQLite's own scratch paper and never outlives it.
        self._disk = vfs.disk(Path(path).name) if path else _Disk()

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._vfs.happened(self._disk, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._vfs.happened(self._disk, newsize, None)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._vfs.synced(self._disk)


class SmallDisk(apsw.VFS):
    """A disk that is full when what lies on it has this many bytes together, until it is given more."""

    def __init__(self, limit: int) -> None:
        self.name = f"smalldisk-{next(_names)}"
        self.limit = limit
        self.reserved = 0
        self._sizes: dict[str, int] = {}
        super().__init__(self.name, "")

    @property
    def used(self) -> int:
        return sum(self._sizes.values()) + self.reserved

    def grow(self, name: str, size: int) -> None:
        more = size - self._sizes.get(name, 0)
        if more <= 0:
            return
        if self.used + more > self.limit:
            raise apsw.FullError("the small disk is full")
        self._sizes[name] = size

    def shrink(self, name: str, size: int) -> None:
        self._sizes[name] = min(size, self._sizes.get(name, 0))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _MeasuredFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._sizes.pop(Path(filename).name, None)


class _MeasuredFile(apsw.VFSFile):
    def __init__(self, disk: SmallDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._name = Path(path).name if path else "scratch"

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.grow(self._name, offset + len(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.shrink(self._name, newsize)
