"""Two dialects of one program: signal-cli's own daemon (JSON-RPC, and events as a stream) and the REST
wrapper around it. Each offers the same calls to the adapter."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct

from hermes.domain.chats.message import SLOWEST_BYTES
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.sse import SseParser
from hermes.entry.kit.errors import seconds_of
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import as_dicts, as_text, dig, read_json
from hermes.entry.platforms.signal.convert import GROUP, error_for

log = logging.getLogger("hermes.signal")
_QUIET_SECONDS = 60.0
"""The daemon says something every 15 seconds, also if nothing happens."""
_UNKNOWN_CALL = -32601


class OutgoingSignal(Struct, frozen=True, kw_only=True):
    """A message on its way: files are addresses that hold their data."""

    chat: str
    text: str
    files: Sequence[str] = ()
    voice: bool = False
    quoted: tuple[int, str] | None = None

    def seconds(self, usual: float) -> float:
        """How long to wait for it: signal-cli answers when it has passed the files on to Signal."""
        return usual + sum(map(len, self.files)) * 3 / 4 / SLOWEST_BYTES


class SignalDialect(Protocol):
    client: HttpClient[HttpAnswer]
    waits: bool
    """Whether what people write while nobody listens waits for who comes back."""

    async def look(self) -> tuple[str, str]:
        """Whether it is there and has the account; its version, and our Signal id, by which people who do not
        have our number mention us (empty if nobody knows it)."""

    def events(self) -> AsyncGenerator[Any, None]:
        """What happens, as it comes; None is a sign of life."""

    async def send(self, message: OutgoingSignal) -> int:
        """The time by which the message is known."""

    async def sign(self, chat: str, *, reaction: tuple[str, int, str, bool] | None = None) -> None:
        """Show that we write; or react to a message (emoji, its time and author), or no longer."""

    async def file(self, id: str, chat: str) -> bytes: ...


class SignalDaemon:
    """signal-cli daemon --http"""

    waits = True

    def __init__(self, base: str, number: str) -> None:
        self._base = f"{base}/api/v1"
        self._number = number
        self.client: HttpClient[HttpAnswer] = HttpClient("signal-cli", HttpAnswer)

    async def look(self) -> tuple[str, str]:
        accounts = await self._call("listAccounts")
        # None: it was started for one account, and is asked for no other.
        if accounts is not None and self._number not in [one.get("number") for one in as_dicts(accounts)]:
            raise NeedsLogin(
                "signal-cli does not have the account of SIGNAL_ACCOUNT: register or link it there"
            )
        version = as_text(dig(await self._call("version"), "version"))
        return version, await _own_id(self._contacts(), self._number)

    async def _contacts(self) -> Any:
        return await self._call("listContacts", recipient=[self._number], allRecipients=True)

    async def _call(self, method: str, *, seconds: float | None = None, **params: Any) -> Any:
        if method not in ("listAccounts", "version"):
            params["account"] = self._number
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self.client.exchange(
            "POST", f"{self._base}/rpc", seconds=seconds, **await _body(asked)
        )
        if answer.status == 421:
            raise NeedsLogin("signal-cli answers only to the name it listens on: SIGNAL_HTTP_URL has another")
        if answer.status != 200 or not isinstance(answer.answer, dict):
            done = answer.status not in (404, 405)
            raise Unreachable(f"What answers is no signal-cli (HTTP {answer.status})", maybe_done=done)
        error = dig(answer.answer, "error")
        if isinstance(error, dict):
            code = error.get("code")
            if code == _UNKNOWN_CALL and method == "listAccounts":
                return None
            results = as_dicts(dig(error, "data", "response", "results"))
            sorts = [as_text(one.get("type")) for one in results]
            waits = [
                one["retryAfterSeconds"] for one in results if isinstance(one.get("retryAfterSeconds"), int)
            ]
            message = " ".join(filter(None, (as_text(error.get("message")), *sorts)))
            if "PROOF_REQUIRED_FAILURE" in sorts or any(one.get("token") for one in results):
                message = f"captcha {message}"
            if "NETWORK_FAILURE" in sorts:
                code = -3
            raise error_for(
                code if isinstance(code, int) else 0, message, float(max(waits)) if waits else None
            )
        return answer.answer.get("result")

    async def events(self) -> AsyncGenerator[Any, None]:
        parser = SseParser()
        url = f"{self._base}/events?account={quote(self._number)}"
        async with contextlib.aclosing(self.client.stream(url, quiet=_QUIET_SECONDS)) as pieces:
            async for piece in pieces:
                for event in parser.feed(piece):
                    yield read_json(event.data)
                yield None

    async def send(self, message: OutgoingSignal) -> int:
        asked: dict[str, Any] = {**_place(message.chat), "message": message.text}
        if message.files:
            asked["attachments"] = list(message.files)
        if message.voice:
            asked["voiceNote"] = True
        if message.quoted is not None:
            asked["quoteTimestamp"], asked["quoteAuthor"] = message.quoted
            asked["quoteMessage"] = ""
        seconds = message.seconds(self.client.answer_seconds)
        return _timestamp(dig(await self._call("send", seconds=seconds, **asked), "timestamp"))

    async def sign(self, chat: str, *, reaction: tuple[str, int, str, bool] | None = None) -> None:
        if reaction is None:
            await self._call("sendTyping", **_place(chat))
            return
        emoji, sent, author, remove = reaction
        target: dict[str, Any] = {"targetTimestamp": sent, "targetAuthor": author, "remove": remove}
        await self._call("sendReaction", **_place(chat), emoji=emoji, **target)

    async def file(self, id: str, chat: str) -> bytes:
        place = _place(chat)
        # A single sender here, unlike everywhere else.
        asked = {"recipient": place["recipient"][0]} if "recipient" in place else place
        return _decoded(dig(await self._call("getAttachment", id=id, **asked), "data"))


class SignalRest:
    """signal-cli-rest-api (bbernhard), in its mode json-rpc."""

    waits = False

    def __init__(self, base: str, number: str) -> None:
        self._base = base
        self._number = number
        self.client: HttpClient[HttpAnswer] = HttpClient("signal-cli-rest-api", HttpAnswer)

    async def look(self) -> tuple[str, str]:
        about = await self._call("GET", "/v1/about")
        if dig(about, "mode") not in (None, "json-rpc", "json-rpc-native"):
            raise NeedsLogin(
                "signal-cli-rest-api has to run with MODE=json-rpc, so that messages come at once"
            )
        accounts = await self._call("GET", "/v1/accounts")
        if not isinstance(accounts, list) or self._number not in accounts:
            raise NeedsLogin(
                "signal-cli-rest-api does not have the account of SIGNAL_ACCOUNT: register or link it"
            )
        return as_text(dig(about, "version")), await _own_id(self._contacts(), self._number)

    async def _contacts(self) -> Any:
        return await self._call("GET", f"/v1/contacts/{quote(self._number)}?all_recipients=true")

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        answer = await self.client.exchange(method, f"{self._base}{path}", **more)
        if answer.status < 300:
            return answer.answer
        message = as_text(dig(answer.answer, "error")) or f"HTTP {answer.status}"
        if dig(answer.answer, "challenge_tokens"):
            message = f"captcha {message}"
        if answer.status == 429:
            raise error_for(-5, message, seconds_of(answer.headers.get("Retry-After")))
        raise error_for(-3 if answer.status >= 500 else -1, message)

    async def events(self) -> AsyncGenerator[Any, None]:
        url = f"{self._base}/v1/receive/{quote(self._number)}".replace("http", "ws", 1)
        socket = await self.client.connect(url, heartbeat=20.0)
        try:
            yield None
            while True:
                try:
                    message = await socket.receive(timeout=_QUIET_SECONDS / 2)
                except TimeoutError:
                    yield None
                    continue
                if message.type is not aiohttp.WSMsgType.TEXT:
                    raise Unreachable("signal-cli-rest-api closed the connection", offline=True)
                yield read_json(message.data)
        finally:
            with_end = asyncio.shield(socket.close())
            await asyncio.wait((with_end,), timeout=1.0)

    async def send(self, message: OutgoingSignal) -> int:
        asked: dict[str, Any] = {
            "number": self._number,
            "recipients": [_wrapped(message.chat)],
            "message": message.text,
        }
        if message.files:
            asked["base64_attachments"] = list(message.files)
        if message.quoted is not None:
            asked["quote_timestamp"], asked["quote_author"] = message.quoted
            asked["quote_message"] = ""
        seconds = message.seconds(self.client.answer_seconds)
        answer = await self._call("POST", "/v2/send", seconds=seconds, **await _body(asked))
        # Newer ones answer with a list.
        answer = answer[0] if isinstance(answer, list) and answer else answer
        sent = as_text(dig(answer, "timestamp"))
        return _timestamp(int(sent) if sent.isascii() and sent.isdigit() else None)

    async def sign(self, chat: str, *, reaction: tuple[str, int, str, bool] | None = None) -> None:
        number, place = quote(self._number), {"recipient": _wrapped(chat)}
        if reaction is None:
            await self._call("PUT", f"/v1/typing-indicator/{number}", json=place)
            return
        emoji, sent, author, remove = reaction
        asked = {**place, "reaction": emoji, "timestamp": sent, "target_author": author}
        await self._call("DELETE" if remove else "POST", f"/v1/reactions/{number}", json=asked)

    async def file(self, id: str, chat: str) -> bytes:
        answer = await self.client.exchange("GET", f"{self._base}/v1/attachments/{quote(id)}")
        if answer.status != 200:
            raise Refused(f"signal-cli does not have the file any more (HTTP {answer.status})")
        return answer.raw


async def _own_id(asking: Awaitable[Any], number: str) -> str:
    try:
        known = as_dicts(await asking)
    except (Refused, Unreachable) as error:
        log.info("signal.no_own_id why=%s", error)
        return ""
    return next((as_text(one.get("uuid")) for one in known if one.get("number") == number), "")


async def _body(asked: dict[str, Any]) -> dict[str, Any]:
    """Made aside and sent in pieces, for it may hold files: everything else goes on meanwhile."""
    raw = await asyncio.to_thread(msgspec.json.encode, asked)
    return {"data": io.BytesIO(raw), "headers": {"Content-Type": "application/json"}}


def _place(chat: str) -> dict[str, Any]:
    if chat.startswith(GROUP):
        return {"groupId": chat.removeprefix(GROUP)}
    return {"recipient": [chat]}


def _wrapped(chat: str) -> str:
    """The wrapper has ids of its own for groups: theirs, encoded once more."""
    if not chat.startswith(GROUP):
        return chat
    return GROUP + base64.b64encode(chat.removeprefix(GROUP).encode()).decode()


def _timestamp(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreachable("signal-cli does not say which message it sent", maybe_done=True)
    return value


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(as_text(value), validate=True)
    except ValueError:
        raise Refused("signal-cli gives a file that cannot be read") from None
