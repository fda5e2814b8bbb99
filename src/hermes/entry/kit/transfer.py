"""The time limit of a file on its way, in either direction: it grows with the bytes that have moved. A large
file over a slow line gets there as long as it moves; one that stands still, or only trickles, is given up."""

from __future__ import annotations

import asyncio
import io
from types import TracebackType
from typing import Self

from hermes.domain.chats.message import SLOWEST_BYTES


class TransferLimit:
    """A timeout for the body of an `async with`. Whoever moves bytes says so: that gives `quiet` more
    seconds, but never more than a transfer at the slowest rate would have taken so far."""

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._bytes = 0
        self._timeout = asyncio.timeout(quiet)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)

    def moved(self, count: int) -> None:
        self._bytes += count
        if self._timeout.when() is not None and not self._timeout.expired():
            slowest = self._began + self._bytes / SLOWEST_BYTES
            self._timeout.reschedule(min(self._loop.time(), slowest) + self._quiet)

    def moved_elsewhere(self, count: int) -> None:
        """As `moved`, from another thread."""
        self._loop.call_soon_threadsafe(self.moved, count)


class OutgoingFile(io.BytesIO):
    """The bytes of a file that is sent in pieces, so that everything else goes on meanwhile. Each piece that
    is taken tells the limit that the one before it has moved."""

    limit: TransferLimit | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if self.limit is not None and piece:
            self.limit.moved_elsewhere(len(piece))
        return piece
