"""The adapter for QQ's official bots: private chats, and groups in which the bot is mentioned.

Events come over a gateway, whose session goes on from the stored cursor, or by signed calls. QQ lets a bot
answer and lets it begin nothing: what has no message to answer waits until somebody writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.safety.hosts import leads_inside
from hermes.domain.text import one_line
from hermes.entry.kit.crypto import require_crypto
from hermes.entry.kit.errors import error_table, retry_after, slower
from hermes.entry.kit.files import file_name, read_file
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.listener import listening
from hermes.entry.kit.payload import Recent, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.kit.token import AppToken, TokenExpired
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.qqbot import convert
from hermes.entry.platforms.qqbot.manifest import MANIFEST
from hermes.entry.platforms.qqbot.replies import QQReplies
from hermes.entry.platforms.qqbot.socket import DISPATCH, QQSocket, SessionForgotten

API, TOKENS = "https://api.sgroup.qq.com", "https://bots.qq.com/app/getAppAccessToken"
ID, SECRET = "QQ_APP_ID", "QQ_CLIENT_SECRET"
_LOGIN = f"QQ does not take {ID} and {SECRET} ({{why}})"
_WAITS = "QQ takes no more answers to their last message; it waits until they write again"
_WAIT, _PACE = 60.0, 5.0
_UNASKED_SECONDS = 3_600.0
"""For so long nothing is begun in a chat where QQ permitted that last time no more."""
_FILE_TYPES = {MediaKind.IMAGE: 1, MediaKind.VIDEO: 2}
_OTHER_FILE = 4
_REPEATED = "40054005"
_CHALLENGE = 13
OVER = (
    "22009", "304022", "304026", "304027", "304103", "40034005", "40034024", "40034025", "40034026",
    "40034027", "40034102", "40034105", "40034128",
)  # fmt: skip
"""QQ takes no more answers to this message: too many, too late, or it never was. And, without a message:
nothing unasked."""
_NO_ADDRESSES = ("304003", "40034028", "40054010")
_UNLISTED = ("11298", "40023002")
"""Said with 401, though the secret is right (tencent-connect/botpy #189)."""
_REVIEWED = ("304023", "304024")
"""QQ has taken the message; somebody looks at it before it is shown (bot-docs, error-trace/openapi.md)."""
_BAD_SECRET = ("100007", "100008", "100016")
_LATER = ("304082", "304083", "11242", "11252", "11263", "40034100", "40054006", "50055001", "50055002")
_SPECIFIC = (*OVER, *_LATER, *_NO_ADDRESSES, *_UNLISTED, *_REVIEWED)
"""QQ says these with 401, 429 and 500, too: the code tells more."""


def _unlisted(text: str, after: float | None) -> HermesError:
    return Unreachable(text, after=_WAIT)


_error = error_table(
    "QQ",
    {
        _UNLISTED: (_unlisted, "QQ lets this machine's address not call ({why}): list it on the bot's page"),
        ("11251", "11261", "100007", "100008", "10001"): (NeedsLogin, _LOGIN),
        (401, "11241", "11243", "11244"): (TokenExpired, _LOGIN),
        ("11253", "11254"): (NeedsLogin, "QQ does not let the bot do that ({why})"),
        ("1100100", "304045"): (slower, "QQ wants us to be slower ({why})"),
        _LATER: (slower, "QQ cannot do it now ({why})"),
        _NO_ADDRESSES: (Refused, "QQ takes only addresses that are listed on the bot's page ({why})"),
    },
    too_large={"304020"},
)


class QQRefused(Refused):
    """A refusal, with QQ's own code for it."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class QQAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._app, self._secret = context.setting(ID), context.setting(SECRET)
        if not (self._app.isascii() and self._app.isdigit()):
            raise NeedsLogin(f"{ID} is no AppID; one is a number")
        if not self._secret:
            raise NeedsLogin(f"{SECRET} is missing; it stands beside the AppID")
        self._url = context.setting("QQ_API_URL", API).rstrip("/")
        self._tokens = context.setting("QQ_TOKEN_URL", TOKENS)
        self._callback = context.setting("QQ_WEBHOOK_URL")
        if self._callback:
            require_crypto("qqbot", "signed calls")
        proxy = proxy_for(context, "QQ_PROXY", self._url)
        self.api: HttpClient[HttpAnswer] = HttpClient("QQ", HttpAnswer, proxy=proxy)
        self._token = AppToken(context, self._new_token)
        self.replies = QQReplies()
        self._sent: Recent[str, str] = Recent(1_000)
        self._shut: Recent[str, float] = Recent(5_000)
        """When chats were begun in that QQ let nobody begin in."""

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            await self._token.get()
            if self._callback:
                await self._be_called(accept)
            gateway = await self._gateway()
            try:
                await self._listen(gateway, accept, cursor)
            except SessionForgotten:
                await accept((), ":")  # the next connection begins a new session
                raise
        finally:
            await self.api.close()

    async def _gateway(self) -> str:
        try:
            return as_text(dig(await self._call("GET", "/gateway"), "url"))
        except QQRefused as error:
            raise Unreachable(f"QQ names no gateway ({error})") from None

    async def _listen(self, gateway: str, accept: Accept, cursor: str | None) -> None:
        wire = await self.api.connect(gateway)
        token = f"QQBot {await self._token.get()}"
        async with QQSocket.open(wire, token, cursor, self.api.answer_seconds) as socket:
            await accept((), socket.cursor)
            async for payload in socket.events():
                if payload.get("op") != DISPATCH:
                    await accept((), None)
                    continue
                number = payload.get("s")
                socket.seq = number if isinstance(number, int) else socket.seq
                socket.resumes = 0
                await self._take(payload, accept, socket.cursor)

    async def _take(self, payload: Any, accept: Accept, cursor: str | None) -> None:
        items = convert.to_inbounds(payload, self._context.account)
        await accept(items, cursor)
        for item in items:
            self.replies.hear(item.source.address.chat, item.ref or "", self._context.clock.monotonic())

    async def _be_called(self, accept: Accept) -> None:
        async def answer(request: web.Request) -> web.Response:
            raw, told = await request.read(), request.headers
            payload = read_json(raw)
            if dig(payload, "op") == _CHALLENGE:
                return self._challenged(dig(payload, "d"))
            stamp, signature = told.get("X-Signature-Timestamp", ""), told.get("X-Signature-Ed25519", "")
            if not stamp or not convert.is_signed(self._secret, stamp, raw, signature):
                return web.Response(status=403)
            await self._take(payload, accept, None)
            return web.json_response({"op": 12, "d": 0})

        async with listening(
            self._context, self._callback, answer, variables="QQ_WEBHOOK", usual_port="8649"
        ):
            while True:
                await accept((), None)
                await self._context.clock.sleep(MANIFEST.capabilities.silence_seconds / 3)

    def _challenged(self, asked: Any) -> web.Response:
        """QQ asks whether we have the secret. Only what can be no call of its own is signed for who asks."""
        plain, stamp = as_text(dig(asked, "plain_token")), as_text(dig(asked, "event_ts"))
        if not convert.CHALLENGE.fullmatch(plain + stamp):
            return web.Response(status=403)
        signature = convert.signed(self._secret, stamp, plain.encode())
        return web.json_response({"plain_token": plain, "signature": signature})

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        path, private = convert.place(to)
        message: dict[str, Any] = {"msg_type": 0, "content": body.text}
        if body.attachments:
            message = {"msg_type": 7, "content": " ", "media": await self._file(path, body.attachments[0])}
        # The same number for the same message: QQ drops a second copy of an answer.
        message["msg_seq"] = 1 + crc32(f"{to}\n{key}".encode()) % 999_999
        for wanted in (reply_to, None):
            now = self._context.clock.monotonic()
            answered = self.replies.choose(to.chat, wanted, private, now)
            if answered is None:
                break
            try:
                ref = await self._post(path, {**message, "msg_id": answered}, key)
            except QQRefused as error:
                if error.code not in OVER:
                    raise
                self.replies.count(to.chat, answered, now, over=True)
                continue
            self.replies.count(to.chat, answered, now)
            return Receipt(to=to, ref=ref)
        now = self._context.clock.monotonic()
        if now - self._shut.get(to.chat, -_UNASKED_SECONDS) < _UNASKED_SECONDS:
            raise Unreachable(_WAITS, after=_WAIT)
        try:  # unasked, which QQ permits some bots in some chats
            return Receipt(to=to, ref=await self._post(path, message, key))
        except QQRefused as error:
            if error.code not in OVER:
                raise
        self._shut[to.chat] = now
        raise Unreachable(_WAITS, after=_WAIT)

    async def _post(self, path: str, message: dict[str, Any], key: str) -> str:
        """Send it; if QQ takes no addresses, once more with addresses that nobody can follow."""
        try:
            reply = await self._call("POST", f"{path}/messages", message)
        except QQRefused as error:
            broken = convert.without_addresses(message["content"])
            if error.code == _REPEATED:
                return self._sent.get(key, key)
            if error.code not in _NO_ADDRESSES or broken == message["content"]:
                raise
            return await self._post(
                path, {**message, "content": broken, "msg_seq": message["msg_seq"] + 1}, key
            )
        self._sent[key] = as_text(dig(reply, "id")) or key
        return self._sent[key]

    async def _file(self, path: str, file: Attachment) -> dict[str, str]:
        kind, data = _FILE_TYPES.get(file.kind, _OTHER_FILE), await read_file(self._context, file)
        asked = {"file_type": kind, "srv_send_msg": False, "file_data": base64.b64encode(data).decode()}
        if kind == _OTHER_FILE:
            asked["file_name"] = file_name(file)
        raw = json.dumps(asked).encode()

        async def with_token(token: str) -> Any:
            part, headers = OutgoingFile(raw), {**self._headers(token), "Content-Type": "application/json"}
            url = f"{self._url}{path}/files"
            return _checked(await self.api.exchange("POST", url, files=[part], data=part, headers=headers))

        try:
            reply = await self._token.use(with_token)
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, in_transfer=error.maybe_done) from error
        return {"file_info": as_text(dig(reply, "file_info"))}

    async def fetch(self, ref: str, sink: Sink) -> None:
        url = convert.file_place(ref)
        if not leads_inside(self._url) and (leads_inside(url) or not url.startswith("https://")):
            raise Refused("QQ names an address for the file that is not safe")
        await self.api.download(url, sink)

    # --- calls ---

    async def _new_token(self) -> tuple[str, float]:
        asked = {"appId": self._app, "clientSecret": self._secret}
        response = await self.api.exchange("POST", self._tokens, json=asked)
        answer = response.answer
        token, seconds = as_text(dig(answer, "access_token")), str(dig(answer, "expires_in") or "7200")
        if not token:
            why = f"HTTP {response.status}: {one_line(json.dumps(answer), 120)}"
            if str(dig(answer, "code")) in _BAD_SECRET:
                raise NeedsLogin(_LOGIN.format(why=why))
            raise Unreachable(f"QQ gives no token ({why})", after=retry_after(response.headers))
        return token, float(seconds) if seconds.isascii() and seconds.isdigit() else 7_200.0

    async def _call(self, method: str, path: str, asked: Any = None) -> Any:
        async def with_token(token: str) -> Any:
            url, headers = f"{self._url}{path}", self._headers(token)
            return _checked(await self.api.exchange(method, url, json=asked, headers=headers))

        return await self._token.use(with_token)

    def _headers(self, token: str) -> dict[str, str]:
        return {"Authorization": f"QQBot {token}", "X-Union-Appid": self._app}

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            await self._gateway()
        finally:
            await self.api.close()
        return [good("QQ takes the bot's AppID and secret.")]


def _checked(response: HttpAnswer) -> Any:
    fine = ("", *_REVIEWED)
    if response.status < 300 and isinstance(response.answer, dict) and _code(response) in fine:
        return response.answer
    if response.status < 300 and not isinstance(response.answer, dict):
        raise Unreachable("What answers there is no QQ: look at QQ_API_URL", maybe_done=True)
    raise error_for(response)


def _code(response: HttpAnswer) -> str:
    """Errors have one of two numberings, or both."""
    codes = [str(dig(response.answer, name) or "") for name in ("code", "err_code")]
    return next((code for code in codes if code in _SPECIFIC), codes[0] or codes[1])


def error_for(response: HttpAnswer) -> HermesError:
    code = _code(response)
    status = response.status if response.status >= 300 and code not in _SPECIFIC else 400
    why = one_line(f"{code} {as_text(dig(response.answer, 'message'))}".strip() or f"HTTP {status}", 160)
    error = _error(status, code, why, retry_after(response.headers) or _PACE)
    return QQRefused(str(error), code) if isinstance(error, Refused) else error
