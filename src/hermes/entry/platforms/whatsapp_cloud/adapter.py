"""The WhatsApp adapter for businesses: one phone number, through Meta's Cloud API over HTTP. What happens
comes by signed calls; Meta repeats for a week what was not answered with 200, so what was not
stored comes again.

Two limits are data that the lanes keep to: people can be sent anything for a day after they wrote, and later
only a template; and one person takes a message in six seconds, after a burst."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.files import ANY_MIME, file_name, read_file
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.listener import is_secret, listening
from hermes.entry.kit.payload import Recent, as_dicts, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.whatsapp_cloud import compose, convert
from hermes.entry.platforms.whatsapp_cloud.convert import WhatsAppIdentity
from hermes.entry.platforms.whatsapp_cloud.manifest import MANIFEST, SENT_AS

log = logging.getLogger("hermes.whatsapp")
API = "https://graph.facebook.com/v24.0"
PATH = "/whatsapp/webhook"
SIGNATURE = "X-Hub-Signature-256"
_FIELDS = "display_phone_number,verified_name,quality_rating,webhook_configuration,status"
_FILE_HOSTS = (".fbsbx.com", ".facebook.com", ".fbcdn.net", ".whatsapp.net")
_MANAGES = "whatsapp_business_management"
_SHORTEST_WORD = 8
_LONGEST_WAIT, _HOUR = 300.0, 3600.0
_MOST_KEY = 512


class WhatsAppAnswer(HttpAnswer, frozen=True):
    @property
    def code(self) -> str:
        """Meta's own number for an error."""
        code = dig(self.answer, "error", "code")
        return str(code) if isinstance(code, int) else ""


class WhatsAppCloudAdapter:
    look_seconds = 300.0
    """How often Meta is asked whether the token still counts."""

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self.capabilities = MANIFEST.capabilities
        self._phone = context.setting("WHATSAPP_CLOUD_PHONE_NUMBER_ID")
        self._token = context.setting("WHATSAPP_CLOUD_ACCESS_TOKEN")
        self._secret = context.setting("WHATSAPP_CLOUD_APP_SECRET")
        self._word = context.setting("WHATSAPP_CLOUD_VERIFY_TOKEN")
        if not (self._phone.isascii() and self._phone.isdigit()):
            raise NeedsLogin("WHATSAPP_CLOUD_PHONE_NUMBER_ID is no id of a number; one is 15 digits or so")
        if not self._token or not self._token.isascii():
            raise NeedsLogin("WHATSAPP_CLOUD_ACCESS_TOKEN is missing, or no token")
        if not self._secret:
            raise NeedsLogin("WHATSAPP_CLOUD_APP_SECRET is missing: without it anybody could speak for Meta")
        if len(self._word) < _SHORTEST_WORD:
            raise NeedsLogin(f"WHATSAPP_CLOUD_VERIFY_TOKEN has to have {_SHORTEST_WORD} characters or more")
        self._path = "/" + context.setting("WHATSAPP_CLOUD_WEBHOOK_PATH", PATH).lstrip("/")
        self._base = context.setting("WHATSAPP_CLOUD_API_URL", API).rstrip("/")
        proxy = proxy_for(context, "WHATSAPP_CLOUD_PROXY", self._base)
        self.api: HttpClient[WhatsAppAnswer] = HttpClient("WhatsApp", WhatsAppAnswer, proxy=proxy)
        self._last: Recent[str, str] = Recent()
        """The last message of each chat: by it one shows that one writes."""
        self._crowded: Recent[str, int] = Recent()
        """How often in a row a chat took no more, as it got too much."""

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        me = WhatsAppIdentity(phone=self._phone, account=self._context.account)

        async def answer(request: web.Request) -> web.Response:
            if request.method == "GET":
                return self._verified(request)
            return await self._called(request, accept, me)

        try:
            await self._look()
            listens = listening(
                self._context,
                self._path,
                answer,
                variables="WHATSAPP_CLOUD_WEBHOOK",
                usual_port="8090",
                methods=("GET", "POST"),
            )
            async with listens:
                while True:
                    await accept((), None)
                    await self._context.clock.sleep(self.look_seconds)
                    await self._look()
        finally:
            await self.api.close()

    def _verified(self, request: web.Request) -> web.Response:
        """Meta asks whether the address is ours before it uses it."""
        asked = request.query
        if asked.get("hub.mode") != "subscribe" or not is_secret(
            asked.get("hub.verify_token", ""), self._word
        ):
            log.warning(
                "whatsapp.not_verified: the verify token is not the one of WHATSAPP_CLOUD_VERIFY_TOKEN"
            )
            return web.Response(status=403)
        return web.Response(text=asked.get("hub.challenge", ""))

    async def _called(self, request: web.Request, accept: Accept, me: WhatsAppIdentity) -> web.Response:
        """What Meta says is stored before Meta is told so."""
        body = await request.read()
        if not convert.is_signed(self._secret, body, request.headers.get(SIGNATURE, "")):
            return web.Response(status=403)
        payload = read_json(body)
        items = convert.to_inbounds(payload, me)
        if others := convert.others_of(payload, me):
            log.warning("whatsapp.other_number ids=%s", one_line(", ".join(sorted(others))))
        for item in items:
            if item.ref is not None and item.delivery.startswith("message:"):
                self._last[item.source.address.chat] = item.ref
        await accept(items, None)
        return web.Response()

    async def _look(self) -> dict[str, Any]:
        """Ask for our number, with a proof that the app secret is the one of the token's app."""
        answer = await self._ask("GET", self._phone, params={"fields": _FIELDS})
        if "appsecret_proof" in as_text(dig(answer.answer, "error", "message")):
            raise NeedsLogin("WHATSAPP_CLOUD_APP_SECRET is not the secret of the app that the token is for")
        return self._checked(answer)

    # --- calls ---

    async def _ask(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, **more: Any
    ) -> WhatsAppAnswer:
        """With the proof that apps can be made to want, so that a stolen token alone is worth nothing."""
        headers = {"Authorization": f"Bearer {self._token}"}
        proof = hmac.new(self._secret.encode(), self._token.encode(), hashlib.sha256).hexdigest()
        params = {**(params or {}), "appsecret_proof": proof}
        return await self.api.exchange(method, f"{self._base}/{path}", headers=headers, params=params, **more)

    def _checked(self, answer: WhatsAppAnswer, chat: str = "") -> dict[str, Any]:
        """What was asked for; an error of ours if it was refused."""
        if answer.status < 300 and isinstance(answer.answer, dict) and "error" not in answer.answer:
            for name in (chat, *convert.HOUR_LIMITS) if chat else ():
                self._crowded.pop(name, None)
            return answer.answer
        content = dig(answer.answer, "error")
        details = as_text(dig(content, "error_data", "details")) or as_text(dig(content, "message"))
        why = one_line(f"{details or 'HTTP ' + str(answer.status)} ({answer.code or 'no code'})", 200)
        # Something that is no answer of Meta's (a proxy's page) says nothing about what was done.
        status = answer.status if answer.status >= 300 else 500
        raise convert.error_for(status, answer.code, why, self._rest(answer, chat))

    def _rest(self, answer: WhatsAppAnswer, chat: str) -> float | None:
        """How long to wait: longer each time where one person gets too much, as Meta asks for, and where
        there were too many calls in an hour."""
        if answer.code not in (convert.PAIR_LIMIT, *convert.HOUR_LIMITS):
            seconds = 1.0 if answer.code == convert.SECOND_LIMIT else _HOUR
            return seconds if answer.code in convert.TOO_FAST else None
        name = chat if answer.code == convert.PAIR_LIMIT else answer.code
        times = self._crowded[name] = min(self._crowded.get(name, -1) + 1, 9)
        return min(4.0**times, _LONGEST_WAIT) if name == chat else min(60.0 * 2**times, _HOUR)

    async def _post(self, to: Address, message: dict[str, Any], key: str, reply_to: str | None) -> Receipt:
        """Send one message; one that answers another which Meta does not know goes without that."""
        content = {**compose.place(to), **message, "biz_opaque_callback_data": key[:_MOST_KEY]}
        quoting = {"context": {"message_id": reply_to}} if (reply_to or "").startswith("wamid.") else {}
        answer = await self._ask("POST", f"{self._phone}/messages", json={**content, **quoting})
        if quoting and answer.code in ("100", "131009"):
            answer = await self._ask("POST", f"{self._phone}/messages", json=content)
        sent = as_dicts(self._checked(answer, to.chat).get("messages"))
        ref = as_text(sent[0].get("id")) if sent else ""
        if not ref:
            raise Unreachable("WhatsApp does not say which message it sent", maybe_done=True)
        return Receipt(to=to, ref=ref)

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        if not body.attachments:
            # Groups have no buttons: people type their answer.
            pressed = body.buttons and not compose.is_group(to)
            asked = compose.question(body.text, body.buttons) if pressed else None
            return await self._post(to, asked or compose.words(body.text), key, reply_to)
        (file,) = body.attachments
        media = await self._upload(file)
        return await self._post(to, compose.file(media, file, body.text), key, reply_to)

    async def send_outside(self, to: Address, body: Body, *, key: str) -> Receipt | None:
        name = self._context.setting("WHATSAPP_CLOUD_TEMPLATE")
        language = self._context.setting("WHATSAPP_CLOUD_TEMPLATE_LANGUAGE", "en_US")
        message = compose.template(name, language, body) if name else None
        return None if message is None else await self._post(to, message, key, None)

    async def _upload(self, file: Attachment) -> str:
        data = OutgoingFile(await read_file(self._context, file))
        mime = SENT_AS.get(file.mime or "", file.mime or ANY_MIME)
        form = UploadForm({"messaging_product": "whatsapp", "type": mime})
        form.add_field("file", data, filename=file_name(file), content_type=mime)
        answer = await self._ask("POST", f"{self._phone}/media", data=form, files=[data])
        media = as_text(self._checked(answer).get("id"))
        if not media:
            raise Unreachable("WhatsApp does not say which file it took")
        return media

    async def typing(self, to: Address) -> None:
        if compose.is_group(to):
            raise Refused("groups are not shown that somebody writes")
        message = self._last.get(to.chat)
        if message is None:
            raise Refused("nobody has written there since the start")
        sign = {"status": "read", "message_id": message, "typing_indicator": {"type": "text"}}
        content = {"messaging_product": "whatsapp", **sign}
        self._checked(await self._ask("POST", f"{self._phone}/messages", json=content))

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        reaction = {"type": "reaction", "reaction": {"message_id": receipt.ref, "emoji": emoji}}
        content = {**compose.place(receipt.to), **reaction}
        self._checked(await self._ask("POST", f"{self._phone}/messages", json=content))

    async def fetch(self, ref: str, sink: Sink) -> None:
        if not (ref.isascii() and ref.isalnum()):
            raise Refused("that is no file of WhatsApp's")
        answer = await self._ask("GET", ref, params={"phone_number_id": self._phone})
        if answer.status == 404 or answer.code == "100":
            raise Refused("WhatsApp does not have the file any more")
        url = as_text(self._checked(answer).get("url"))
        host = urlsplit(url).hostname or ""
        if not host.endswith(_FILE_HOSTS) and host != urlsplit(self._base).hostname:
            raise Refused("WhatsApp names an address for the file that is not its own")
        await self.api.download(url, sink, headers={"Authorization": f"Bearer {self._token}"})

    # --- a look from outside ---

    async def _is_unheard(self) -> str:
        """The WhatsApp Business account of the token that does not tell our app of messages; empty if all do,
        or Meta does not say."""
        token = dig(
            (await self._ask("GET", "debug_token", params={"input_token": self._token})).answer, "data"
        )
        app, scopes = as_text(dig(token, "app_id")), as_dicts(dig(token, "granular_scopes"))
        owned = [one.get("target_ids") for one in scopes if one.get("scope") == _MANAGES]
        for account in owned[0] if owned and isinstance(owned[0], list) else ():
            if not as_text(account).isdigit():
                continue
            answer = await self._ask("GET", f"{account}/subscribed_apps")
            told = as_dicts(dig(answer.answer, "data"))
            apps = [dig(one, "whatsapp_business_api_data", "id") for one in told]
            if answer.status == 200 and app and app not in apps:
                return as_text(account)
        return ""

    async def check(self) -> Sequence[Finding]:
        try:
            number = await self._look()
            unheard = await self._is_unheard()
        finally:
            await self.api.close()
        shown, name = number.get("display_phone_number"), number.get("verified_name")
        findings = [good(f"Meta knows the number {shown} ({name}), and the app secret is right.")]
        if number.get("quality_rating") == "RED":
            findings.append(wrong("Meta rates the number's quality as low.", "People block or report it."))
        if (status := as_text(number.get("status"))) not in ("", "CONNECTED"):
            hint = f"If it is not registered yet: POST /{self._phone}/register with a pin of six digits."
            findings.append(wrong(f"Meta does not let the number send: its status is {status}.", hint))
        if unheard:
            hint = f"POST /{unheard}/subscribed_apps with the access token."
            findings.append(wrong("The app is not subscribed to the WhatsApp Business account.", hint))
        if not dig(number, "webhook_configuration", "application"):
            place = f"https://<your host>{self._path}"
            hint = f"At WhatsApp → Configuration enter {place}, and subscribe to “messages”."
            findings.append(wrong("Meta has no webhook address to call.", hint))
        return findings
