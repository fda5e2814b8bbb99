"""The Home Assistant adapter: one installation, by its WebSocket (what happens) and HTTP (what we say).

Three things come and go there: changes of entities that the operator wants to be told of; questions, which
automations ask by the event `hermes_message` and which are answered by the event `hermes_reply`; and
notifications. Home Assistant keeps no events for who is away: they are lost, and the page says so. What
came is on disk before it is stored."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.domain.text import one_line
from hermes.entry.kit.files import Unstored
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import Recent, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.kit.socket import SocketFeed
from hermes.entry.platforms.homeassistant import convert
from hermes.entry.platforms.homeassistant.convert import CHAT, EVENTS, HomeIdentity
from hermes.entry.platforms.homeassistant.manifest import MANIFEST

log = logging.getLogger("hermes.homeassistant")
URL = "http://homeassistant.local:8123"
_START_SECONDS = 30.0
_NOTIFY = "notify."
_PHONE = "mobile_app_"
"""So begin the names of phones, which Hermes Agent has as targets without `notify.`."""
_MOST_WAITING = 2000


class HomeAssistantAdapter:
    ping_seconds = 30.0

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self.capabilities = MANIFEST.capabilities
        self._token = context.setting("HASS_TOKEN")
        if not self._token or not self._token.isascii():
            raise NeedsLogin("HASS_TOKEN is missing, or no token: create one in your Home Assistant profile")
        self._base = context.setting("HASS_URL", URL).rstrip("/")
        if urlsplit(self._base).scheme not in ("http", "https") or not urlsplit(self._base).hostname:
            raise NeedsLogin("HASS_URL is no address; one is like http://homeassistant.local:8123")
        setting = context.setting
        self._me = HomeIdentity(
            account=context.account,
            entities=convert.names_of("HASS_WATCH_ENTITIES", setting("HASS_WATCH_ENTITIES")),
            domains=convert.names_of("HASS_WATCH_DOMAINS", setting("HASS_WATCH_DOMAINS"), domains=True),
            ignored=convert.names_of("HASS_IGNORE_ENTITIES", setting("HASS_IGNORE_ENTITIES")),
        )
        try:
            self._cooldown = float(setting("HASS_COOLDOWN", "30"))
        except ValueError:
            self._cooldown = math.nan
        if not 0 <= self._cooldown < math.inf:
            raise UserError("HASS_COOLDOWN is no number of seconds.")
        proxy = proxy_for(context, "HASS_PROXY", self._base)
        self.api: HttpClient[HttpAnswer] = HttpClient("Home Assistant", HttpAnswer, proxy=proxy)
        self._noticed: Recent[str, float] = Recent()
        """When each entity was last told of."""

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        unstored = Unstored(self._context)

        async def store(event: Any) -> None:
            await accept(convert.to_inbounds(event, self._me), as_text(dig(event, "time_fired")) or None)

        try:
            socket = await self.api.connect(f"{self._base}/api/websocket".replace("http", "ws", 1))
            feed: SocketFeed[Any] = SocketFeed(socket, most_waiting=_MOST_WAITING)
            try:
                await self._log_in(socket, feed)
                await unstored.store_left(store)
                feed.start(self._read(feed), self._ping(socket))
                await accept((), None)
                async for event in feed.events():
                    if event is None:
                        await accept((), None)
                    elif convert.to_inbounds(event, self._me) and self._is_due(event):
                        await unstored.store(event, store)
            finally:
                await feed.close()
        finally:
            await self.api.close()

    async def _log_in(self, socket: aiohttp.ClientWebSocketResponse, feed: SocketFeed[Any]) -> None:
        async with asyncio.timeout(self.api.answer_seconds):
            try:
                asked = read_json(await socket.receive_str())
                if dig(asked, "type") != "auth_required":
                    raise Unreachable("What answers at HASS_URL is no Home Assistant")
                await socket.send_json({"type": "auth", "access_token": self._token})
                if dig(read_json(await socket.receive_str()), "type") != "auth_ok":
                    raise NeedsLogin("Home Assistant does not take the token (HASS_TOKEN): create another")
                wanted = [convert.MESSAGE, *([convert.CHANGED] if self._me.watches else [])]
                for number, name in enumerate(wanted, 1):
                    await socket.send_json({"id": number, "type": "subscribe_events", "event_type": name})
                    answer = None
                    while answer is None:
                        # What was subscribed to before may happen meanwhile.
                        answer = await self._sorted(read_json(await socket.receive_str()), feed, number)
                    if dig(answer, "success") is not True:
                        why = one_line(as_text(dig(answer, "error", "message")), 120)
                        raise NeedsLogin(
                            f"The token's user has to be an administrator to hear events ({why})"
                        )
            except (TypeError, ConnectionError, aiohttp.ClientError):
                raise Unreachable("Home Assistant closed the connection") from None

    async def _read(self, feed: SocketFeed[Any]) -> None:
        async for message in feed.socket:
            packet = read_json(message.data) if message.type is aiohttp.WSMsgType.TEXT else None
            await self._sorted(packet, feed)
        feed.end(Unreachable("Home Assistant closed the connection", offline=True))

    async def _sorted(self, packet: Any, feed: SocketFeed[Any], asked: int = 0) -> Any:
        """Put events and signs of life into the feed; the result of what was asked, if it is there."""
        result = None
        # Several may come in one packet.
        for part in packet if isinstance(packet, list) else [packet]:
            if dig(part, "type") == "event":
                await feed.queue.put(dig(part, "event"))
            elif dig(part, "type") == "pong":
                await feed.queue.put(None)
            elif dig(part, "type") == "result" and dig(part, "id") == asked:
                result = part
        return result

    async def _ping(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        number = 100
        while not socket.closed:
            await self._context.clock.sleep(self.ping_seconds)
            number += 1
            try:
                await socket.send_json({"id": number, "type": "ping"})
            except ConnectionError:
                return

    def _is_due(self, event: Any) -> bool:
        """Whether an entity may be told of again; what is not a change always is."""
        entity, now = convert.entity_of(event), self._context.clock.monotonic()
        if not entity:
            return True
        if now - self._noticed.get(entity, -self._cooldown) < self._cooldown:
            return False
        self._noticed[entity] = now
        return True

    # --- what goes out ---

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = await self.api.exchange(method, f"{self._base}/api/{path}", headers=headers, **more)
        if answer.status < 300 and answer.answer is not None:
            return answer.answer
        words = as_text(dig(answer.answer, "message")) or answer.raw[:120].decode("utf-8", "replace")
        status = answer.status if answer.status >= 300 else 500
        raise convert.error_for(
            status, "", one_line(f"{words or 'no words'} (HTTP {answer.status})", 160), None
        )

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        """A notification, or the answer to a question, by an event that its automation waits for."""
        if not CHAT.fullmatch(to.chat):
            raise Refused(
                f"{to} is no place there: notify.<service>, events or the chat of a question is one"
            )
        ref = hashlib.sha256(key.encode()).hexdigest()[:32]
        if to.chat == EVENTS:
            asked = {"title": "Hermes", "message": body.text, "notification_id": f"hermes_{ref}"}
            await self._ask("POST", "services/persistent_notification/create", json=asked)
        elif to.chat.startswith((_NOTIFY, _PHONE)):
            await self._notify(_NOTIFY + to.chat.removeprefix(_NOTIFY), body.text)
        else:
            asked = {"chat": to.chat, "text": body.text, "reply_to": reply_to or "", "id": ref}
            await self._ask("POST", f"events/{convert.REPLY}", json=asked)
        return Receipt(to=to, ref=ref)

    async def _notify(self, name: str, text: str) -> None:
        """By an action of that name, or by the entity of that name: newer integrations have only those."""
        try:
            await self._ask("POST", f"services/notify/{name.removeprefix(_NOTIFY)}", json={"message": text})
        except Refused:
            try:
                # What is said to an entity that is not there is passed over in silence.
                await self._ask("GET", f"states/{name}")
            except Refused:
                if dig(await self._ask("GET", "config"), "state") == "RUNNING":
                    raise
                # Its HTTP is there before its integrations are (home-assistant/core #134397).
                raise Unreachable("Home Assistant is still starting", after=_START_SECONDS) from None
            asked = {"entity_id": name, "message": text}
            await self._ask("POST", "services/notify/send_message", json=asked)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            config = await self._ask("GET", "config")
        finally:
            await self.api.close()
        name, version = as_text(dig(config, "location_name")), as_text(dig(config, "version"))
        findings = [good(f"Home Assistant {version} (“{one_line(name, 40)}”) takes the token.")]
        watched = sorted(self._me.entities | {f"{domain}.*" for domain in self._me.domains})
        text = f"Watched: {', '.join(watched)}." if watched else "No entities are watched."
        return [*findings, good(text, "" if watched else "HASS_WATCH_ENTITIES names those to be told of.")]
