"""The long connection: frames of protobuf, of which ten fields are used. An event may come in several frames,
and wants its frame back, with a status in place of the event, within three seconds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from msgspec import Struct

from hermes.domain.errors import Unreachable
from hermes.domain.text import trouble_told
from hermes.domain.word import replace
from hermes.entry.kit.payload import Recent, as_size, dig, read_json
from hermes.entry.kit.socket import SocketFeed

CONTROL, DATA = 0, 1
_NUMBERS = {1: "seq", 2: "log", 3: "service", 4: "method"}
_LONGEST_PING = 60.0
_MOST_PARTS = 100


class FeishuFrame(Struct, frozen=True, kw_only=True):
    seq: int = 0
    log: int = 0
    service: int = 0
    method: int = CONTROL
    headers: tuple[tuple[str, str], ...] = ()
    rest: tuple[tuple[int, bytes], ...] = ()
    """Fields that are handed back as they came."""
    payload: bytes = b""

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")

    @classmethod
    def read(cls, raw: bytes) -> FeishuFrame:
        """A `ValueError` if it is no frame."""
        numbers: dict[str, int] = {}
        headers, rest, payload = list[tuple[str, str]](), list[tuple[int, bytes]](), b""
        for place, value in _fields(raw):
            if isinstance(value, int):
                if place in _NUMBERS:
                    numbers[_NUMBERS[place]] = value
            elif place == 5:
                pair = {key: one for key, one in _fields(value) if isinstance(one, bytes)}
                headers.append((pair.get(1, b"").decode(), pair.get(2, b"").decode()))
            elif place == 8:
                payload = value
            else:
                rest.append((place, value))
        return cls(**numbers, headers=tuple(headers), rest=tuple(rest), payload=payload)

    def written(self) -> bytes:
        out = b"".join(_varint(place << 3) + _varint(getattr(self, name)) for place, name in _NUMBERS.items())
        for key, value in self.headers:
            out += _bytes(5, _bytes(1, key.encode()) + _bytes(2, value.encode()))
        for place, raw in sorted((*self.rest, *(((8, self.payload),) if self.payload else ()))):
            out += _bytes(place, raw)
        return out


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        tag, at = _number(raw, at)
        if tag & 7 == 0:
            value, at = _number(raw, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, at = _number(raw, at)
            if at + size > len(raw):
                raise ValueError("a frame that is cut off")
            yield tag >> 3, raw[at : at + size]
            at += size
        else:
            raise ValueError("no field that a frame has")


def _number(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(raw):
            break
        value |= (raw[at + place] & 0x7F) << (7 * place)
        if raw[at + place] < 0x80:
            return value & (2**64 - 1), at + place + 1
    raise ValueError("no number")


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def _bytes(place: int, raw: bytes) -> bytes:
    return _varint(place << 3 | 2) + _varint(len(raw)) + raw


class FeishuEvent(Struct, frozen=True, kw_only=True):
    """An event with the frame that wants an answer; without one it is a sign of life."""

    frame: FeishuFrame | None = None
    event: Any = None


class FeishuSocket(SocketFeed[FeishuEvent]):
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, service: int, ping_seconds: float) -> None:
        super().__init__(socket, most_waiting=1_000)
        self._service = service
        self._ping_seconds = min(ping_seconds, _LONGEST_PING)
        self._parts: Recent[str, dict[int, bytes]] = Recent(_MOST_PARTS)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, socket: aiohttp.ClientWebSocketResponse, url: str, ping_seconds: float
    ) -> AsyncIterator[FeishuSocket]:
        service = parse_qs(urlsplit(url).query).get("service_id", ["0"])[0]
        wire = cls(socket, int(service) if service.isascii() and service.isdigit() else 0, ping_seconds)
        wire.start(wire._read(), wire._ping())
        try:
            yield wire
        finally:
            await wire.close()

    async def answer(self, frame: FeishuFrame, code: int = 200) -> None:
        told = {"code": code, "headers": None, "data": None}
        headers = (*frame.headers, ("biz_rt", "0"))
        await self._write(replace(frame, headers=headers, payload=json.dumps(told).encode()))

    async def _write(self, frame: FeishuFrame) -> None:
        try:
            await self.socket.send_bytes(frame.written())
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            raise Unreachable(f"Feishu closed the connection ({trouble_told(error)})") from None

    async def _ping(self) -> None:
        with contextlib.suppress(Unreachable):
            while True:
                await self._write(FeishuFrame(service=self._service, headers=(("type", "ping"),)))
                await asyncio.sleep(self._ping_seconds)

    async def _read(self) -> None:
        async for message in self.socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                with contextlib.suppress(ValueError):
                    await self._hear(FeishuFrame.read(message.data))
        self.end(Unreachable("Feishu closed the connection"))

    async def _hear(self, frame: FeishuFrame) -> None:
        if frame.method == CONTROL:
            seconds = as_size(dig(read_json(frame.payload), "PingInterval"))
            if seconds:
                self._ping_seconds = min(float(seconds), _LONGEST_PING)
            await self.queue.put(FeishuEvent())
        elif frame.method == DATA and frame.header("type") in ("event", "card"):
            payload = self._joined(frame)
            if payload is not None:
                await self.queue.put(FeishuEvent(frame=frame, event=read_json(payload)))

    def _joined(self, frame: FeishuFrame) -> bytes | None:
        """The whole of an event; None while parts of it are missing."""
        count, place = int(frame.header("sum") or 1), int(frame.header("seq") or 0)
        if count <= 1:
            return frame.payload
        number = frame.header("message_id")
        parts = self._parts.setdefault(number, {})
        parts[place] = frame.payload
        if len(parts) < count:
            return None
        del self._parts[number]
        return b"".join(parts[place] for place in sorted(parts))
