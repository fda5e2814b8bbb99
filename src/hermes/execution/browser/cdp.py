"""A client of the DevTools protocol: calls and their answers, and events for whoever listens, over the pipe
of a browser of ours or the websocket of another one. What a page is, is not known here.

https://chromedevtools.github.io/devtools-protocol/ · one connection serves many sessions (`flatten`)."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import DecodeError, json

from hermes.domain.errors import HermesError, Refused, Unreachable, UserError
from hermes.domain.text import one_line, trouble_told

if TYPE_CHECKING:
    import aiohttp

MOST_BYTES = 32 << 20
"""The longest message; the answer to a call that is longer counts as refused."""
_FIRST_ID = re.compile(rb'\{"id":([0-9]{1,12}),')
_GONE = "The browser has ended."
Listener = Callable[[str, dict[str, Any]], None]


class PipeLink:
    """Messages end with a zero byte. Of one that is too long, only the beginning is received."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, sock: socket.socket) -> PipeLink:
        return cls(*await asyncio.open_unix_connection(sock=sock, limit=MOST_BYTES))

    async def send(self, message: bytes) -> None:
        self._writer.write(message + b"\0")
        await self._writer.drain()

    async def receive(self) -> bytes | None:
        head = b""
        while True:
            try:
                message = await self._reader.readuntil(b"\0")
                return head or message[:-1]
            except asyncio.LimitOverrunError as error:
                piece = await self._reader.readexactly(error.consumed)
                head = head or piece[:100]
            except (asyncio.IncompleteReadError, OSError):
                return None

    async def close(self) -> None:
        self._writer.close()


class SocketLink:
    """A websocket, found through `http://host:port/json/version` where that is what was named."""

    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._session, self._socket = session, socket

    @classmethod
    async def open(cls, url: str, seconds: float) -> SocketLink:
        import aiohttp

        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds))
        try:
            if url.startswith("http"):
                async with session.get(f"{url.rstrip('/')}/json/version") as answer:
                    url = str((await answer.json(content_type=None))["webSocketDebuggerUrl"])
            opened = await session.ws_connect(url, max_msg_size=MOST_BYTES, autoping=True)
            return cls(session, opened)
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            await session.close()
            raise UserError(
                f"The browser of browser.cdp_url cannot be reached ({trouble_told(error)}).",
                hint="Start it with --remote-debugging-port=9222, or remove the setting.",
            ) from None

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_str(message.decode())
        except (ConnectionError, RuntimeError):
            raise Unreachable(_GONE, maybe_done=True) from None

    async def receive(self) -> bytes | None:
        import aiohttp

        message = await self._socket.receive()
        return str(message.data).encode() if message.type is aiohttp.WSMsgType.TEXT else None

    async def close(self) -> None:
        await self._socket.close()
        await self._session.close()


class CdpConnection:
    """`listeners` hear the events of a session by its id; that with an empty id, those of the browser."""

    def __init__(self, link: PipeLink | SocketLink) -> None:
        self._link = link
        self._last = 0
        self._calls: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self.listeners: dict[str, Listener] = {}
        self._posted: set[asyncio.Task[Any]] = set()
        self._reading = asyncio.create_task(self._read(), name="browser")

    @property
    def alive(self) -> bool:
        return not self._reading.done()

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        session: str = "",
        seconds: float = 30.0,
    ) -> dict[str, Any]:
        """`Refused` with the browser's words if it will not, `Unreachable` if it does not answer."""
        if not self.alive:
            raise Unreachable(_GONE)
        self._last += 1
        number = self._last
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._calls[number] = session, answer
        message = {"id": number, "method": method, "params": params or {}}
        try:
            async with asyncio.timeout(seconds):
                await self._link.send(json.encode(message | ({"sessionId": session} if session else {})))
                return await answer
        except TimeoutError:
            why = f"The browser did not answer {method} within {seconds:g} s."
            raise Unreachable(why, maybe_done=True) from None
        except OSError:
            raise Unreachable(_GONE, maybe_done=True) from None
        finally:
            del self._calls[number]

    def post(self, method: str, params: Mapping[str, Any] | None = None, *, session: str = "") -> None:
        """A call whose answer interests nobody, for listeners."""

        async def send() -> None:
            try:
                await self.call(method, params, session=session)
            except HermesError:
                pass  # what it was for is gone

        self.begin(send())

    def begin(self, work: Any) -> None:
        """Work that an event asks for; it ends with the connection."""
        task = asyncio.create_task(work)
        self._posted.add(task)
        task.add_done_callback(self._posted.discard)

    def interrupt(self, sessions: Collection[str], error: HermesError) -> None:
        """Calls of these sessions that wait end with this."""
        for session, answer in self._calls.values():
            if session in sessions and not answer.done():
                answer.set_exception(error)

    async def close(self) -> None:
        for task in (self._reading, *self._posted):
            task.cancel()
        await asyncio.wait((self._reading, *self._posted))
        await self._link.close()

    async def _read(self) -> None:
        try:
            while (message := await self._link.receive()) is not None:
                self._hear(message)
        finally:
            for _, answer in self._calls.values():
                if not answer.done():
                    answer.set_exception(Unreachable(_GONE, maybe_done=True))

    def _hear(self, raw: bytes) -> None:
        try:
            message = json.decode(raw)
        except DecodeError:
            cut = _FIRST_ID.match(raw)
            error = {"message": "The answer is too long."}
            message = {"id": int(cut[1]), "error": error} if cut else {}
        if "id" in message:
            _, answer = self._calls.get(message["id"], ("", None))
            if answer is None or answer.done():
                return
            if "error" in message:
                answer.set_exception(Refused(one_line(str(message["error"].get("message", "")), 300)))
            else:
                answer.set_result(message.get("result") or {})
        elif listener := self.listeners.get(message.get("sessionId", "")):
            listener(message.get("method", ""), message.get("params") or {})
