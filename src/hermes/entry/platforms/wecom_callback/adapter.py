"""The adapter for an app of one's own on WeCom, which calls us: encrypted and signed XML comes in, messages
go out through the interface for apps. WeCom repeats a call three times that was not answered, so what was not
stored comes again, if that is soon."""

from __future__ import annotations

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
from hermes.entry.kit.crypto import require_crypto
from hermes.entry.kit.errors import error_table, slower, their_fault
from hermes.entry.kit.files import ANY_MIME, file_name, read_file
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.listener import listening
from hermes.entry.kit.payload import as_size, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.kit.token import AppToken, TokenExpired
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.wecom_callback import convert
from hermes.entry.platforms.wecom_callback.convert import WeComSecrets
from hermes.entry.platforms.wecom_callback.manifest import MANIFEST

API = "https://qyapi.weixin.qq.com"
_VARIABLES = "WECOM_CALLBACK"
_WAIT = 30.0
_LOOK_SECONDS = 60.0
_SECRETS = f"{_VARIABLES}_CORP_ID, {_VARIABLES}_CORP_SECRET"
_EXPIRED = ("40014", "42001", "41001")
_error = error_table(
    "WeCom",
    {
        ("40001", "40013", "40091", "41004"): (NeedsLogin, f"WeCom does not take {_SECRETS} ({{why}})"),
        _EXPIRED: (TokenExpired, f"WeCom does not take {_SECRETS} ({{why}})"),
        "60020": (
            NeedsLogin,
            "WeCom lets only trusted addresses call: add this machine's to the app ({why})",
        ),
        ("48002", "301002", "40056", "93004"): (NeedsLogin, "WeCom does not let the app do that ({why})"),
        ("45009", "45033", "45011"): (slower, "WeCom wants us to be slower ({why})"),
        ("-1", "6000"): (their_fault, "WeCom is busy ({why})"),
        ("45002", "40058"): (Refused, "The message is too long for WeCom ({why})"),
        ("81013", "60111", "82001"): (Refused, "WeCom knows no such person for the app ({why})"),
    },
    too_large={"40006", "45001"},
)


class WeComCallbackAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        corp, secret, agent, token, key, self._url = (
            context.setting(f"{_VARIABLES}_{name}")
            for name in ("CORP_ID", "CORP_SECRET", "AGENT_ID", "TOKEN", "AES_KEY", "URL")
        )
        if not (corp and secret and agent.isascii() and agent.isdigit()):
            raise NeedsLogin(f"{_SECRETS} and {_VARIABLES}_AGENT_ID (a number) are all needed")
        if not token or not convert.AES_KEY.fullmatch(key):
            raise NeedsLogin(
                f"Without {_VARIABLES}_TOKEN and {_VARIABLES}_AES_KEY (43 characters) anybody could call"
            )
        if not self._url.startswith(("https://", "http://")):
            raise NeedsLogin(
                f"{_VARIABLES}_URL is no address; one looks like https://hermes.example.com/wecom"
            )
        require_crypto("wecom_callback", "encrypted calls")
        self._secrets = WeComSecrets(token=token, aes_key=key, corp=corp)
        self._login = {"corpid": corp, "corpsecret": secret}
        self._agent = int(agent)
        self._base = context.setting(f"{_VARIABLES}_API_URL", API).rstrip("/")
        proxy = proxy_for(context, f"{_VARIABLES}_PROXY", self._base)
        self.api: HttpClient[HttpAnswer] = HttpClient("WeCom", HttpAnswer, proxy=proxy)
        self._token = AppToken(context, self._new_token)

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        async def answer(request: web.Request) -> web.Response:
            return await self._answer(request, accept)

        try:
            await self._token.get()  # a secret that is wrong is told at the start
            async with listening(
                self._context,
                self._url,
                answer,
                variables=_VARIABLES,
                usual_port="8648",
                most_bytes=256 * 1024,
                methods=("GET", "POST"),
            ):
                while True:
                    await accept((), None)
                    await self._context.clock.sleep(_LOOK_SECONDS)
        finally:
            await self.api.close()

    async def _answer(self, request: web.Request, accept: Accept) -> web.Response:
        asks = request.method == "GET"
        sealed = request.query.get("echostr", "") if asks else convert.sealed_in(await request.read())
        told, stamp, nonce = (request.query.get(name, "") for name in ("msg_signature", "timestamp", "nonce"))
        plain = convert.opened(self._secrets, told, stamp, nonce, sealed)
        if plain is None:
            return web.Response(status=403)
        if asks:  # whether we are there
            return web.Response(body=plain, content_type="text/plain")
        await accept(convert.to_inbounds(plain, self._context.account), None)
        return web.Response(text="success")

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        person = convert.place(to)
        if body.attachments:
            message = await self._file(body.attachments[0])
        else:
            message = {"msgtype": "text", "text": {"content": body.text}}
        reply = await self._call("message/send", json={"touser": person, "agentid": self._agent, **message})
        # It says yes, and in passing that nobody gets it.
        if as_text(dig(reply, "invaliduser")):
            raise Refused("WeCom knows no such person for the app")
        if as_text(dig(reply, "unlicenseduser")):
            raise Refused("WeCom wants an interface licence for this person, which has to be bought")
        number = as_text(dig(reply, "msgid"))
        if not number:
            raise Unreachable("WeCom does not say which message it took", maybe_done=True)
        return Receipt(to=to, ref=number)

    async def _file(self, file: Attachment) -> dict[str, Any]:
        data = await read_file(self._context, file)
        kind = "image" if file.kind is MediaKind.IMAGE else "file"

        async def with_token(token: str) -> Any:
            form, part = UploadForm(), OutgoingFile(data)
            form.add_field("media", part, filename=file_name(file), content_type=file.mime or ANY_MIME)
            params = {"access_token": token, "type": kind}
            return await self._ask("POST", "media/upload", files=[part], params=params, data=form)

        try:
            reply = await self._token.use(with_token)
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, in_transfer=error.maybe_done) from error
        return {"msgtype": kind, kind: {"media_id": as_text(dig(reply, "media_id"))}}

    async def delete(self, receipt: Receipt) -> None:
        """For a day after it was sent."""
        await self._call("message/recall", json={"msgid": receipt.ref})

    async def fetch(self, ref: str, sink: Sink) -> None:
        media = convert.media_place(ref)

        def refusal(answer: HttpAnswer) -> HermesError | None:
            return None if answer.status == 200 else Refused("WeCom does not have the file any more")

        async def with_token(token: str) -> None:
            begun = False

            async def checked(piece: bytes) -> None:
                """An error comes as JSON, with the status of a file."""
                nonlocal begun
                if not begun and piece.startswith(b'{"errcode"'):
                    expired = str(dig(read_json(piece), "errcode")) in _EXPIRED
                    raise (TokenExpired if expired else Refused)("WeCom does not have the file any more")
                begun = True
                await sink(piece)

            url = f"{self._base}/cgi-bin/media/get?access_token={token}&media_id={media}"
            await self.api.download(url, checked, refusal=refusal)

        await self._token.use(with_token)

    # --- calls ---

    async def _new_token(self) -> tuple[str, float]:
        reply = await self._ask("GET", "gettoken", params=self._login)
        token = as_text(dig(reply, "access_token"))
        if not token:
            raise Unreachable("WeCom gives no access token")
        return token, float(as_size(dig(reply, "expires_in")) or 7200)

    async def _call(self, path: str, **more: Any) -> Any:
        async def with_token(token: str) -> Any:
            return await self._ask("POST", path, params={"access_token": token}, **more)

        return await self._token.use(with_token)

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        response = await self.api.exchange(method, f"{self._base}/cgi-bin/{path}", **more)
        code = dig(response.answer, "errcode")
        if response.status == 200 and code == 0:
            return response.answer
        if response.status == 200 and not isinstance(code, int):
            raise Unreachable("What answers there is no WeCom", maybe_done=True)
        status = response.status if response.status != 200 else 400
        why = one_line(f"{code} {as_text(dig(response.answer, 'errmsg'))}" if code else f"HTTP {status}", 160)
        raise _error(status, str(code), why, _WAIT)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            await self._token.get()
        finally:
            await self.api.close()
        hint = "Save it in the app while the gateway runs: WeCom asks at once whether we are there."
        return [
            good("WeCom takes the app's secret."),
            good(f"WeCom calls {one_line(self._url, 120)}.", hint),
        ]
