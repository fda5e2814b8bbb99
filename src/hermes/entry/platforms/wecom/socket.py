"""The long connection of an AI bot: every frame has a request's id, which its answer repeats. What has the
same id goes one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aiohttp

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.text import one_line, trouble_told
from hermes.entry.kit.errors import error_table, slower, their_fault
from hermes.entry.kit.payload import as_text, dig, read_json
from hermes.entry.kit.socket import SocketFeed
from hermes.entry.platforms.wecom.convert import EVENT, MESSAGE

ALIVE = "pong"
"""The name under which the answer to a ping stands among the frames."""
WAIT = 10.0
_PING_SECONDS = 30.0


class Unanswered(Unreachable):
    """WeCom says nothing to a request."""


class Unsubscribed(Unreachable):
    """The connection stands, and counts for nothing."""


_error = error_table(
    "WeCom",
    {
        ("-1", "6000", "846601", "846602"): (their_fault, "WeCom is busy ({why})"),
        ("45009", "846607", "45033"): (slower, "WeCom wants us to be slower ({why})"),
        "846609": (Unsubscribed, "WeCom does not know this connection any more ({why})"),
        ("846605", "846608"): (Refused, "That answer can not be changed any more ({why})"),
        ("93006", "40003", "60111", "846606"): (Refused, "WeCom has no such chat for the bot ({why})"),
        ("45002", "40058"): (Refused, "The message is none that WeCom takes ({why})"),
    },
)


class WeComSocket(SocketFeed[dict[str, Any]]):
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__(socket, most_waiting=1_000)
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, socket: aiohttp.ClientWebSocketResponse, bot: str, secret: str, seconds: float
    ) -> AsyncIterator[WeComSocket]:
        """A connection that WeCom has let in."""
        wire = cls(socket)
        wire.start(wire._read())
        try:
            try:
                await wire.ask("aibot_subscribe", {"bot_id": bot, "secret": secret}, seconds)
            except Refused as error:
                raise NeedsLogin(
                    f"WeCom does not let the bot in (WECOM_BOT_ID, WECOM_SECRET): {error}"
                ) from None
            except Unreachable as error:
                # Whoever is let in too often waits longer and longer (WecomTeam/wecom-openclaw-plugin #48).
                raise Unreachable(str(error)) from None
            wire.start(wire._ping(seconds))
            yield wire
        finally:
            await wire.close()

    async def ask(
        self, command: str, body: dict[str, Any] | None, seconds: float, request: str = ""
    ) -> dict[str, Any]:
        """The answer to a request; `request` is the one that it answers, if it does."""
        number = request or f"{command}_{uuid4().hex}"
        turn = self._turns.setdefault(number, asyncio.Lock())
        try:
            async with turn:
                return await self._exchange(command, number, body, seconds)
        except Unsubscribed as error:
            self.end(Unreachable(str(error), after=0.0))
            raise
        finally:
            if not turn.locked():
                self._turns.pop(number, None)

    async def _exchange(
        self, command: str, number: str, body: dict[str, Any] | None, seconds: float
    ) -> dict[str, Any]:
        asked: dict[str, Any] = {"cmd": command, "headers": {"req_id": number}}
        if body is not None:
            asked["body"] = body
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                # A line that is stuck takes nothing more, and does not say so.
                await self.socket.send_str(json.dumps(asked, ensure_ascii=False))
                reply: dict[str, Any] = await answer
        except (TimeoutError, ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            raise Unanswered(f"WeCom does not answer ({trouble_told(error)})", maybe_done=True) from None
        finally:
            self._answers.pop(number, None)
        if reply.get("errcode") == 0:
            return reply
        raise error_for(reply)

    async def _read(self) -> None:
        try:
            async for message in self.socket:
                frame = read_json(message.data) if message.type is aiohttp.WSMsgType.TEXT else None
                if isinstance(frame, dict):
                    await self._hear(frame)
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError())
            self.end(Unreachable("WeCom closed the connection"))

    async def _hear(self, frame: dict[str, Any]) -> None:
        if frame.get("cmd") == EVENT and dig(frame, "body", "event", "eventtype") == "disconnected_event":
            # The vendor's SDK stays away then. But the event may be false (WecomTeam/wecom-openclaw-plugin
            # #54), so we come back, after longer and longer times.
            self.end(Unreachable("Another program has connected as this bot"))
        elif frame.get("cmd") == MESSAGE:
            await self.queue.put(frame)
        elif not frame.get("cmd"):
            answer = self._answers.get(as_text(dig(frame, "headers", "req_id")))
            if answer is not None and not answer.done():
                answer.set_result(frame)

    async def _ping(self, seconds: float) -> None:
        """A connection that does not answer is dead."""
        with contextlib.suppress(HermesError):
            while True:
                await self.ask("ping", None, seconds)
                await self.queue.put({"cmd": ALIVE})
                await asyncio.sleep(_PING_SECONDS)
        await self.socket.close()


def error_for(reply: dict[str, Any]) -> HermesError:
    code = str(reply.get("errcode"))
    why = one_line(f"{code} {as_text(reply.get('errmsg'))}", 160)
    return _error(400, code, why, WAIT)
