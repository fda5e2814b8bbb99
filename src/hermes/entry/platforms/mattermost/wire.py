"""One WebSocket connection to Mattermost: the token is told in its first message, requests have numbers that
their answers repeat, and events are counted, so that a missing one is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from hermes.domain.errors import HermesError, NeedsLogin, Unreachable
from hermes.domain.text import trouble_told
from hermes.entry.platforms.mattermost.rest import MattermostServer

ALIVE = "pong"
"""The name under which the answer to a ping stands among the events."""
MISSED = "missed"
"""Stands before an event whose number is not the next one."""
EVENTS = frozenset(
    {"hello", "posted", "post_edited", "post_deleted", "reaction_added", "user_added", "user_removed"}
)
"""Those that mean something to us; a busy server tells of much more."""
_FRAME_BYTES = 16 * 1024 * 1024
_WAITING = 1_000


class MattermostSocket:
    ping_seconds = 30.0
    pong_seconds = 30.0

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, seconds: float) -> None:
        self._socket = socket
        self._seconds = seconds
        self._asked = 0
        self._next = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._parting: HermesError | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, session: aiohttp.ClientSession, server: MattermostServer, seconds: float
    ) -> AsyncIterator[MattermostSocket]:
        """A connection that has said hello; it is closed at the end."""
        try:
            async with asyncio.timeout(seconds):
                socket = await session.ws_connect(
                    server.socket_url, proxy=server.proxy, max_msg_size=_FRAME_BYTES
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(
                f"Mattermost's WebSocket cannot be reached ({trouble_told(error)}); a proxy before it has to"
                " let /api/v4/websocket through"
            ) from None
        wire = cls(socket, seconds)
        try:
            await wire._greet(server.token)
            yield wire
        finally:
            for task in wire._tasks:
                task.cancel()
            await asyncio.gather(*wire._tasks, return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await socket.close()

    async def _greet(self, token: str) -> None:
        self._tasks.append(asyncio.create_task(self._read()))
        await self.ask("authentication_challenge", {"token": token})
        try:
            async with asyncio.timeout(self._seconds):
                first = await self._events.get()
        except TimeoutError:
            first = None
        if first is None or first.get("event") != "hello":
            raise Unreachable("Mattermost's WebSocket does not say hello")
        self._tasks.append(asyncio.create_task(self._ping()))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What happens, until the connection ends."""
        while True:
            event = await self._events.get()
            if event is None:
                raise self._parting or Unreachable("Mattermost's WebSocket was closed")
            yield event

    async def ask(
        self, action: str, data: dict[str, Any] | None = None, seconds: float | None = None
    ) -> dict[str, Any]:
        self._asked += 1
        number = self._asked
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        asked = {"action": action, "seq": number, **({} if data is None else {"data": data})}
        try:
            await self._socket.send_str(json.dumps(asked))
            async with asyncio.timeout(seconds or self._seconds):
                told: dict[str, Any] = await answer
        except (TimeoutError, ConnectionError, aiohttp.ClientError) as error:
            raise Unreachable(
                f"Mattermost's WebSocket does not answer ({trouble_told(error)})", maybe_done=True
            ) from None
        finally:
            self._answers.pop(number, None)
        if told.get("status") != "OK" and (action == "authentication_challenge" or _is_stranger(told)):
            raise NeedsLogin("Mattermost's WebSocket does not take the token (MATTERMOST_TOKEN)")
        return told

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    await self._hear(message.data)
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError())
            while self._events.full():
                # It is not lost: the history since the cursor is read at the next connection.
                self._events.get_nowait()
            self._events.put_nowait(None)

    async def _hear(self, raw: str) -> None:
        try:
            told = json.loads(raw)
        except (ValueError, RecursionError):
            return
        if not isinstance(told, dict):
            return
        number = told.get("seq_reply")
        if isinstance(number, int) and number:
            answer = self._answers.get(number)
            if answer is not None and not answer.done():
                answer.set_result(told)
            return
        count = told.get("seq")
        if count != self._next:
            await self._events.put({"event": MISSED})
        self._next = count + 1 if isinstance(count, int) else self._next
        if told.get("event") in EVENTS:
            await self._events.put(told)

    async def _ping(self) -> None:
        while True:
            try:
                await self.ask("ping", seconds=self.pong_seconds)
            except Unreachable:
                if self._events.full():
                    # Not the connection is slow but we are: its answers stand behind the events.
                    continue
                await self._socket.close()
                return
            except NeedsLogin as error:
                # The token expired or was taken back: the connection stays and tells nothing any more.
                self._parting = error
                await self._socket.close()
                return
            await self._events.put({"event": ALIVE})
            await asyncio.sleep(self.ping_seconds)


def _is_stranger(told: dict[str, Any]) -> bool:
    error = told.get("error")
    return isinstance(error, dict) and error.get("status_code") == 401
