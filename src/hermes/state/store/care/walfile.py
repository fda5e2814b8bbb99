"""What SQLite's log file shows from outside. SQLite reads a log up to the first frame that does not fit and
silently drops the rest. After a power cut the rest is one unfinished transaction; more means damage."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGICS = {0x377F0682: "<6I", 0x377F0683: ">6I"}
_WORD = 0xFFFFFFFF


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def has_log(path: Path) -> bool:
    log = log_of(path)
    return log.exists() and log.stat().st_size > 0


def log_damage(path: Path) -> str:
    """What is wrong with the log of a database that somebody has open just now, so that SQLite has read it;
    empty if nothing more is missing than a power cut takes."""
    log = log_of(path)
    size = log.stat().st_size if log.exists() else 0
    if size < _HEADER.size:
        return ""
    with log.open("rb") as file:
        header = file.read(_HEADER.size)
        if not _fits(header):
            # A log that was never begun may be found as zeros.
            return "its log is not a log" if any(header) or any(file.read(1 << 20)) else ""
        return "its log has a hole" if _dropped(file, header, _frames_read(path)) > 1 else ""


def _dropped(file: BinaryIO, header: bytes, valid: int) -> int:
    """How many transactions of this log lie behind the last frame that SQLite could read."""
    page, salts = _HEADER.unpack(header)[2], header[16:24]
    transactions, begun = 0, False
    place = _HEADER.size + valid * (_FRAME.size + page)
    while True:
        file.seek(place)
        frame = file.read(_FRAME.size)
        if len(frame) < _FRAME.size:
            return transactions + begun
        if frame[8:16] == salts:
            begun = True
            if _FRAME.unpack(frame)[1]:
                transactions, begun = transactions + 1, False
        place += _FRAME.size + page


def _fits(header: bytes) -> bool:
    """Whether the first 32 bytes are a log's: they lie in one sector, so no power cut can tear them."""
    order = _MAGICS.get(_HEADER.unpack(header)[0])
    if order is None:
        return False
    words = struct.unpack(order, header[:24])
    first = second = 0
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _WORD
        second = (second + two + first) & _WORD
    return (first, second) == _HEADER.unpack(header)[6:]


def _frames_read(path: Path) -> int:
    """The last frame that SQLite took, as it notes it in the shared index of the log."""
    with path.with_name(path.name + "-shm").open("rb") as file:
        return int(struct.unpack("=I", file.read(20)[16:])[0])
