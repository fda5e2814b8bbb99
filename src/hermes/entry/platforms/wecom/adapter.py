"""The adapter for WeCom's AI bot: one bot over one long connection, on which everything happens.

WeCom wants no receipts, and keeps nothing for a bot that is away. An answer that grows is a stream: it
answers one message, by the id with which that was delivered, and it can be changed for some minutes, until it
is finished. Everything else is a message of its own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.safety.hosts import leads_inside
from hermes.entry.kit.crypto import cbc_opened, require_crypto
from hermes.entry.kit.files import file_name, read_file
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import as_text, dig
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.wecom import convert
from hermes.entry.platforms.wecom.manifest import MANIFEST
from hermes.entry.platforms.wecom.socket import ALIVE, Unanswered, WeComSocket

URL = "wss://openws.work.weixin.qq.com"
_PIECE = 512 * 1024
_MOST_FETCHED = 100 * 1024 * 1024
_STREAM = re.compile(r"stream:(([0-9]{1,12})_[0-9a-f]{32}):(.+)")
_REFRESH_SECONDS, _QUIET_SECONDS, _STREAM_SECONDS = 210.0, 300.0, 540.0
"""WeCom ends a stream six minutes after its last change, or ten minutes after its first. It does not always
say so: it may drop what comes later, with or without an answer (WecomTeam/wecom-openclaw-plugin #90,
NousResearch/hermes-agent #96942). A change that changes nothing keeps it open (sunnoy/openclaw-plugin-wecom
#107)."""


class _Stream(Struct, kw_only=True):
    """What a growing answer shows, since when, and when that changed. It is `lost` after a change that had no
    answer; `changing` counts those that still wait for one."""

    text: str
    begun: float
    changed: float
    lost: bool = False
    changing: int = 0


class WeComAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._bot, self._secret = context.setting("WECOM_BOT_ID"), context.setting("WECOM_SECRET")
        if not (self._bot and self._secret):
            raise NeedsLogin("WECOM_BOT_ID and WECOM_SECRET are both needed; the bot's page shows them")
        self._name = context.setting("WECOM_BOT_NAME").lstrip("@")
        self._url = context.setting("WECOM_WS_URL", URL)
        if not self._url.startswith(("wss://", "ws://")):
            raise NeedsLogin("WECOM_WS_URL is no address; one begins with wss://")
        proxy = proxy_for(context, "WECOM_PROXY", "http" + self._url.removeprefix("ws"))
        self.api: HttpClient[HttpAnswer] = HttpClient("WeCom", HttpAnswer, proxy=proxy)
        self._socket: asyncio.Future[WeComSocket] | None = None
        self._streams: dict[str, _Stream] = {}
        """The growing answers of this connection, by their references."""

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        self._socket = asyncio.get_running_loop().create_future()
        try:
            async with await self._open() as socket:
                self._socket.set_result(socket)
                await accept((), None)
                async for frame in socket.events():
                    now = self._context.clock.now()
                    if frame["cmd"] == ALIVE:
                        self.api.aside(self._refresh_streams())
                    items = convert.to_inbounds(frame, now, self._context.account, self._name)
                    await accept(items, None)
        finally:
            self._socket.cancel()
            self._socket = None
            await self.api.close()

    async def _open(self) -> Any:
        wire = await self.api.connect(self._url)
        return WeComSocket.open(wire, self._bot, self._secret, self.api.answer_seconds)

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        chat = convert.place(to)
        if body.growing:
            if reply_to is None:
                raise Refused("WeCom shows a growing answer only below a message that it answers")
            number = hashlib.sha256(f"{to}\n{key}".encode()).hexdigest()[:32]
            ref = f"stream:{int(self._now())}_{number}:{reply_to}"
            await self._stream(ref, body.text)
            return Receipt(to=to, ref=ref)
        if body.attachments:
            message = await self._file(body.attachments[0])
        else:
            message = {"msgtype": "markdown", "markdown": {"content": body.text}}
        reply = await self._ask("aibot_send_msg", {"chatid": chat, **message})
        return Receipt(to=to, ref=as_text(dig(reply, "headers", "req_id")) or key)

    async def edit(self, receipt: Receipt, body: Body) -> None:
        await self._stream(receipt.ref, body.text, done=not body.growing)

    async def _stream(self, ref: str, text: str, *, done: bool = False) -> None:
        match, now = _STREAM.fullmatch(ref), self._now()
        if match is None:
            raise Refused("WeCom lets nobody change a message that is no stream")
        begun = float(match[2])
        shown = self._streams.get(ref) or _Stream(text=text, begun=begun, changed=begun)
        if shown.lost or now - begun >= _STREAM_SECONDS or now - shown.changed >= _QUIET_SECONDS:
            raise Refused("WeCom may have ended that answer already")
        about = {"id": match[1], "finish": done, "content": text}
        shown.changing += 1
        try:
            await self._ask("aibot_respond_msg", {"msgtype": "stream", "stream": about}, match[3])
        except Unanswered:
            shown.lost = True
            self._streams[ref] = shown
            raise
        finally:
            shown.changing -= 1
        if done:
            self._streams.pop(ref, None)
        else:
            shown.text, shown.changed = text, now
            self._streams[ref] = shown

    async def _refresh_streams(self) -> None:
        """While a tool runs nothing is added to an answer. One that is nearly too old is finished as it is:
        what follows is a new message."""
        now = self._now()
        for ref, shown in tuple(self._streams.items()):
            age = now - shown.begun
            old = age >= _STREAM_SECONDS - 60.0
            if age >= _STREAM_SECONDS:
                self._streams.pop(ref, None)
            elif not shown.changing and (old or now - shown.changed >= _REFRESH_SECONDS):
                with contextlib.suppress(HermesError):
                    await self._stream(ref, shown.text, done=old)

    def _now(self) -> float:
        return self._context.clock.now().timestamp()

    async def _ask(self, command: str, body: dict[str, Any], request: str = "") -> dict[str, Any]:
        """Ask once WeCom has let us in; who begins to send while we connect waits for that."""
        if self._socket is None:
            raise Unreachable("WeCom: there is no connection")
        try:
            async with asyncio.timeout(self.api.answer_seconds):
                socket = await asyncio.shield(self._socket)
        except (TimeoutError, asyncio.CancelledError):
            if self._socket is not None and not self._socket.cancelled():
                raise
            raise Unreachable("WeCom: the connection has ended") from None
        return await socket.ask(command, body, self.api.answer_seconds, request)

    async def _file(self, file: Attachment) -> dict[str, Any]:
        """In pieces over the same connection."""
        data, kind = await read_file(self._context, file), "file"
        if file.kind is MediaKind.IMAGE:
            kind = "image"
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)] or [b""]
        about = {
            "type": kind,
            "filename": file_name(file),
            "total_size": len(data),
            "total_chunks": len(pieces),
            "md5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
        }
        try:
            begun = await self._ask("aibot_upload_media_init", about)
            upload = as_text(dig(begun, "body", "upload_id"))
            for place, piece in enumerate(pieces):
                encoded = base64.b64encode(piece).decode()
                part = {"upload_id": upload, "chunk_index": place, "base64_data": encoded}
                await self._ask("aibot_upload_media_chunk", part)
            done = await self._ask("aibot_upload_media_finish", {"upload_id": upload})
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, in_transfer=error.maybe_done) from error
        return {"msgtype": kind, kind: {"media_id": as_text(dig(done, "body", "media_id"))}}

    # --- files that people send ---

    async def fetch(self, ref: str, sink: Sink) -> str | None:
        """The address counts for five minutes; what is there is encrypted as a whole."""
        url, key = convert.file_place(ref)
        at_home = leads_inside(self._url)
        if not at_home and (leads_inside(url) or not url.startswith("https://")):
            raise Refused("WeCom names an address for the file that is not safe")
        if not key:
            return _name_of(await self.api.download(url, sink))
        try:
            require_crypto("wecom", "encrypted files")
        except UserError as error:
            raise Refused(str(error)) from error
        sealed = bytearray()

        async def gather(piece: bytes) -> None:
            sealed.extend(piece)
            if len(sealed) > _MOST_FETCHED:
                raise Refused("the file is too large")

        name = _name_of(await self.api.download(url, gather))
        secret = base64.b64decode(key + "=" * (-len(key) % 4))
        try:
            await sink(cbc_opened(secret, secret[:16], bytes(sealed), block=32))
        except ValueError as error:
            raise Refused("the file cannot be decrypted") from error
        return name

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            async with await self._open():
                hint = "While the gateway runs, a check takes its connection for a moment: WeCom lets in one."
                return [good("WeCom lets the bot in.", hint)]
        finally:
            await self.api.close()


def _name_of(headers: Mapping[str, str]) -> str | None:
    return convert.file_name_in(headers.get("Content-Disposition", ""))
