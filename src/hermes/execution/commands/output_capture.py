"""What is kept of a command's output, in little memory however much comes."""

from __future__ import annotations

import os

_HEAD_BYTES = 20_000
_TAIL_BYTES = 30_000
_UNREAD_BYTES = 100_000
_SLACK = 1 << 18
SAVED_BYTES = 16 << 20


class OutputCapture:
    """The output of a command: head and tail, with the whole in a file once it is longer than both. `cut` is
    how many bytes are in neither; `unread` is what nobody was told yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._saved, self._most_saved = 0, SAVED_BYTES
        self.head = b""
        self.tail = bytearray()
        self.cut = 0
        self.unread = bytearray()
        self.dropped = 0

    @property
    def path(self) -> str:
        return self._path if self._saved else ""

    def add(self, data: bytes) -> None:
        self.unread += data
        if len(self.unread) > 2 * _UNREAD_BYTES:
            self.dropped += len(self.unread) - _UNREAD_BYTES
            del self.unread[:-_UNREAD_BYTES]
        room = _HEAD_BYTES - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if self._file is not None:
            self._save(data)
        elif len(self.tail) > _TAIL_BYTES:
            self._open()
            self._save(self.head + self.tail)
        if len(self.tail) > _TAIL_BYTES + _SLACK:
            self.trim()

    def trim(self) -> None:
        self.cut += max(len(self.tail) - _TAIL_BYTES, 0)
        del self.tail[:-_TAIL_BYTES]

    def _open(self) -> None:
        self._file = -1
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        except OSError:
            pass

    def _save(self, data: bytes) -> None:
        if self._file is None or self._file < 0 or self._saved >= self._most_saved:
            return
        try:
            self._saved += os.write(self._file, data[: self._most_saved - self._saved])
        except OSError:
            # A full disk costs the saved copy, never the command or what is shown of it.
            self._most_saved = self._saved
