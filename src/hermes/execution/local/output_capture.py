"""What is kept of a command's output, in little memory however much comes."""

from __future__ import annotations

import contextlib
import os
from typing import Any

_UNREAD_BYTES = 100_000
_SLACK = 1 << 18


class OutputCapture:
    """The output of a command: all of it while short, then head and tail, with the whole in a file."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._head_bytes, self._tail_bytes = int(request["head"]), int(request["tail"])
        self._path, self._file_limit = str(request["file"]), int(request["file_limit"])
        self._file: int | None = None
        self.saved = 0
        self.total = 0
        self.head = b""
        self.tail = bytearray()
        self.unread = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self.tail += data
        self.unread += data
        if len(self.unread) > 2 * _UNREAD_BYTES:
            self.dropped += len(self.unread) - _UNREAD_BYTES
            del self.unread[:-_UNREAD_BYTES]
        if self.total <= self._head_bytes + self._tail_bytes:
            return
        if self._file is None:
            self._open()
        else:
            self._save(data)
        if len(self.tail) > self._tail_bytes + _SLACK:
            del self.tail[: -self._tail_bytes]

    @property
    def cut(self) -> int:
        """How many bytes are in neither head nor tail."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def path(self) -> str:
        return self._path if self.saved else ""

    def finish(self) -> None:
        if self.cut or self._file is not None:
            del self.tail[: -self._tail_bytes]

    def _open(self) -> None:
        self._file = -1
        self.head = bytes(self.tail[: self._head_bytes])
        whole = bytes(self.tail)
        del self.tail[: self._head_bytes]
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        self._save(whole)

    def _save(self, data: bytes) -> None:
        if self._file is None or self._file < 0 or self.saved >= self._file_limit:
            return
        try:
            self.saved += os.write(self._file, data[: self._file_limit - self.saved])
        except OSError:
            # A full disk costs the saved copy, never the command or what is shown of it.
            self._file_limit = self.saved
