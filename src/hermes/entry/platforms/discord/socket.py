"""One connection to Discord's gateway: a websocket with one stream of compressed messages, heartbeats, and
events by number. It ends with the connection; going on from where it ended is the next one's work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.text import trouble_told
from hermes.entry.kit.socket import SocketFeed
from hermes.entry.platforms.discord.api import UNKNOWN_TOKEN, DiscordApi

KEEP = 4000
"""Closed with this, a session can be taken up again; the usual codes end it."""
_ASKED = "?v=10&encoding=json&compress=zlib-stream"
_END = b"\x00\x00\xff\xff"
_MOST_BYTES = 64 * 1024 * 1024
_MOST_WAITING = 20_000
# GUILDS, GUILD_MESSAGES and their reactions, DIRECT_MESSAGES and theirs, MESSAGE_CONTENT
INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15


class DiscordSessionEnded(Unreachable):
    """The session cannot be taken up again."""


_OUTDATED = (Refused, "Discord's gateway does not speak our version any more (code {code})")
_ENDED = (DiscordSessionEnded, "Discord ended the session (code {code})")
_CLOSED: dict[int | None, tuple[type[HermesError], str]] = {
    4004: (NeedsLogin, UNKNOWN_TOKEN),
    4014: (
        NeedsLogin,
        "Discord does not let this bot read messages: turn on “Message Content Intent” in the developer"
        " portal, under Bot",
    ),
    4011: (Refused, "The bot is on so many servers that Discord wants it in shards, which we do not do"),
    **dict.fromkeys((4010, 4012, 4013), _OUTDATED),
    # A new session counts where the old one does not any more.
    **dict.fromkeys((4003, 4005, 4007, 4009), _ENDED),
}
"""What the codes mean with which Discord closes the connection."""


class DiscordEvent(Struct, frozen=True, kw_only=True):
    """What came: a dispatch with its number; `beat` for an answered heartbeat; `invalid` for a session that
    is none."""

    name: str
    number: int | None = None
    data: Any = None


BEAT, INVALID = "beat", "invalid"


class DiscordConnection(SocketFeed[DiscordEvent]):
    """Open it, identify or resume, and take its `events()` until they end with an error."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, clock: Clock) -> None:
        super().__init__(socket)
        self._clock = clock
        self._inflate = zlib.decompressobj()
        self._pieces = bytearray()
        self._number: int | None = None
        self._answered = True

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, rest: DiscordApi, url: str, clock: Clock) -> AsyncIterator[DiscordConnection]:
        """A connection that has said hello; it is closed at the end."""
        line = cls(await rest.connect(url.rstrip("/") + "/" + _ASKED, most_bytes=_MOST_BYTES), clock)
        try:
            interval = await line._greeted(rest.answer_seconds)
            line.start(line._read(), line._beat(interval))
            yield line
        finally:
            await line.close(KEEP)

    async def _greeted(self, seconds: float) -> float:
        """Every how many seconds Discord wants a heartbeat."""
        try:
            async with asyncio.timeout(seconds):
                hello = await self._next()
            interval = float(hello["d"]["heartbeat_interval"]) / 1000
            if hello["op"] != 10 or not 0 < interval < 3600:
                raise ValueError("no hello")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"Discord's gateway cannot be reached ({trouble_told(error)})") from None
        except (KeyError, TypeError, ValueError):
            raise Unreachable("Discord's gateway does not say hello") from None
        return interval

    async def identify(self, token: str) -> None:
        self._number = None
        about = {"os": "linux", "browser": "hermes", "device": "hermes"}
        await self._send(2, {"token": token, "intents": INTENTS, "properties": about})

    async def resume(self, token: str, session: str, number: int) -> None:
        self._number = number
        await self._send(6, {"token": token, "session_id": session, "seq": number})

    async def _send(self, op: int, data: Any) -> None:
        try:
            await self.socket.send_json({"op": op, "d": data})
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"Discord's gateway is gone ({trouble_told(error)})") from None

    async def _next(self) -> Any:
        """The next whole message. One stream is compressed over all of them, each ends with a flush."""
        while True:
            message = await self.socket.receive()
            if message.type is aiohttp.WSMsgType.TEXT:
                return json.loads(message.data)
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise close_error(self.socket.close_code)
            self._pieces += message.data
            if len(self._pieces) > _MOST_BYTES:
                raise Unreachable("Discord's gateway sends too much at once")
            if self._pieces.endswith(_END):
                raw = self._inflate.decompress(bytes(self._pieces), _MOST_BYTES)
                self._pieces.clear()
                return json.loads(raw)

    async def _read(self) -> None:
        try:
            while True:
                await self._hear(await self._next())
        except HermesError as error:
            self.end(error)
        except (ValueError, zlib.error, TypeError, KeyError, RecursionError):
            self.end(Unreachable("Discord's gateway cannot be understood"))
        except (aiohttp.ClientError, OSError) as error:
            self.end(Unreachable(f"Discord's gateway is gone ({trouble_told(error)})"))

    async def _hear(self, message: Mapping[str, Any]) -> None:
        match message["op"]:
            case 0:
                if self.queue.qsize() > _MOST_WAITING:
                    raise Unreachable("more comes from Discord than can be stored")
                self._number = int(message["s"])
                await self.queue.put(
                    DiscordEvent(name=str(message["t"]), number=self._number, data=message["d"])
                )
            case 1:
                await self._send(1, self._number)
            case 7:
                raise Unreachable("Discord asked to connect anew")
            case 9:
                await self.queue.put(DiscordEvent(name=INVALID, data=message["d"] is True))
            case 11:
                self._answered = True
                await self.queue.put(DiscordEvent(name=BEAT))

    async def _beat(self, interval: float) -> None:
        """A heartbeat that is not answered by the next one means a dead connection."""
        await self._clock.sleep(interval * random.random())
        try:
            while self._answered:
                self._answered = False
                await self._send(1, self._number)
                await self._clock.sleep(interval)
            self.end(Unreachable("Discord's gateway does not answer heartbeats"))
        except Unreachable as error:
            self.end(error)


def own_gateway(url: Any, home: str) -> str | None:
    """An address to take a session up at, if it is one of Discord's: the token goes there."""
    try:
        there, here = urlsplit(url), urlsplit(home)
        port, host = there.port, there.hostname or ""
    except (TypeError, ValueError, AttributeError):
        return None
    same = (there.scheme, there.netloc) == (here.scheme, here.netloc)
    theirs = there.scheme == "wss" and host.endswith(".discord.gg") and port in (None, 443)
    return f"{there.scheme}://{there.netloc}" if same or theirs else None


def close_error(code: int | None) -> HermesError:
    error, text = _CLOSED.get(code, (Unreachable, "Discord closed the connection (code {code})"))
    return error(text.format(code=code))
