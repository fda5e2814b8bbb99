"""The SMS adapter: one Twilio number. Messages come by signed calls where the operator gives a public
address, and otherwise by asking for them every few seconds.

Twilio calls once and not again, but keeps every message. So the list is read in both cases, since the mark in
the cursor: a call only makes it quicker. What did not arrive Twilio tells by a call, with the key in its
address. Files that go out are fetched by Twilio from us, once, by a name that nobody guesses."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import aiohttp
from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.kit.errors import retry_after
from hermes.entry.kit.files import ANY_MIME, read_file
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.listener import listening
from hermes.entry.kit.payload import Recent, as_dicts, as_text, dig
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.sms import convert
from hermes.entry.platforms.sms.convert import SmsIdentity
from hermes.entry.platforms.sms.manifest import MANIFEST

log = logging.getLogger("hermes.sms")
API = "https://api.twilio.com"
SIGNATURE, ALGORITHM = "X-Twilio-Signature", "X-Twilio-Webhooks-Signature-Settings"
_ACCOUNT = re.compile(r"AC[0-9a-f]{32}", re.ASCII)
_NUMBER = re.compile(r"\+[0-9]{5,15}", re.ASCII)
_OVERLAP = timedelta(minutes=5)
_PAGE, _MOST_PAGES = 200, 20
_FILES = 32
_MISSING = "20404"


class TwilioAnswer(HttpAnswer, frozen=True):
    @property
    def code(self) -> str:
        return str(dig(self.answer, "code") or "")


class SmsAdapter:
    ask_seconds, look_seconds = 5.0, 60.0
    """How often the list is read without a public address, and with one."""

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._sid, self._token = context.setting("TWILIO_ACCOUNT_SID"), context.setting("TWILIO_AUTH_TOKEN")
        if not _ACCOUNT.fullmatch(self._sid):
            raise NeedsLogin(
                "TWILIO_ACCOUNT_SID is no SID of an account; one is AC and 32 digits and letters"
            )
        if not self._token or not self._token.isascii():
            raise NeedsLogin("TWILIO_AUTH_TOKEN is missing: without it anybody could speak for Twilio")
        number = context.setting("TWILIO_PHONE_NUMBER")
        if not _NUMBER.fullmatch(number):
            raise NeedsLogin("TWILIO_PHONE_NUMBER is no number; one has the country code, like +15551234567")
        self._me = SmsIdentity(number=number, account=context.account)
        # Signed is the address as it was entered at Twilio, with a `/` at its end or without.
        self._url = _rooted(context.setting("SMS_WEBHOOK_URL"))
        if self._url and urlsplit(self._url).scheme not in ("http", "https"):
            raise NeedsLogin("SMS_WEBHOOK_URL is no address; one is like https://your.host/sms")
        # Without an address Twilio cannot fetch a file from us.
        able = MANIFEST.capabilities
        self.capabilities = able if self._url else replace(able, media={})
        base = context.setting("SMS_API_URL", API).rstrip("/")
        self._base = f"{base}/2010-04-01/Accounts/{self._sid}"
        proxy = proxy_for(context, "SMS_PROXY", base)
        self.api: HttpClient[TwilioAnswer] = HttpClient("Twilio", TwilioAnswer, proxy=proxy)
        self._login = {"Authorization": aiohttp.encode_basic_auth(self._sid, self._token)}
        self._files: Recent[str, Attachment] = Recent(_FILES)
        self._missed = False
        self._open = asyncio.Event()

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            since = _read_mark(cursor) or self._time(await self._who())
            if not self._url:
                await self._follow(accept, since, self.ask_seconds)
                return
            path = urlsplit(self._url).path.rstrip("/")
            also = (
                ("GET", f"{path}/file/{{name}}", self._give),
                ("HEAD", f"{path}/file/{{name}}", self._give),
            )

            async def answer(request: web.Request) -> web.Response:
                return await self._called(request, accept)

            listens = listening(
                self._context,
                self._url,
                answer,
                variables="SMS_WEBHOOK",
                usual_port="8080",
                also=also,
            )
            async with listens:
                self._open.set()
                await self._follow(accept, since, self.look_seconds)
        finally:
            await self.api.close()

    async def _follow(self, accept: Accept, since: datetime, seconds: float) -> None:
        """Read the list again and again; soon if a call could not be stored."""
        while True:
            self._missed = False
            items, before = await self._read_list(since - _OVERLAP)
            await accept(items, before.isoformat())
            since, waited = before, 0.0
            while waited < seconds and not self._missed:
                await self._context.clock.sleep(self.ask_seconds)
                waited += self.ask_seconds

    def _time(self, answer: TwilioAnswer) -> datetime:
        """When Twilio gave it, by its own clock, which dates the messages too: ours may be wrong."""
        return answer.at or self._context.clock.now()

    async def _read_list(self, since: datetime) -> tuple[list[Any], datetime]:
        """What came since then, the oldest first; and when Twilio was asked."""
        asked = f"?To={quote(self._me.number)}&PageSize={_PAGE}&DateSent%3E={since:%Y-%m-%dT%H:%M:%SZ}"
        path, listed, first = f"/Messages.json{asked}", list[dict[str, Any]](), None
        for _ in range(_MOST_PAGES):
            answer = await self._ask("GET", path)
            page, first = self._checked(answer), first or self._time(answer)
            listed += as_dicts(page.get("messages"))
            following = as_text(page.get("next_page_uri"))
            _, _, path = following.partition(f"/Accounts/{self._sid}")
            if not path:
                break
        else:
            log.warning("sms.too_many: more than %d messages since %s", _PAGE * _MOST_PAGES, since)
        now, items = self._context.clock.now(), list[Any]()
        for message in reversed(listed):
            if as_text(message.get("num_media")) not in ("", "0") and message.get("direction") == "inbound":
                media = await self._ask("GET", f"/Messages/{message.get('sid')}/Media.json")
                # They may have been deleted since.
                found = {} if media.code == _MISSING else self._checked(media)
                message = {**message, "media": as_dicts(found.get("media_list"))}
            items += convert.to_inbounds(message, self._me, now)
        return items, first or now

    async def _called(self, request: web.Request, accept: Accept) -> web.Response:
        """What Twilio says is stored before it is told so; it does not call again, so if that fails the
        list is read."""
        body = await request.read()
        params = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        _, mark, query = request.raw_path.partition("?")
        url = f"{self._url}{mark}{query}"
        given, settings = request.headers.get(SIGNATURE, ""), request.headers.get(ALGORITHM, "")
        if not convert.is_signed(self._token, url, params, given, settings) or not convert.is_body(url, body):
            log.warning("sms.not_signed: the call is not Twilio's, or its address is not SMS_WEBHOOK_URL")
            return web.Response(status=403)
        fields = {name: values[0] for name, values in params.items()}
        now = self._context.clock.now()
        reported = convert.to_report(fields, request.query.get("key", ""), self._me, now)
        try:
            await accept(reported or convert.to_inbounds(fields, self._me, now), None)
        except HermesError:
            self._missed = True
            raise
        return web.Response(text="<Response></Response>", content_type="text/xml")

    async def _who(self) -> TwilioAnswer:
        answer = await self._ask("GET", ".json")
        if answer.code == _MISSING:
            raise NeedsLogin("Twilio has no such account (TWILIO_ACCOUNT_SID)")
        self._checked(answer)
        return answer

    # --- calls ---

    async def _ask(self, method: str, path: str, **more: Any) -> TwilioAnswer:
        return await self.api.exchange(method, f"{self._base}{path}", headers=self._login, **more)

    def _checked(self, answer: TwilioAnswer) -> dict[str, Any]:
        """What was asked for; an error of ours if it was refused."""
        if answer.status < 300 and isinstance(answer.answer, dict):
            return answer.answer
        told = as_text(dig(answer.answer, "message")) or f"HTTP {answer.status}"
        # Something that is no answer of Twilio's (a proxy's page) says nothing about what was done.
        status = answer.status if answer.status >= 300 else 500
        after = retry_after(answer.headers) or (60.0 if answer.code in ("21611", "63038") else None)
        raise convert.error_for(
            status, answer.code, one_line(f"{told} ({answer.code or status})", 200), after
        )

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        if not convert.PERSON.fullmatch(to.chat):
            raise Refused(f"{to} is nobody: a number is wanted, like sms:+15551234567")
        form: dict[str, Any] = {"To": to.chat, "From": self._me.number, "SmartEncoded": "true"}
        if body.text:
            form["Body"] = body.text
        if body.attachments:
            form["MediaUrl"] = await self._offer(body)
        if self._url:
            form["StatusCallback"] = f"{self._url}?key={quote(key, safe='')}"
        sent = self._checked(await self._ask("POST", "/Messages.json", data=form))
        ref = as_text(sent.get("sid"))
        if not ref:
            raise Unreachable("Twilio does not say which message it sent", maybe_done=True)
        return Receipt(to=to, ref=ref)

    async def _offer(self, body: Body) -> str:
        """The address at which Twilio finds a file."""
        (file,) = body.attachments
        try:
            async with asyncio.timeout(self.api.answer_seconds):
                await self._open.wait()
        except TimeoutError:
            raise Unreachable("Twilio cannot fetch a file from us yet") from None
        await read_file(self._context, file)  # one that is gone is told now
        name = secrets.token_urlsafe(24)
        self._files[name] = file
        return f"{self._url.rstrip('/')}/file/{name}"

    async def _give(self, request: web.Request) -> web.Response:
        file = self._files.get(request.match_info["name"])
        if file is None:
            return web.Response(status=404)
        data = await read_file(self._context, file)
        return web.Response(body=data, content_type=file.mime or ANY_MIME)

    async def fetch(self, ref: str, sink: Sink) -> None:
        message, _, media = ref.partition("/")
        if not media.isalnum() or not message.isalnum():
            raise Refused("that is no file of Twilio's")
        url = f"{self._base}/Messages/{message}/Media/{media}"
        await self.api.download(url, sink, headers=self._login, redirects=2)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        number = quote(self._me.number)
        try:
            account = (await self._who()).answer
            answer = await self._ask("GET", f"/IncomingPhoneNumbers.json?PhoneNumber={number}")
            numbers = as_dicts(self._checked(answer).get("incoming_phone_numbers"))
        finally:
            await self.api.close()
        findings = [
            good(f"Twilio knows the account “{one_line(as_text(account.get('friendly_name')), 60)}”.")
        ]
        if account.get("type") == "Trial":
            findings.append(
                good("It is a trial account.", "It writes only to numbers that you verified there.")
            )
        findings += self._numbered(numbers)
        if not self._url:
            hint = "SMS_WEBHOOK_URL makes messages come at once, and lets files and reports through."
            findings.append(good(f"Messages are asked for every {self.ask_seconds:.0f} seconds.", hint))
        return findings

    def _numbered(self, numbers: Sequence[Mapping[str, Any]]) -> list[Finding]:
        if not numbers:
            return [
                wrong(f"{self._me.number} is no number of the account.", "Phone Numbers → Active numbers.")
            ]
        url = as_text(numbers[0].get("sms_url"))
        if self._url and _rooted(url) != self._url:
            hint = f"Set it to {self._url} (HTTP POST) at Phone Numbers → Active numbers → Messaging."
            return [wrong("The number calls another address when a message comes in.", hint)]
        return [good(f"{self._me.number} is a number of the account.")]


def _rooted(url: str) -> str:
    """One without a path is asked for at `/`."""
    return f"{url}/" if url and not urlsplit(url).path else url


def _read_mark(cursor: str | None) -> datetime | None:
    try:
        mark = datetime.fromisoformat(cursor or "")
    except ValueError:
        return None
    return mark if mark.tzinfo else mark.replace(tzinfo=UTC)
