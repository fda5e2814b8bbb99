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
from hermes.entry.kit.payload import dig, read_json
from hermes.entry.kit.socket import SocketFeed
from hermes.entry.platforms.mattermost.api import MattermostApi

ALIVE = "pong"
"""The name under which the answer to a ping stands among the events."""
MISSED = "missed"
"""Stands before an event whose number is not the next one."""
EVENTS = frozenset(
    {"hello", "posted", "post_edited", "post_deleted", "reaction_added", "user_added", "user_removed"}
)
"""Those that mean something to us; a busy server tells of much more."""
_WAITING = 1_000


class MattermostSocket(SocketFeed[dict[str, Any]]):
    ping_seconds = 30.0
    pong_seconds = 30.0

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, seconds: float) -> None:
        super().__init__(socket, most_waiting=_WAITING)
        self._seconds = seconds
        self._asked = 0
        self._next = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._parting: HermesError = Unreachable("Mattermost's WebSocket was closed")

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, rest: MattermostApi) -> AsyncIterator[MattermostSocket]:
        """A connection that has said hello; it is closed at the end."""
        try:
            socket = await rest.connect("ws" + rest.url.removeprefix("http") + "/api/v4/websocket")
        except Unreachable as error:
            raise Unreachable(f"{error}; a proxy before it has to let /api/v4/websocket through") from None
        wire = cls(socket, rest.answer_seconds)
        try:
            await wire._greet(rest.token)
            yield wire
        finally:
            await wire.close()

    async def _greet(self, token: str) -> None:
        self.start(self._read())
        await self.ask("authentication_challenge", {"token": token})
        first: dict[str, Any] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                first = await self.next()
        if first.get("event") != "hello":
            raise Unreachable("Mattermost's WebSocket does not say hello")
        self.start(self._ping())

    async def ask(
        self, action: str, data: dict[str, Any] | None = None, seconds: float | None = None
    ) -> dict[str, Any]:
        self._asked += 1
        number = self._asked
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        asked = {"action": action, "seq": number, **({} if data is None else {"data": data})}
        try:
            await self.socket.send_str(json.dumps(asked))
            async with asyncio.timeout(seconds or self._seconds):
                reply: dict[str, Any] = await answer
        except (TimeoutError, ConnectionError, aiohttp.ClientError) as error:
            raise Unreachable(
                f"Mattermost's WebSocket does not answer ({trouble_told(error)})", maybe_done=True
            ) from None
        finally:
            self._answers.pop(number, None)
        stranger = dig(reply, "error", "status_code") == 401
        if reply.get("status") != "OK" and (action == "authentication_challenge" or stranger):
            raise NeedsLogin("Mattermost's WebSocket does not take the token (MATTERMOST_TOKEN)")
        return reply

    async def _read(self) -> None:
        try:
            async for message in self.socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    await self._hear(message.data)
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError())
            # What gives way is not lost: the history since the cursor is read at the next connection.
            self.end(self._parting)

    async def _hear(self, raw: str) -> None:
        message = read_json(raw)
        if not isinstance(message, dict):
            return
        number = message.get("seq_reply")
        if isinstance(number, int) and number:
            answer = self._answers.get(number)
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        count = message.get("seq")
        if count != self._next:
            await self.queue.put({"event": MISSED})
        self._next = count + 1 if isinstance(count, int) else self._next
        if message.get("event") in EVENTS:
            await self.queue.put(message)

    async def _ping(self) -> None:
        while True:
            try:
                await self.ask("ping", seconds=self.pong_seconds)
            except Unreachable:
                if self.queue.full():
                    # Not the connection is slow but we are: its answers stand behind the events.
                    continue
                await self.socket.close()
                return
            except NeedsLogin as error:
                # The token expired or was taken back: the connection stays and tells nothing any more.
                self._parting = error
                await self.socket.close()
                return
            await self.queue.put({"event": ALIVE})
            await asyncio.sleep(self.ping_seconds)
