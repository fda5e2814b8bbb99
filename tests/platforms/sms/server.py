"""Twilio with one account and one number: the part of its REST API and of its calls that the adapter uses, as
Twilio's documents say. It calls once, whatever the answer; lists have the newest message first."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp
from aiohttp import web
from yarl import URL

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Route, ServedFake
from tests.platforms.sms.signing import signature

SID, TOKEN, NUMBER = "AC" + "0a1b2c3d" * 4, "12345678901234567890123456789012", "+15005550006"
PATH = f"/2010-04-01/Accounts/{SID}"


class TwilioError(FakeRefusal):
    def __init__(self, status: int, code: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


FAULTS = {
    Fault.TOO_FAST: TwilioError(429, 20429, "Too Many Requests", **{"Retry-After": "3"}),
    Fault.TOO_FAST_ALL: TwilioError(429, 20429, "Too Many Requests", **{"Retry-After": "3"}),
    Fault.REVOKED: TwilioError(401, 20003, "Authenticate"),
    Fault.GONE: TwilioError(400, 21610, "Attempt to send to unsubscribed recipient"),
    Fault.TOO_LONG: TwilioError(400, 21617, "The concatenated message body exceeds the 1600 character limit"),
}


@dataclass
class Twilio(ServedFake):
    """The service. Tests write through `say`, and read `messages`."""

    callback: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    media: dict[str, dict[str, tuple[str, bytes]]] = field(default_factory=dict)
    callbacks: dict[str, str] = field(default_factory=dict)
    """Where it tells how each message fared."""
    fetched: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """What it got from the addresses of media."""
    elsewhere: bool = False
    """Media are kept on another host, to which it sends who asks for them."""
    kind: str = "Full"
    calls: list[tuple[str, Any]] = field(default_factory=list)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)

    def routes(self) -> Iterable[Route]:
        yield "GET", f"{PATH}.json", self._account
        yield "GET", f"{PATH}/IncomingPhoneNumbers.json", self._phones
        yield "GET", f"{PATH}/Messages.json", self._list
        yield "POST", f"{PATH}/Messages.json", self._create
        yield "GET", f"{PATH}/Messages/{{sid}}/Media.json", self._media_list
        yield "GET", f"{PATH}/Messages/{{sid}}/Media/{{media}}", self._media
        yield "GET", "/cdn/{sid}/{media}", self._cdn
        yield "*", "/{rest:.*}", self._nowhere

    def refused(self, refusal: TwilioError) -> web.Response:
        more = f"https://www.twilio.com/docs/errors/{refusal.code}"
        told = {"code": refusal.code, "message": refusal.message, "more_info": more, "status": refusal.status}
        return web.json_response(told, status=refusal.status, headers=refusal.headers)

    def failed(self, fault: Fault) -> web.Response:
        return self.refused(FAULTS[fault])

    # --- people ---

    def say(
        self, who: str, text: str, *media: tuple[str, bytes], call: bool = True, **more: str
    ) -> dict[str, Any]:
        """A person writes to the number."""
        number = next(self._numbers)
        sid = f"{'MM' if media else 'SM'}{number:032x}"
        kept = {f"ME{number * 100 + place:032x}": file for place, file in enumerate(media)}
        if kept:
            self.media[sid] = kept
        message = self._message(sid, who, NUMBER, text, "inbound", "received", len(media))
        self.messages.append(message)
        fields = {
            "ToCountry": "US",
            "MessageSid": sid,
            "SmsMessageSid": sid,
            "SmsSid": sid,
            "AccountSid": SID,
            "SmsStatus": "received",
            "NumMedia": str(len(media)),
            "NumSegments": "1",
            "Body": text,
            "From": who,
            "To": NUMBER,
            "ApiVersion": "2010-04-01",
            **more,
        }
        for place, (media_sid, (mime, _)) in enumerate(kept.items()):
            fields[f"MediaContentType{place}"] = mime
            fields[f"MediaUrl{place}"] = f"https://api.twilio.com{PATH}/Messages/{sid}/Media/{media_sid}"
        if call and self.callback and self.is_up:
            self.start(self._call_in_order(who, fields))
        return fields

    async def _call_in_order(self, who: str, fields: dict[str, str]) -> None:
        """One call after the other for each person."""
        async with self._turns.setdefault(who, asyncio.Lock()):
            await self.call(self.callback, fields)

    def tell_status(self, sid: str, status: str, code: str = "") -> None:
        """How a message of ours fared."""
        message = next(one for one in self.messages if one["sid"] == sid)
        message["status"] = status
        fields = {
            "MessageSid": sid,
            "MessageStatus": status,
            "To": message["to"],
            "From": NUMBER,
            "AccountSid": SID,
        }
        self.start(self.call(self.callbacks[sid], fields | ({"ErrorCode": code} if code else {})))

    async def call(self, url: str, fields: dict[str, str], token: str = TOKEN) -> int:
        body = urlencode(fields)
        headers = {
            "Content-Type": "application/x-www-form-urlencoded; charset=UTF-8",
            "X-Twilio-Signature": signature(token, url, dict(parse_qsl(body, keep_blank_values=True))),
        }
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with (
                aiohttp.ClientSession() as session,
                session.post(URL(url, encoded=True), data=body, headers=headers) as response,
            ):
                return response.status
        return 0

    # --- its answers ---

    def _admit(self, request: web.Request) -> None:
        login = aiohttp.encode_basic_auth(SID, TOKEN)
        if request.headers.get("Authorization") != login:
            raise FAULTS[Fault.REVOKED]

    def _message(
        self, sid: str, who: str, to: str, text: str, way: str, status: str, media: int
    ) -> dict[str, Any]:
        at = format_datetime(datetime.now(UTC))
        return {
            "sid": sid,
            "account_sid": SID,
            "api_version": "2010-04-01",
            "body": text,
            "date_created": at,
            "date_sent": at,
            "date_updated": at,
            "direction": way,
            "error_code": None,
            "error_message": None,
            "from": who,
            "to": to,
            "messaging_service_sid": None,
            "num_media": str(media),
            "num_segments": "1",
            "price": None,
            "price_unit": "USD",
            "status": status,
            "subresource_uris": {"media": f"{PATH}/Messages/{sid}/Media.json"},
            "uri": f"{PATH}/Messages/{sid}.json",
        }

    async def _account(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        told = {"sid": SID, "friendly_name": "My account", "status": "active", "type": self.kind}
        return web.json_response(told)

    async def _phones(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        numbers = [{"phone_number": NUMBER, "sms_url": self.callback, "sid": f"PN{1:032x}"}]
        wanted = request.query.get("PhoneNumber", NUMBER)
        found = [one for one in numbers if one["phone_number"] == wanted]
        return web.json_response({"incoming_phone_numbers": found, "page": 0, "page_size": 50})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        asked = request.query
        self.calls.append(("list", dict(asked)))
        since = datetime.fromisoformat(asked.get("DateSent>", "2000-01-01T00:00:00Z").replace("Z", "+00:00"))
        wanted = [
            one
            for one in reversed(self.messages)
            if one["to"] == asked["To"] and parsedate_to_datetime(one["date_sent"]) >= since
        ]
        page, size = int(asked.get("Page", 0)), int(asked.get("PageSize", 50))
        shown = wanted[page * size : (page + 1) * size]
        more = urlencode({**asked, "Page": page + 1})
        following = f"{PATH}/Messages.json?{more}" if (page + 1) * size < len(wanted) else None
        return web.json_response({"messages": shown, "next_page_uri": following, "page": page})

    async def _create(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.calls.append(("create", form))
        if form.get("From") != NUMBER:
            raise TwilioError(
                400, 21606, f"The 'From' phone number provided ({form.get('From')}) is not valid"
            )
        if not form.get("To", "").startswith("+") or not form["To"][1:].isdigit():
            raise TwilioError(400, 21211, f"Invalid 'To' Phone Number: {form.get('To')}")

        async def act() -> web.Response:
            return await self._take(form)

        response: web.StreamResponse = await self.troubled(request, form["To"], act)
        return response

    async def _take(self, form: dict[str, str]) -> web.Response:
        text, url = form.get("Body", ""), form.get("MediaUrl")
        if not text and not url:
            raise TwilioError(400, 21602, "Message body is required")
        if len(text.encode("utf-16-le")) // 2 > 1600:
            raise FAULTS[Fault.TOO_LONG]
        sid = f"{'MM' if url else 'SM'}{next(self._numbers):032x}"
        message = self._message(sid, NUMBER, form["To"], text, "outbound-api", "queued", int(bool(url)))
        if url:
            await self._fetch(sid, url)
        self.messages.append(message)
        if "StatusCallback" in form:
            self.callbacks[sid] = form["StatusCallback"]
        return web.json_response(message, status=201)

    async def _fetch(self, sid: str, url: str) -> None:
        """It asks for the head of a file, and then for the file, without any login."""
        async with aiohttp.ClientSession() as session:
            async with session.head(url) as response:
                assert response.status == 200
            async with session.get(url) as response:
                assert response.status == 200
                self.fetched[sid] = (response.content_type, await response.read())

    async def _media_list(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        sid = request.match_info["sid"]
        if sid not in self.media:
            raise TwilioError(404, 20404, f"The requested resource {request.path} was not found")
        found = [
            {"sid": media, "content_type": mime, "uri": f"{PATH}/Messages/{sid}/Media/{media}.json"}
            for media, (mime, _) in self.media.get(sid, {}).items()
        ]
        return web.json_response({"media_list": found, "next_page_uri": None})

    async def _media(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        sid, media = request.match_info["sid"], request.match_info["media"]
        if media not in self.media.get(sid, {}):
            raise TwilioError(404, 20404, "The requested resource was not found")
        if self.elsewhere:
            raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:{self.port}/cdn/{sid}/{media}")
        mime, data = self.media[sid][media]
        return web.Response(body=data, content_type=mime)

    async def _cdn(self, request: web.Request) -> web.StreamResponse:
        assert "Authorization" not in request.headers, "the token goes to another host"
        mime, data = self.media[request.match_info["sid"]][request.match_info["media"]]
        return web.Response(body=data, content_type=mime)

    async def _nowhere(self, request: web.Request) -> web.StreamResponse:
        raise TwilioError(404, 20404, f"The requested resource {request.path} was not found")
