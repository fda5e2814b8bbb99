"""The adapter for Feishu, which is called Lark outside China: the bot of one app.

Events come over a long connection that we open, or by encrypted calls. Each is acknowledged once it is
stored; one that is not comes again, after seconds at first and after hours at last. Everything that the bot
writes is a card, for a card can be changed as often as one likes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.crypto import cbc_opened, require_crypto
from hermes.entry.kit.files import file_name, read_file
from hermes.entry.kit.listener import is_secret, listening
from hermes.entry.kit.payload import as_dict, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.feishu import convert
from hermes.entry.platforms.feishu.api import GONE, NO_CARD, FeishuApi, FeishuRefused
from hermes.entry.platforms.feishu.convert import FeishuIdentity
from hermes.entry.platforms.feishu.manifest import MANIFEST
from hermes.entry.platforms.feishu.socket import FeishuSocket

log = logging.getLogger("hermes.feishu")
ID, SECRET, KEY, TOKEN = (
    "FEISHU_APP_ID",
    "FEISHU_APP_SECRET",
    "FEISHU_ENCRYPT_KEY",
    "FEISHU_VERIFICATION_TOKEN",
)
DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}
_LEARN_SECONDS = 1.5
_FILE_TYPES = {
    "pdf": "pdf",
    "doc": "doc",
    "docx": "doc",
    "xls": "xls",
    "xlsx": "xls",
    "ppt": "ppt",
    "pptx": "ppt",
}


class FeishuAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        app, secret = context.setting(ID), context.setting(SECRET)
        if not app.startswith("cli_"):
            raise NeedsLogin(f"{ID} is no app id; one begins with cli_")
        if not secret:
            raise NeedsLogin(f"{SECRET} is missing; it stands beside the app id")
        domain = context.setting("FEISHU_DOMAIN", "feishu")
        url = DOMAINS.get(domain.lower(), domain).rstrip("/")
        if not url.startswith(("https://", "http://")):
            raise NeedsLogin("FEISHU_DOMAIN is feishu, lark, or an address that begins with https://")
        self._callback = context.setting("FEISHU_WEBHOOK_URL")
        self._key, self._token = context.setting(KEY), context.setting(TOKEN)
        if self._callback:
            if not (self._key and self._token):
                raise NeedsLogin(f"Without {KEY} and {TOKEN} anybody could call FEISHU_WEBHOOK_URL; set both")
            require_crypto("feishu", "encrypted calls")
        self.api = FeishuApi(context, app, secret, url, proxy_for(context, "FEISHU_PROXY", url))
        self._me: FeishuIdentity | None = None
        self._stored: str | None = None

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            me = await self._who()
            me.resume(cursor)
            self._stored = cursor
            if self._callback:
                await self._be_called(accept, me)
            url, seconds = await self.api.endpoint()
            async with FeishuSocket.open(await self.api.connect(url), url, seconds) as socket:
                await accept((), None)
                async for told in socket.events():
                    await self._take(told.event, me, accept)
                    if told.frame is not None:
                        await socket.answer(told.frame)
        except Refused as error:
            # Feishu's own SDK tries again after most refusals (lark-oapi 1.7.5, ws/client.py).
            raise Unreachable(str(error)) from error
        finally:
            await self.api.close()

    async def _who(self) -> FeishuIdentity:
        if self._me is None:
            answer = await self.api.call("GET", "/bot/v3/info")
            number = as_text(dig(answer, "bot", "open_id"))
            if not number:
                raise NeedsLogin("The app has no bot: add the bot ability to it, and publish a version")
            self._me = FeishuIdentity(open_id=number, account=self._context.account)
        return self._me

    async def _take(self, event: Any, me: FeishuIdentity, accept: Accept) -> None:
        await self._learn(event, me)
        items, kind = convert.to_inbounds(event, me), as_text(dig(event, "header", "event_type"))
        if not items and kind == "im.message.receive_v1":
            log.info("feishu.unread id=%s", one_line(as_text(dig(event, "header", "event_id")), 80))
        cursor = me.cursor()
        await accept(items, None if cursor == self._stored else cursor)
        self._stored = cursor

    async def _learn(self, event: Any, me: FeishuIdentity) -> None:
        """What was answered to is nice to know; the event, which wants its answer in time, waits little."""
        try:
            async with asyncio.timeout(_LEARN_SECONDS):
                for number in convert.wanted(event, me):
                    convert.learn(number, await self.api.call("GET", f"/im/v1/messages/{number}"), me)
        except (HermesError, TimeoutError) as error:
            log.info("feishu.quoted why=%s", error)

    async def _be_called(self, accept: Accept, me: FeishuIdentity) -> None:
        async def answer(request: web.Request) -> web.Response:
            event = self._opened(request, await request.read())
            if event is None:
                return web.Response(status=403)
            if event.get("type") == "url_verification":
                return web.json_response({"challenge": as_text(event.get("challenge"))})
            await self._take(event, me, accept)
            return web.json_response({})

        async with listening(
            self._context, self._callback, answer, variables="FEISHU_WEBHOOK", usual_port="8765"
        ):
            while True:
                await accept((), None)
                await self._context.clock.sleep(MANIFEST.capabilities.silence_seconds / 3)

    def _opened(self, request: web.Request, raw: bytes) -> dict[str, Any] | None:
        """A call of Feishu's; None if it is anybody else's. Only the question whether we are there comes
        without a signature, and has to have the token."""
        try:
            sealed = base64.b64decode(as_text(dig(read_json(raw), "encrypt")), validate=True)
            opened = cbc_opened(hashlib.sha256(self._key.encode()).digest(), sealed[:16], sealed[16:])
        except ValueError:
            return None
        event = as_dict(read_json(opened))
        token = as_text(event.get("token")) or as_text(dig(event, "header", "token"))
        if not is_secret(token, self._token):
            return None
        if event.get("type") == "url_verification":
            return event
        told = request.headers
        signed = (
            f"{told.get('X-Lark-Request-Timestamp', '')}{told.get('X-Lark-Request-Nonce', '')}{self._key}"
        )
        signature = hashlib.sha256(signed.encode() + raw).hexdigest()
        return event if is_secret(told.get("X-Lark-Signature", ""), signature) else None

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        if body.attachments:
            kind, content = await self._file(body.attachments[0])
            return await self._post(to, kind, content, key, reply_to)
        try:
            return await self._post(to, "interactive", self._card(to, body), key, reply_to)
        except FeishuRefused as error:
            if error.code != NO_CARD:
                raise
            log.info("feishu.plain why=%s", error)
            return await self._post(to, "interactive", self._card(to, body, plain=True), key, reply_to)

    def _card(self, to: Address, body: Body, *, plain: bool = False) -> str:
        private = None if self._me is None else self._me.private.get(to.chat)
        return convert.card(body.text, body.buttons, to, private, plain=plain)

    async def _post(self, to: Address, kind: str, content: str, key: str, reply_to: str | None) -> Receipt:
        """Feishu takes one message with the same `uuid` in an hour, and tells of that again."""
        id_type, number = convert.place(to)
        asked: dict[str, Any] = {"msg_type": kind, "content": content}
        asked["uuid"] = hashlib.sha256(f"{to}\n{key}\n{kind}".encode()).hexdigest()[:40]
        threaded = {"reply_in_thread": True} if to.thread else {}
        # Somebody may have taken back the message by which a topic is written to; any other in it will do.
        places = [one for one in (to.thread, reply_to) if one and convert.MESSAGE.fullmatch(one)]
        for onto in places:
            try:
                return self._receipt(
                    to, await self.api.call("POST", f"/im/v1/messages/{onto}/reply", {**asked, **threaded})
                )
            except FeishuRefused as error:
                if error.code not in GONE or (to.thread and onto == places[-1]):
                    raise
        asked["receive_id"] = number
        return self._receipt(
            to, await self.api.call("POST", "/im/v1/messages", asked, receive_id_type=id_type)
        )

    def _receipt(self, to: Address, answer: Any) -> Receipt:
        number = as_text(dig(answer, "data", "message_id"))
        if not convert.MESSAGE.fullmatch(number):
            raise Unreachable("Feishu does not say which message it took", maybe_done=True)
        return Receipt(to=to, ref=number)

    async def _file(self, file: Attachment) -> tuple[str, str]:
        data, name = await read_file(self._context, file), file_name(file)
        if file.kind is MediaKind.IMAGE:
            told = await self.api.upload("/im/v1/images", "image", name, data, image_type="message")
            kind, field = "image", "image_key"
        else:
            voice = file.kind is MediaKind.VOICE
            sort = "opus" if voice else _FILE_TYPES.get(name.rpartition(".")[2].lower(), "stream")
            told = await self.api.upload("/im/v1/files", "file", name, data, file_type=sort, file_name=name)
            kind, field = "audio" if voice else "file", "file_key"
        number = as_text(dig(told, field))
        if not number:
            raise Unreachable("Feishu does not say which file it took")
        return kind, json.dumps({field: number})

    async def edit(self, receipt: Receipt, body: Body) -> None:
        path = f"/im/v1/messages/{_number(receipt)}"
        try:
            await self.api.call("PATCH", path, {"content": self._card(receipt.to, body)})
        except FeishuRefused as error:
            if error.code != NO_CARD:
                raise
            await self.api.call("PATCH", path, {"content": self._card(receipt.to, body, plain=True)})

    async def delete(self, receipt: Receipt) -> None:
        await self.api.call("DELETE", f"/im/v1/messages/{_number(receipt)}")

    async def fetch(self, ref: str, sink: Sink) -> None:
        await self.api.fetch(*convert.file_place(ref), sink)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            await self._who()
            findings = [good("Feishu takes the app's credentials, and the app has a bot.")]
            if not self._callback:
                await self.api.endpoint()
                hint = "Choose “long connection” for events and for callbacks, and publish a version."
                return [*findings, good("A long connection can be opened.", hint)]
        finally:
            await self.api.close()
        text = f"Feishu calls {one_line(self._callback, 120)}, first when you save that address."
        return [*findings, good(text)]


def _number(receipt: Receipt) -> str:
    if not convert.MESSAGE.fullmatch(receipt.ref):
        raise Refused("that is no message of Feishu's")
    return receipt.ref
