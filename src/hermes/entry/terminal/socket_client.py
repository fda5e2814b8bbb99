"""Just enough HTTP to talk to the gateway, over its socket or a port. A terminal starts with every
`hermes -q`, and loading a whole HTTP library would be most of what it costs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from hermes.entry.terminal.elsewhere import HttpAddress

_MOST_HEADER = 64 * 1024
_PIECE = 64 * 1024
BROKEN = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)
"""How a request fails whose other end went away or makes no sense."""


class NotListening(OSError):
    """Nobody is at the socket, so nothing was asked."""


class SocketResponse:
    """What came back: its status, and its body as it comes."""

    def __init__(self, status: int, length: int | None, reader: asyncio.StreamReader) -> None:
        self.status = status
        self._left = length
        """Bytes of the body that are to come; None where it comes in chunks."""
        self._reader = reader

    async def read(self) -> bytes:
        pieces = []
        while piece := await self.piece():
            pieces.append(piece)
        return b"".join(pieces)

    async def piece(self) -> bytes:
        """The next part of the body; nothing at its end. `EOFError` if it breaks off."""
        if self._left is None:
            size = int((await self._reader.readline()).split(b";")[0], 16)
            data = await self._reader.readexactly(size + 2)
            return data[:-2]
        if self._left == 0:
            return b""
        data = await self._reader.read(min(self._left, _PIECE))
        if not data:
            raise EOFError("the answer breaks off")
        self._left -= len(data)
        return data


@contextlib.asynccontextmanager
async def request(
    place: Path | HttpAddress, method: str, target: str, body: bytes = b""
) -> AsyncIterator[SocketResponse]:
    """Ask, and have the answer as it comes. The connection serves this request alone."""
    try:
        reader, writer = await _connect(place)
    except OSError as error:
        raise NotListening(str(error)) from error
    try:
        lines = ["Connection: close"]
        if isinstance(place, HttpAddress):
            target = place.prefix + target
            lines += [f"Host: {place.header}", f"Authorization: Bearer {place.key.reveal()}"]
        else:
            lines += ["Host: gateway"]
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        head = [f"{method} {target} HTTP/1.1", *lines, "", ""]
        writer.write("\r\n".join(head).encode("ascii") + body)
        await writer.drain()
        yield await _answer(reader)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _connect(place: Path | HttpAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(place, Path):
        return await asyncio.open_unix_connection(str(place), limit=_MOST_HEADER)
    secured = ssl.create_default_context() if place.tls else None
    return await asyncio.open_connection(place.host, place.port, ssl=secured, limit=_MOST_HEADER)


async def _answer(reader: asyncio.StreamReader) -> SocketResponse:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in head[1:])
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    length = None if chunked else int(fields.get("content-length", "0"))
    return SocketResponse(int(head[0].split()[1]), length, reader)
