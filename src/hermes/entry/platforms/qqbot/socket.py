"""QQ's gateway: a WebSocket with numbered events, which goes on where the last one ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from hermes.domain.errors import HermesError, NeedsLogin, Unreachable
from hermes.entry.kit.payload import as_dict, as_size, as_text, dig, read_json
from hermes.entry.kit.socket import SocketFeed

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ALIVE = 0, 1, 2, 6, 7, 9, 10, 11
INTENTS = 1 << 25
"""Private messages, and those of groups that mention the bot."""
_SHUT_OUT = {
    4013: "it does not know the events that we ask for",
    4014: "the bot may not have the events of private chats and groups; ask for them on its page at q.qq.com",
    4914: "it was taken offline",
    4915: "it is banned",
}
_KEPT = {4004: None, 4008: 60.0, 4009: 0.0}
"""After these (a token too old, too many calls, a session too long) the session goes on, and so many seconds
later; after others from 4000 on it does not (tencent-connect/qqbot-nodejs, `gateway/reconnect.ts`)."""
_MOST_RESUMES, _INVALID_SECONDS = 3, 3.0


class SessionForgotten(Unreachable):
    """QQ does not go on with the session: a new one has to begin."""


class QQSocket(SocketFeed[dict[str, Any]]):
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__(socket, most_waiting=1_000)
        self.session = ""
        self.seq = 0
        self.resumes = 0
        """So often QQ was asked to go on with the session, and told nothing."""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, socket: aiohttp.ClientWebSocketResponse, token: str, cursor: str | None, seconds: float
    ) -> AsyncIterator[QQSocket]:
        """A connection that QQ has let in, of a session that goes on from the cursor or is new."""
        wire = cls(socket)
        wire.start(wire._read())
        try:
            hello = await wire._expect(seconds, HELLO)
            interval = (as_size(dig(hello, "d", "heartbeat_interval")) or 45_000) / 1000
            session, _, seq = (cursor or "").rstrip("!").rpartition(":")
            wire.resumes = (cursor or "").count("!") + 1
            if session and seq.isascii() and seq.isdigit() and wire.resumes <= _MOST_RESUMES:
                wire.session, wire.seq = session, int(seq)
                about: dict[str, Any] = {"token": token, "session_id": session, "seq": wire.seq}
                await wire._write(RESUME, about)
            else:
                await wire._write(
                    IDENTIFY, {"token": token, "intents": INTENTS, "shard": [0, 1], "properties": {}}
                )
                ready = await wire._expect(seconds, DISPATCH)
                wire.session, wire.seq = as_text(dig(ready, "d", "session_id")), as_size(ready.get("s")) or 1
                wire.resumes = 0
            wire.start(wire._beat(interval))
            yield wire
        finally:
            await wire.close(4000)

    @property
    def cursor(self) -> str:
        return f"{self.session}:{self.seq}{'!' * self.resumes}"

    async def _expect(self, seconds: float, code: int) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                payload = await self.next()
        except TimeoutError:
            raise Unreachable("QQ's gateway says nothing") from None
        if payload.get("op") != code:
            raise SessionForgotten("QQ's gateway does not take the session")
        return payload

    async def _write(self, code: int, about: Any) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError, aiohttp.ClientError):
            await self.socket.send_str(json.dumps({"op": code, "d": about}))

    async def _beat(self, interval: float) -> None:
        while True:
            await self._write(HEARTBEAT, self.seq)
            await asyncio.sleep(interval)

    async def _read(self) -> None:
        async for message in self.socket:
            payload = as_dict(read_json(message.data) if message.type is aiohttp.WSMsgType.TEXT else None)
            code = payload.get("op")
            if code == RECONNECT:
                break
            if code == INVALID:
                if payload.get("d") is True:
                    self.end(Unreachable("QQ cannot go on with the session now", after=_INVALID_SECONDS))
                else:
                    self.end(SessionForgotten("QQ does not know the session any more"))
                return
            await self.queue.put(payload)
        self.end(self._parting())

    def _parting(self) -> HermesError:
        code = self.socket.close_code or 0
        if code in _SHUT_OUT:
            return NeedsLogin(f"QQ lets the bot in no more: {_SHUT_OUT[code]}")
        if 4000 <= code < 5000 and code not in _KEPT:
            return SessionForgotten(f"QQ ended the session ({code})")
        after = 0.0 if code == 0 else _KEPT.get(code)
        return Unreachable(f"QQ closed the connection ({code})", after=after)
