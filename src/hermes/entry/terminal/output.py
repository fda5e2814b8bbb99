"""The bytes that go to a terminal: whatever is to be shown is put together at once, and one task writes it,
never more than the terminal takes without waiting, so that a terminal that stands still holds up nobody."""

from __future__ import annotations

import asyncio
import os
import select

from hermes.domain.text import PLAINLY
from hermes.entry.terminal.keyboard import own_terminal

_PIECE, _PIECE_OF_TERMINAL = 4_096, 65_536
_HIGH_WATER = 65_536
_FULL_SECONDS = 0.02
_BEGIN, _END = b"\x1b[?2026h", b"\x1b[?2026l"
"""Between them a terminal shows nothing halfway (synchronized output); others ignore both."""


class TerminalOutput:
    """`whole`: what is written together is shown together."""

    def __init__(self, descriptor: int, encoding: str, *, whole: bool = False) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._whole = whole
        self._waiting = bytearray()
        self._changed = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()

    def write(self, text: str) -> None:
        if not text:
            return
        if self._whole and not self._changed.is_set():
            self._waiting += _BEGIN
        self._waiting += text.encode(self._encoding, PLAINLY)
        self._changed.set()
        self._written.clear()

    async def live(self) -> None:
        """Write what waits, until cancelled. A terminal that is gone is an `OSError`."""
        with own_terminal(self._descriptor, os.O_WRONLY | os.O_NONBLOCK) as own:
            piece = _PIECE_OF_TERMINAL if os.isatty(own) else _PIECE
            while True:
                await self._changed.wait()
                self._changed.clear()
                if self._whole:
                    self._waiting += _END
                while self._waiting:
                    written = _write_some(own, bytes(self._waiting[:piece]))
                    del self._waiting[:written]
                    if not written:
                        await asyncio.sleep(_FULL_SECONDS)
                self._written.set()

    async def drained(self, most: int = _HIGH_WATER) -> None:
        """Wait while more than so many bytes are not yet written."""
        while len(self._waiting) > most:
            self._written.clear()
            await self._written.wait()


def _write_some(descriptor: int, data: bytes) -> int:
    """As much as can be written without waiting; a pipe that is ready takes a piece whole."""
    if not select.select([], [descriptor], [], 0)[1]:
        return 0
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
