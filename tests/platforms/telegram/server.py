"""A Telegram with one bot: the part of the Bot API that the adapter uses, as core.telegram.org describes it.

Method names in any case, parameters as JSON, form, multipart or query; `ok`/`result`, or `error_code` with
`description` and `parameters`. Updates are kept until they are confirmed by a higher offset or, with a
webhook, by a 2xx answer. Texts are parsed as HTML as strictly as Telegram does it, and cut off nowhere: what
is too long is refused."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Route, ServedFake

TOKEN = "123456789:AAF-the_fake_bot_token_of_35_letters"
BOT = {
    "id": 123456789,
    "is_bot": True,
    "first_name": "Hermes",
    "username": "hermes_test_bot",
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_inline_queries": False,
    "can_connect_to_business": False,
    "has_main_web_app": False,
    "has_topics_enabled": True,
    "allows_users_to_create_topics": False,
    "can_manage_bots": False,
    "supports_guest_queries": False,
}
TAGS = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "s": "strikethrough",
    "del": "strikethrough", "code": "code", "pre": "pre", "a": "text_link", "blockquote": "blockquote",
}  # fmt: skip
FILES = {
    "sendphoto": "photo",
    "sendvoice": "voice",
    "sendaudio": "audio",
    "sendvideo": "video",
    "senddocument": "document",
}
SENDS = frozenset({"sendmessage", "sendmediagroup", "editmessagetext", *FILES})
MOST_TEXT, MOST_CAPTION, MOST_DOWN = 4096, 1024, 20 * 1024 * 1024
MOST_MENU = 4096


class Wrong(FakeRefusal):
    """An error answer."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.parameters = parameters


@dataclass
class Sent:
    """A message of the bot's."""

    message: dict[str, Any]
    raw: str
    file: bytes | None = None
    kind: str = ""
    edits: int = 0
    deleted: bool = False


@dataclass
class Telegram(ServedFake):
    """The service. Tests write through `say`, and read `sent`."""

    token: str = TOKEN
    sent: list[Sent] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    chats: dict[int, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    drafts: list[tuple[int, int, str]] = field(default_factory=list)
    """What was shown as a draft: chat, number, text."""
    has_drafts: bool = True
    has_topics: bool = True
    """Whether the bot has topics in private chats."""
    topics: dict[int, str] = field(default_factory=dict)
    """What topics are called that were opened here."""
    closed: set[int] = field(default_factory=set)
    """Topics that people deleted."""
    local: Path | None = None
    """It runs with --local: files are named by their path in this folder, and no size is too large
    (core.telegram.org/bots/api, “Using a Local Bot API Server”)."""
    typing: list[int | None] = field(default_factory=list)
    """In which topics people saw that it writes."""
    reactions: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    scoped: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """The menus, by the chats they are for."""
    files: dict[str, bytes] = field(default_factory=dict)
    webhook: dict[str, Any] = field(default_factory=dict)
    webhook_error: str = ""
    migrated: dict[int, int] = field(default_factory=dict)
    confirmed: int = 0
    delivered: int = 0
    retry_seconds: float = 0.01
    _numbers: Any = field(default_factory=lambda: itertools.count(1000))
    _update_numbers: Any = field(default_factory=lambda: itertools.count(870_000_001))
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _poller: asyncio.Event | None = None

    # --- its life ---

    def routes(self) -> Iterable[Route]:
        yield "*", "/bot{token}/{method}", self._serve
        yield "GET", "/file/bot{token}/{path:.*}", self._download

    async def up(self) -> None:
        await super().up()
        self.start(self._call_webhook())

    # --- people ---

    def chat(self, number: int, kind: str = "private", **more: Any) -> dict[str, Any]:
        if number not in self.chats:
            name = (
                {"first_name": "Ann", "username": f"ann{abs(number)}"}
                if kind == "private"
                else {"title": "Team"}
            )
            self.chats[number] = {"id": number, "type": kind, **name, **more}
        return self.chats[number]

    def person(self, number: int) -> dict[str, Any]:
        return {
            "id": abs(number),
            "is_bot": False,
            "first_name": "Ann",
            "last_name": "Other",
            "language_code": "en",
        }

    def say(self, chat: int, text: str = "", *, kind: str = "private", **more: Any) -> dict[str, Any]:
        """A person writes; `more` are further fields of the message."""
        message: dict[str, Any] = {
            "message_id": next(self._numbers),
            "date": int(time.time()),
            "chat": self.chat(chat, kind),
            "from": self.person(chat if kind == "private" else 501),
        }
        if text:
            message["text"] = text
            if entities := found_entities(text):
                message["entities"] = entities
        message |= more
        self.update(message=message)
        return message

    def edit(self, message: dict[str, Any], text: str) -> None:
        changed = {**message, "text": text, "edit_date": int(time.time())}
        self.update(edited_message=changed)

    def press(self, ref: str, data: str, who: int) -> None:
        one = next(sent for sent in self.sent if str(sent.message["message_id"]) == ref)
        self.update(
            callback_query={
                "id": str(next(self._numbers) * 7919),
                "from": self.person(who),
                "message": one.message,
                "chat_instance": "-42",
                "data": data,
            }
        )

    def update(self, **what: Any) -> dict[str, Any]:
        told = {"update_id": next(self._update_numbers), **what}
        self.updates.append(told)
        self._news.set()
        return told

    def keep_file(self, data: bytes) -> dict[str, Any]:
        number = f"AgACAgIAAxkB{len(self.files):06d}"
        self.files[number] = data
        return {"file_id": number, "file_unique_id": f"u{len(self.files)}", "file_size": len(data)}

    # --- the interface ---

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"].lower()
        if request.match_info["token"] != self.token:
            code = 401 if re.fullmatch(r"\d+:[\w-]+", request.match_info["token"]) else 404
            raise Wrong(code, {401: "Unauthorized", 404: "Not Found"}[code])
        asked = await _parameters(request)
        self.calls.append((method, asked))
        action = getattr(self, f"_m_{method}", None)

        async def act() -> web.StreamResponse:
            if action is None:
                raise Wrong(404, "Not Found: method not found")
            return web.json_response({"ok": True, "result": await action(asked)})

        return await (self.troubled(request, str(asked.get("chat_id")), act) if method in SENDS else act())

    def refused(self, refusal: Wrong) -> web.Response:
        told: dict[str, Any] = {"ok": False, "error_code": refusal.code, "description": str(refusal)}
        if refusal.parameters:
            told["parameters"] = refusal.parameters
        return web.json_response(told, status=refusal.code)

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL:
                raise Wrong(429, "Too Many Requests: retry after 3", retry_after=3)
            case Fault.REVOKED:
                raise Wrong(401, "Unauthorized")
            case Fault.GONE:
                raise Wrong(403, "Forbidden: bot was blocked by the user")
        raise Wrong(400, "Bad Request: message is too long")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        data = self.files.get(request.match_info["path"].removeprefix("files/"))
        if request.match_info["token"] != self.token or data is None:
            return web.json_response({"ok": False, "error_code": 404, "description": "Not Found"}, status=404)
        return web.Response(body=data, content_type="application/octet-stream")

    async def _m_getme(self, asked: dict[str, Any]) -> Any:
        return {**BOT, "has_topics_enabled": self.has_topics}

    async def _m_getupdates(self, asked: dict[str, Any]) -> Any:
        if self.webhook.get("url"):
            raise Wrong(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete"
                " the webhook first",
            )
        if self._poller is not None:
            self._poller.set()
        stopped = self._poller = asyncio.Event()
        offset, limit = _number(asked.get("offset")) or 0, _number(asked.get("limit")) or 100
        if offset > 0:
            self.confirmed = max(self.confirmed, offset)
        end = asyncio.get_running_loop().time() + (_number(asked.get("timeout")) or 0)
        while True:
            news = [one for one in self.updates if one["update_id"] >= self.confirmed][:limit]
            left = end - asyncio.get_running_loop().time()
            if stopped.is_set():
                raise Wrong(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance"
                    " is running",
                )
            if news or left <= 0:
                self._poller = None
                return news
            self._news.clear()
            waits = [asyncio.create_task(event.wait()) for event in (self._news, stopped)]
            try:
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waits:
                    one.cancel()

    async def _m_setwebhook(self, asked: dict[str, Any]) -> Any:
        self.webhook = {"url": asked["url"], "secret": asked.get("secret_token", "")}
        if self._poller is not None:
            self._poller.set()
        self._news.set()
        return True

    async def _m_deletewebhook(self, asked: dict[str, Any]) -> Any:
        self.webhook = {}
        if asked.get("drop_pending_updates") in (True, "true", "True", "1"):
            self.confirmed = max((one["update_id"] + 1 for one in self.updates), default=self.confirmed)
        return True

    async def _m_getwebhookinfo(self, asked: dict[str, Any]) -> Any:
        waiting = sum(1 for one in self.updates if one["update_id"] >= self.confirmed)
        info = {
            "url": self.webhook.get("url", ""),
            "has_custom_certificate": False,
            "pending_update_count": waiting,
        }
        if self.webhook_error:
            info |= {"last_error_date": int(time.time()), "last_error_message": self.webhook_error}
        return info

    async def _m_sendmessage(self, asked: dict[str, Any]) -> Any:
        text, entities = parsed(asked)
        if not text.strip():
            raise Wrong(400, "Bad Request: message text is empty")
        if units(text) > MOST_TEXT:
            raise Wrong(400, "Bad Request: message is too long")
        message = self._message(asked)
        message["text"] = text
        if entities:
            message["entities"] = entities
        self.sent.append(Sent(message, str(asked["text"])))
        return message

    async def _m_sendmessagedraft(self, asked: dict[str, Any]) -> Any:
        if not self.has_drafts:
            raise Wrong(404, "Not Found")
        chat, number = _number(asked.get("chat_id")), _number(asked.get("draft_id"))
        text, _ = parsed(asked)
        if chat is None or self.chats.get(chat, {}).get("type") != "private":
            raise Wrong(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
        if not number or not 0 < abs(number) < 2**31:
            raise Wrong(400, "Bad Request: draft_id is invalid")
        if units(text) > MOST_TEXT:
            raise Wrong(400, "Bad Request: message is too long")
        self.drafts.append((chat, number, str(asked["text"])))
        return True

    def _message(self, asked: dict[str, Any]) -> dict[str, Any]:
        number = _number(asked.get("chat_id"))
        if number in self.migrated:
            raise Wrong(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=self.migrated[number],
            )
        if number not in self.chats:
            raise Wrong(400, "Bad Request: chat not found")
        message = {
            "message_id": next(self._numbers),
            "from": {key: BOT[key] for key in ("id", "is_bot", "first_name", "username")},
            "chat": self.chats[number],
            "date": int(time.time()),
        }
        if (thread := _number(asked.get("message_thread_id"))) is not None:
            # The general topic of a forum has no number when one writes to it (openclaw #848).
            if thread in self.closed or (thread == 1 and self.chats[number].get("is_forum")):
                raise Wrong(400, "Bad Request: message thread not found")
            message |= {"message_thread_id": thread, "is_topic_message": True}
        # core.telegram.org/bots/api, sendMessage: required for a message to a direct messages chat.
        if self.chats[number].get("is_direct_messages"):
            if (topic := _number(asked.get("direct_messages_topic_id"))) is None:
                raise Wrong(400, "Bad Request: direct messages topic must be specified")
            message["direct_messages_topic"] = {"topic_id": topic}
        if (answered := _json(asked.get("reply_parameters"))) is not None:
            if answered["message_id"] in {one.message["message_id"] for one in self.sent} | _said(
                self.updates
            ):
                message["reply_to_message"] = self._find(answered["message_id"])
            elif not answered.get("allow_sending_without_reply"):
                raise Wrong(400, "Bad Request: message to be replied not found")
        if (markup := _json(asked.get("reply_markup"))) is not None:
            _check_keyboard(markup)
            message["reply_markup"] = markup
        return message

    def _find(self, number: int) -> dict[str, Any]:
        known = [one.message for one in self.sent] + [
            one["message"] for one in self.updates if "message" in one
        ]
        found = next(one for one in known if one["message_id"] == number)
        return {name: value for name, value in found.items() if name != "reply_to_message"}

    async def _m_sendmediagroup(self, asked: dict[str, Any]) -> Any:
        """All of an album or nothing; its messages follow each other and have the group's number."""
        media = _json(asked.get("media")) or []
        kinds = {one["type"] for one in media}
        if not 2 <= len(media) <= 10:
            raise Wrong(400, "Bad Request: wrong number of messages to send as an album")
        if not (kinds <= {"photo", "video"} or kinds in ({"audio"}, {"document"})):
            raise Wrong(400, "Bad Request: documents and audio can't be mixed with other media types")
        place = {name: value for name, value in asked.items() if name not in ("media", "reply_markup")}
        before = len(self.sent)
        for number, one in enumerate(media, start=1):
            words = {name: one[name] for name in ("caption", "parse_mode") if name in one}
            file = asked.get(str(one["media"]).removeprefix("attach://"))
            try:
                await self._send_file(f"send{one['type']}", {**place, **words, one["type"]: file})
            except Wrong as wrong:
                del self.sent[before:]
                if "IMAGE_PROCESS" not in str(wrong):
                    raise
                why = str(wrong).removeprefix("Bad Request: ")
                told = f'Bad Request: failed to send message #{number} with the error message "{why}"'
                raise Wrong(400, told) from None
        sent = [one.message for one in self.sent[before:]]
        for message in sent:
            message["media_group_id"] = str(sent[0]["message_id"] * 7919)
        return sent

    async def _send_file(self, method: str, asked: dict[str, Any]) -> Any:
        name = FILES[method]
        data = asked.get(name)
        if not isinstance(data, Upload):
            raise Wrong(400, f"Bad Request: there is no {name} in the request")
        if not data.data:
            raise Wrong(400, "Bad Request: file must be non-empty")
        if len(data.data) > (10 if name == "photo" else 2000 if self.local else 50) * 1024 * 1024:
            raise Wrong(413, "Request Entity Too Large")
        if name == "photo" and not data.data.startswith((b"\x89PNG", b"\xff\xd8", b"RIFF", b"image/")):
            raise Wrong(400, "Bad Request: IMAGE_PROCESS_FAILED")
        caption, entities = parsed(asked, "caption")
        if units(caption) > MOST_CAPTION:
            raise Wrong(400, "Bad Request: message caption is too long")
        message = self._message(asked)
        kept = self.keep_file(data.data)
        match name:
            case "photo":
                message["photo"] = [{**kept, "width": 90, "height": 60}]
            case "voice":
                message["voice"] = {**kept, "duration": 1, "mime_type": "audio/ogg"}
            case "audio":
                message["audio"] = {**kept, "duration": 1, "mime_type": data.mime}
            case "video":
                message["video"] = {**kept, "duration": 1, "width": 90, "height": 60, "mime_type": data.mime}
            case _:
                message["document"] = {**kept, "file_name": data.name, "mime_type": data.mime}
        if caption:
            message |= {"caption": caption, **({"caption_entities": entities} if entities else {})}
        self.sent.append(Sent(message, str(asked.get("caption", "")), file=data.data, kind=name))
        return message

    async def _m_sendphoto(self, asked: dict[str, Any]) -> Any:
        return await self._send_file("sendphoto", asked)

    async def _m_sendvoice(self, asked: dict[str, Any]) -> Any:
        return await self._send_file("sendvoice", asked)

    async def _m_sendaudio(self, asked: dict[str, Any]) -> Any:
        return await self._send_file("sendaudio", asked)

    async def _m_sendvideo(self, asked: dict[str, Any]) -> Any:
        return await self._send_file("sendvideo", asked)

    async def _m_senddocument(self, asked: dict[str, Any]) -> Any:
        return await self._send_file("senddocument", asked)

    def _own(self, asked: dict[str, Any], otherwise: str) -> Sent:
        number = _number(asked.get("message_id"))
        for one in self.sent:
            if one.message["message_id"] == number and not one.deleted:
                return one
        raise Wrong(400, otherwise)

    async def _m_editmessagetext(self, asked: dict[str, Any]) -> Any:
        one = self._own(asked, "Bad Request: message to edit not found")
        if "text" not in one.message:
            raise Wrong(400, "Bad Request: there is no text in the message to edit")
        text, entities = parsed(asked)
        if units(text) > MOST_TEXT:
            raise Wrong(400, "Bad Request: message is too long")
        markup = _json(asked.get("reply_markup"))
        before = (one.message["text"], one.message.get("entities", []), one.message.get("reply_markup"))
        if (text, entities, markup) == before:
            raise Wrong(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are"
                " exactly the same as a current content and reply markup of the message",
            )
        one.message |= {"text": text, "edit_date": int(time.time())}
        for name, value in (("entities", entities), ("reply_markup", markup)):
            one.message.pop(name, None)
            if value:
                one.message[name] = value
        one.raw, one.edits = str(asked["text"]), one.edits + 1
        return one.message

    async def _m_editmessagecaption(self, asked: dict[str, Any]) -> Any:
        one = self._own(asked, "Bad Request: message to edit not found")
        caption, _ = parsed(asked, "caption")
        one.message["caption"] = caption
        one.raw, one.edits = str(asked.get("caption", "")), one.edits + 1
        return one.message

    async def _m_deletemessage(self, asked: dict[str, Any]) -> Any:
        self._own(asked, "Bad Request: message to delete not found").deleted = True
        return True

    async def _m_answercallbackquery(self, asked: dict[str, Any]) -> Any:
        known = [one["callback_query"]["id"] for one in self.updates if "callback_query" in one]
        if asked.get("callback_query_id") not in known:
            raise Wrong(
                400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        self.answered.append(str(asked["callback_query_id"]))
        return True

    async def _m_sendchataction(self, asked: dict[str, Any]) -> Any:
        if _number(asked.get("chat_id")) not in self.chats:
            raise Wrong(400, "Bad Request: chat not found")
        chat, thread = self.chats[_number(asked["chat_id"]) or 0], _number(asked.get("message_thread_id"))
        # Measured in openclaw #848: in a forum it is shown with a topic only, and the general one is 1.
        if asked.get("action") == "typing" and not (chat.get("is_forum") and thread is None):
            self.typing.append(thread)
        return True

    async def _m_setmessagereaction(self, asked: dict[str, Any]) -> Any:
        number = _number(asked.get("message_id"))
        known = {one["message"]["message_id"] for one in self.updates if "message" in one}
        if number not in known:
            self._own(asked, "Bad Request: message to react not found")
        self.reactions = []
        for one in _json(asked.get("reaction")) or []:
            if one["emoji"] not in "👍👎❤🔥🥰👏😁🤔👀🎉🙏👌":
                raise Wrong(400, "Bad Request: REACTION_INVALID")
            self.reactions.append(one["emoji"])
        return True

    async def _m_createforumtopic(self, asked: dict[str, Any]) -> Any:
        if not 1 <= len(asked.get("name", "")) <= 128:
            raise Wrong(400, "Bad Request: topic name is invalid")
        chat = self.chats[_number(asked["chat_id"]) or 0]
        if not (self.has_topics if chat["type"] == "private" else chat.get("is_forum")):
            raise Wrong(400, "Bad Request: the chat is not a forum")
        number = next(self._numbers)
        self.topics[number] = asked["name"]
        return {"message_thread_id": number, "name": asked["name"], "icon_color": 7322096}

    async def _m_setmycommands(self, asked: dict[str, Any]) -> Any:
        commands = _json(asked.get("commands")) or []
        if len(commands) > 100 or not all(
            re.fullmatch(r"[a-z0-9_]{1,32}", one["command"]) and 1 <= len(one["description"]) <= 256
            for one in commands
        ):
            raise Wrong(400, "Bad Request: BOT_COMMAND_INVALID")
        # Of the whole, too: about 4 KB of descriptions (hermes-agent #4010, opencrabs #1613).
        if sum(len(one["description"].encode()) for one in commands) > MOST_MENU:
            raise Wrong(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
        self.scoped[_scope(asked)] = commands
        return True

    async def _m_deletemycommands(self, asked: dict[str, Any]) -> Any:
        self.scoped.pop(_scope(asked), None)
        return True

    @property
    def commands(self) -> list[dict[str, str]]:
        """What people in private chats see: what was set for those wins over what was set for all."""
        return self.scoped.get("all_private_chats") or self.scoped.get("default", [])

    async def _m_getfile(self, asked: dict[str, Any]) -> Any:
        number = asked.get("file_id", "")
        data = self.files.get(number)
        if data is None:
            raise Wrong(400, "Bad Request: invalid file_id")
        path = f"files/{number}"
        if self.local is not None:
            place = self.local / self.token / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            path = str(place)
        elif len(data) > MOST_DOWN:
            raise Wrong(400, "Bad Request: file is too big")
        return {
            "file_id": number,
            "file_unique_id": f"u{number[-3:]}",
            "file_size": len(data),
            "file_path": path,
        }

    # --- the webhook ---

    async def _call_webhook(self) -> None:
        """One call at a time, again and again until it is answered with a 2xx."""
        async with aiohttp.ClientSession() as session:
            while True:
                waiting = [one for one in self.updates if one["update_id"] >= self.confirmed]
                if not self.webhook.get("url") or not waiting:
                    self._news.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), 0.05)
                    continue
                headers = {"X-Telegram-Bot-Api-Secret-Token": self.webhook["secret"]}
                try:
                    async with session.post(
                        self.webhook["url"], json=waiting[0], headers=headers
                    ) as response:
                        good = 200 <= response.status < 300
                        self.webhook_error = (
                            "" if good else f"Wrong response from the webhook: {response.status}"
                        )
                except aiohttp.ClientError:
                    good, self.webhook_error = False, "Connection refused"
                if good:
                    self.confirmed = waiting[0]["update_id"] + 1
                    self.delivered += 1
                else:
                    await asyncio.sleep(self.retry_seconds)


# --- words ---------------------------------------------------------------------------------------


class _Parser(HTMLParser):
    """The tags that Telegram takes, well nested; anything else is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.entities: list[dict[str, Any]] = []
        self._open: list[tuple[str, dict[str, Any]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            raise Wrong(400, f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}"')
        if tag == "blockquote" and any(name == "blockquote" for name, _ in self._open):
            raise Wrong(400, "Bad Request: can't parse entities: Nested blockquotes are not allowed")
        entity: dict[str, Any] = {"type": TAGS[tag], "offset": units(self.text), "length": 0}
        given = dict(attrs)
        if tag == "a":
            entity["url"] = given.get("href") or ""
        if tag == "code" and self._open and self._open[-1][0] == "pre":
            self._open[-1][1]["language"] = (given.get("class") or "").removeprefix("language-")
        self._open.append((tag, entity))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            raise Wrong(400, f'Bad Request: can\'t parse entities: Unmatched end tag, found "</{tag}>"')
        _, entity = self._open.pop()
        entity["length"] = units(self.text) - entity["offset"]
        inner = tag == "code" and self._open and self._open[-1][0] == "pre"
        if entity["length"] and not inner and not (tag == "a" and not entity["url"].startswith("http")):
            self.entities.append(entity)

    def handle_data(self, data: str) -> None:
        self.text += data

    def close(self) -> None:
        super().close()
        if self._open:
            raise Wrong(
                400, f"Bad Request: can't parse entities: Can't find end tag of \"{self._open[-1][0]}\""
            )


def parsed(asked: dict[str, Any], name: str = "text") -> tuple[str, list[dict[str, Any]]]:
    given = str(asked.get(name, ""))
    if asked.get("parse_mode") is None:
        return given, found_entities(given)
    if asked["parse_mode"] != "HTML":
        raise Wrong(400, "Bad Request: unsupported parse_mode")
    if re.search(r"<(?![a-zA-Z/])", given):
        raise Wrong(400, "Bad Request: can't parse entities: Unsupported start tag")
    parser = _Parser()
    parser.feed(given)
    parser.close()
    return parser.text, sorted(parser.entities, key=lambda one: (one["offset"], -one["length"]))


def found_entities(text: str) -> list[dict[str, Any]]:
    sorts = {"bot_command": r"(?<!\S)/[A-Za-z0-9_]{1,32}(@\w+)?", "mention": r"(?<!\w)@\w{4,32}"}
    found = [
        {"type": sort, "offset": units(text[: one.start()]), "length": units(one[0])}
        for sort, pattern in sorts.items()
        for one in re.finditer(pattern, text)
    ]
    return sorted(found, key=lambda one: one["offset"])


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


# --- parameters ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Upload:
    name: str
    data: bytes
    mime: str


async def _parameters(request: web.Request) -> dict[str, Any]:
    asked: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        asked |= json.loads(await request.read() or b"{}")
    elif request.method == "POST":
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                asked[name] = Upload(value.filename, value.file.read(), value.content_type)
            else:
                asked[name] = value
    for name, value in list(asked.items()):
        if isinstance(value, str) and value.startswith("attach://"):
            asked[name] = asked.get(value.removeprefix("attach://"))
    return asked


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value else value


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _scope(asked: dict[str, Any]) -> str:
    scope = _json(asked.get("scope")) or {"type": "default"}
    return str(scope["type"])


def _said(updates: list[dict[str, Any]]) -> set[int]:
    return {one["message"]["message_id"] for one in updates if "message" in one}


def _check_keyboard(markup: dict[str, Any]) -> None:
    for row in markup["inline_keyboard"]:
        for button in row:
            if not button.get("text"):
                raise Wrong(400, "Bad Request: inline keyboard button text is empty")
            if not 1 <= len(button.get("callback_data", "").encode()) <= 64:
                raise Wrong(400, "Bad Request: BUTTON_DATA_INVALID")
