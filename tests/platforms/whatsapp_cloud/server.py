"""Meta's Cloud API with one phone number: the part that the adapter uses, as Meta's documents describe it.

Errors are objects with a code; calls to the webhook are signed over their bytes and repeated until they are
answered with 200, one after the other here. Free words are taken for a day after a person wrote; what comes
later is taken too, and fails afterwards."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Route, ServedFake

PHONE, SHOWN, WABA = "106540352242922", "+1 555-078-3881", "102290129340398"
APP = "670843887433847"
TOKEN, SECRET, WORD = "EAAJB-of-the-system-user", "4d1c6a8b0e5f49f2a7d3b6c9e8f01234", "a word of ours"
NOW = 1_790_000_000
_ROWS, _BUTTONS = 10, 3
_OFFICE = "application/vnd.openxmlformats-officedocument"
UPLOADS = {
    *("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg", "audio/opus"),
    *("application/vnd.ms-powerpoint", "application/msword", "application/vnd.ms-excel", "application/pdf"),
    *(f"{_OFFICE}.wordprocessingml.document", f"{_OFFICE}.presentationml.presentation"),
    *(f"{_OFFICE}.spreadsheetml.sheet", "text/plain", "image/jpeg", "image/png", "image/webp"),
    *("video/mp4", "video/3gpp"),
}
"""What Meta's error to an upload of another type lists."""


class GraphError(FakeRefusal):
    def __init__(self, status: int, code: int, message: str, details: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, details

    @property
    def body(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "message": f"(#{self.code}) {self.message}",
            "type": "OAuthException",
            "code": self.code,
            "fbtrace_id": "A4O5a8RAgePwbcGSu",
        }
        if self.details:
            told["error_data"] = {"messaging_product": "whatsapp", "details": self.details}
        return {"error": told}


@dataclass
class SentMessage:
    id: str
    chat: str
    message: dict[str, Any]
    file: tuple[str, bytes] | None = None


@dataclass
class WhatsApp(ServedFake):
    """The service. Tests write through `say`, and read `sent`."""

    base_path = "/v24.0"
    callback: str = ""
    """The webhook address that was entered; nobody is called without one."""
    sent: list[SentMessage] = field(default_factory=list)
    typing: list[str] = field(default_factory=list)
    reactions: dict[str, str] = field(default_factory=dict)
    media: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)
    """Ids of messages that people wrote."""
    acknowledged: int = 0
    calls: list[tuple[str, Any]] = field(default_factory=list)
    expired: bool = False
    rated: str = "GREEN"
    status: str = "CONNECTED"
    subscribed: bool = True
    wants_proof: bool = False
    """Whether *Require app secret* is on."""
    _waiting: list[dict[str, Any]] = field(default_factory=list)
    _bell: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        yield "GET", f"/v24.0/{PHONE}", self._number
        yield "GET", "/v24.0/debug_token", self._debug_token
        yield "GET", f"/v24.0/{WABA}/subscribed_apps", self._subscribed
        yield "POST", f"/v24.0/{PHONE}/messages", self._messages
        yield "POST", f"/v24.0/{PHONE}/media", self._upload
        yield "GET", "/v24.0/{media}", self._media_url
        yield "GET", "/whatsapp_business/attachments/", self._download

    async def up(self) -> None:
        await super().up()
        self.start(self._call())

    def refused(self, refusal: GraphError) -> web.Response:
        return web.json_response(refusal.body, status=refusal.status)

    def failed(self, fault: Fault) -> web.Response:
        errors = {
            Fault.TOO_FAST: GraphError(
                400, 131056, "(Business Account, Consumer Account) pair rate limit hit"
            ),
            Fault.TOO_FAST_ALL: GraphError(429, 130429, "Rate limit hit"),
            Fault.REVOKED: GraphError(401, 190, "Error validating access token: Session has expired"),
            Fault.GONE: GraphError(400, 131026, "Message undeliverable"),
            Fault.TOO_LONG: GraphError(400, 100, "Invalid parameter"),
        }
        return self.refused(errors[fault])

    # --- people ---

    def new_id(self, chat: str) -> str:
        inner = f"{chat}:{next(self._numbers)}:{self.port}"
        return "wamid.HBgL" + base64.b64encode(inner.encode()).decode()

    def say(self, chat: str, sort: str, told: Any, **more: Any) -> dict[str, Any]:
        """A person does something: `told` is what stands below its type."""
        message = {
            "from": chat,
            "from_user_id": f"US.{chat}",
            "id": self.new_id(chat),
            "timestamp": str(NOW + next(self._numbers)),
            "type": sort,
            sort: told,
            **more,
        }
        self.heard.add(message["id"])
        contact = {"profile": {"name": "Ann Other"}, "wa_id": chat, "user_id": f"US.{chat}"}
        self.tell({"contacts": [contact], "messages": [message]})
        return message

    def fail_later(self, sent: SentMessage, code: int, details: str) -> None:
        """A message that was taken turns out not to arrive."""
        errors = [{"code": code, "title": "Failed", "error_data": {"details": details}}]
        self.tell_status(sent, "failed", errors=errors)

    def tell_status(self, sent: SentMessage, status: str, **more: Any) -> None:
        told = {
            "id": sent.id,
            "status": status,
            "timestamp": str(NOW + next(self._numbers)),
            "recipient_id": sent.chat,
            "recipient_user_id": f"US.{sent.chat}",
            **more,
        }
        if "biz_opaque_callback_data" in sent.message:
            told["biz_opaque_callback_data"] = sent.message["biz_opaque_callback_data"]
        contact = {"profile": {"name": "Ann Other"}, "wa_id": sent.chat, "user_id": f"US.{sent.chat}"}
        self.tell({"contacts": [contact], "statuses": [told]})

    def tell(self, value: dict[str, Any], phone: str = PHONE) -> None:
        self._waiting.append(envelope(value, phone))
        self._bell.set()

    def keep_file(self, data: bytes, mime: str) -> str:
        number = str(1_000_000_000 + next(self._numbers))
        self.media[number] = (mime, data)
        return number

    # --- calls to the webhook ---

    async def _call(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                if not self._waiting:
                    self._bell.clear()
                    await self._bell.wait()
                body = json.dumps(self._waiting[0], ensure_ascii=True).encode()
                status = await self.call(session, body) if self.callback else 0
                if status == 200:
                    self._waiting.pop(0)
                    self.acknowledged += 1
                else:
                    await asyncio.sleep(0.01)

    async def call(self, session: aiohttp.ClientSession, body: bytes, secret: str = SECRET) -> int:
        headers = {"Content-Type": "application/json", "X-Hub-Signature-256": signature(body, secret)}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            limit = aiohttp.ClientTimeout(total=20)
            async with session.post(self.callback, data=body, headers=headers, timeout=limit) as response:
                return response.status
        return 0

    # --- its answers ---

    def _admit(self, request: web.Request, *, proof: bool = True) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}" or self.expired:
            raise GraphError(401, 190, "Invalid OAuth access token - Cannot parse access token")
        told = request.query.get("appsecret_proof")
        if told is None and proof and self.wants_proof:
            raise GraphError(400, 100, "API calls from the server require an appsecret_proof argument")
        if told is not None and told != hmac.new(SECRET.encode(), TOKEN.encode(), "sha256").hexdigest():
            raise GraphError(400, 100, "Invalid appsecret_proof provided in the API argument")

    async def _number(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        told = {"display_phone_number": SHOWN, "verified_name": "Lucky Shrub", "quality_rating": self.rated}
        told["status"] = self.status
        if self.callback:
            told |= {"webhook_configuration": {"application": self.callback}}  # type: ignore[dict-item]
        return web.json_response({**told, "id": PHONE})

    async def _debug_token(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        assert request.query["input_token"] == TOKEN
        scope = {"scope": "whatsapp_business_management", "target_ids": [WABA]}
        return web.json_response({"data": {"app_id": APP, "is_valid": True, "granular_scopes": [scope]}})

    async def _subscribed(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        app = {"whatsapp_business_api_data": {"id": APP, "name": "Lucky Shrub", "link": "https://x.example"}}
        return web.json_response({"data": [app] if self.subscribed else []})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        told = await request.json()
        self.calls.append(("messages", told))
        if told.get("messaging_product") != "whatsapp":
            raise GraphError(400, 100, "The parameter messaging_product is required.")
        if told.get("status") == "read":
            if told["message_id"] not in self.heard:
                raise GraphError(400, 131009, "Parameter value is not valid")
            if told.get("typing_indicator") == {"type": "text"}:
                self.typing.append(told["message_id"])
            return web.json_response({"success": True})
        chat = told.get("to") or told.get("recipient")
        if not chat:
            raise GraphError(400, 100, "The parameter to is required.")

        if told.get("recipient_type") == "group" and told.get("type") == "interactive":
            raise GraphError(400, 131051, "Unsupported message type", "Groups take no interactive messages.")

        async def act() -> web.Response:
            return self._take(chat, told)

        if told.get("type") == "reaction":
            return await act()
        response: web.StreamResponse = await self.troubled(request, chat, act)
        return response

    def _take(self, chat: str, told: dict[str, Any]) -> web.Response:
        sort = told.get("type", "text")
        check_message(sort, told[sort])
        quoted = told.get("context", {}).get("message_id")
        if quoted is not None and not quoted.startswith("wamid."):
            raise GraphError(400, 131009, "Parameter value is not valid", "Invalid message_id")
        number = self.new_id(chat)
        if sort == "reaction":
            self.reactions[told["reaction"]["message_id"]] = told["reaction"]["emoji"]
        else:
            file = self.media.get(str(told[sort].get("id"))) if "id" in told[sort] else None
            if "id" in told[sort] and file is None:
                raise GraphError(400, 131053, "Media upload error", "no such media")
            self.sent.append(SentMessage(number, chat, told, file))
        contact = {"input": chat, "user_id": chat} if "recipient" in told else {"input": chat, "wa_id": chat}
        answer = {"messaging_product": "whatsapp", "contacts": [contact], "messages": [{"id": number}]}
        return web.json_response(answer)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        form = await request.post()
        file = form["file"]
        if form.get("messaging_product") != "whatsapp" or not isinstance(file, web.FileField):
            raise GraphError(400, 100, "Invalid parameter")
        if file.content_type not in UPLOADS:
            words = f"Param file must be a file with one of the following types: … '{file.content_type}'."
            raise GraphError(400, 100, words)
        return web.json_response({"id": self.keep_file(file.file.read(), file.content_type)})

    async def _media_url(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        number = request.match_info["media"]
        if number not in self.media:
            raise GraphError(400, 100, f"Unsupported get request. Object with ID '{number}' does not exist")
        mime, data = self.media[number]
        url = f"http://127.0.0.1:{self.port}/whatsapp_business/attachments/?mid={number}"
        told = {"messaging_product": "whatsapp", "url": url, "mime_type": mime, "id": number}
        return web.json_response({**told, "sha256": hashlib.sha256(data).hexdigest(), "file_size": len(data)})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        self._admit(request, proof=False)
        mime, data = self.media[request.query["mid"]]
        return web.Response(body=data, content_type=mime)


def envelope(value: dict[str, Any], phone: str = PHONE) -> dict[str, Any]:
    metadata = {"display_phone_number": "15550783881", "phone_number_id": phone}
    value = {"messaging_product": "whatsapp", "metadata": metadata, **value}
    return {
        "object": "whatsapp_business_account",
        "entry": [{"id": WABA, "changes": [{"value": value, "field": "messages"}]}],
    }


def signature(body: bytes, secret: str) -> str:
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def check_message(sort: str, told: dict[str, Any]) -> None:
    """What Meta's documents say a message has to look like."""

    def need(right: bool, what: str) -> None:
        if not right:
            raise GraphError(400, 100, "Invalid parameter", what)

    match sort:
        case "text":
            need(1 <= len(told["body"]) <= 4096, "Param text['body'] must be at most 4096 characters long.")
        case "interactive":
            action, words = told["action"], told["body"]["text"]
            if told["type"] == "button":
                replies = [one["reply"] for one in action["buttons"]]
                need(1 <= len(replies) <= _BUTTONS and len(words) <= 1024, "too many buttons, or words")
                need(all(1 <= len(one["title"]) <= 20 and len(one["id"]) <= 256 for one in replies), "button")
            else:
                rows = [row for section in action["sections"] for row in section["rows"]]
                need(told["type"] == "list" and len(action["button"]) <= 20, "a list wants a button")
                need(1 <= len(rows) <= _ROWS and len(words) <= 4096, "too many rows, or words")
                need(all(1 <= len(row["title"]) <= 24 and len(row["id"]) <= 200 for row in rows), "row")
                replies = rows
            need(len({one["title"] for one in replies}) == len(replies), "titles have to differ")
            need(len({one["id"] for one in replies}) == len(replies), "ids have to differ")
        case "template":
            need(bool(told["name"] and told["language"]["code"]), "a name and a language")
            for part in (one for component in told["components"] for one in component["parameters"]):
                bad = re.search(r"[\n\t]| {5}", part["text"]) or len(part["text"]) > 1024
                if bad:
                    raise GraphError(400, 132000, "Param text cannot have new-line/tab characters")
        case "image" | "video" | "document":
            need(len(told.get("caption", "")) <= 1024, "caption")
        case "audio" | "sticker":
            need("caption" not in told, "these have no caption")
        case "reaction":
            need("message_id" in told and "emoji" in told, "reaction")
        case _:
            raise GraphError(400, 131051, "Unsupported message type")
