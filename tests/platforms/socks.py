"""A SOCKS5 proxy (RFC 1928, with names and passwords by RFC 1929): it looks names up itself, and every name
leads to this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass
class SocksProxy:
    password: str = ""
    reached: list[str] = field(default_factory=list)
    """The hosts that were asked for, as they were asked for."""
    port: int = 0
    _talks: set[asyncio.Task[None]] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator[SocksProxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tuple(self._talks):
                task.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._talk(reader, writer)
        finally:
            self._talks.discard(task)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        version, methods = await reader.readexactly(2)
        offered = await reader.readexactly(methods)
        wanted = 2 if self.password else 0
        if version != 5 or wanted not in offered:
            writer.write(b"\x05\xff")
            return
        writer.write(bytes([5, wanted]))
        if self.password:
            _, length = await reader.readexactly(2)
            await reader.readexactly(length)
            given = await reader.readexactly((await reader.readexactly(1))[0])
            good = given.decode() == self.password
            writer.write(b"\x01\x00" if good else b"\x01\x01")
            if not good:
                return
        _, command, _, sort = await reader.readexactly(4)
        assert command == 1, "CONNECT alone is asked for"
        if sort == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            assert sort == 3
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2))
        self.reached.append(host)
        try:
            there, to = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.write(b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00")
            return
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        try:
            await asyncio.gather(_pass_on(reader, to), _pass_on(there, writer))
        finally:
            to.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()
