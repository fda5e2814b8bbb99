"""The fake Telegram as a testbed, polled and with a webhook."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, MediaKind
from hermes.domain.word import replace
from hermes.entry.platforms.telegram.adapter import TelegramAdapter
from hermes.entry.platforms.telegram.convert import TelegramIdentity, to_inbounds
from hermes.entry.platforms.telegram.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.telegram.samples import UPDATES
from tests.platforms.telegram.server import BOT, Sent, Telegram

ME = TelegramIdentity(id=123456789, username="hermes_test_bot")
NOW = datetime(2026, 11, 16, tzinfo=UTC)
GROUP, FORUM = -1001234567890, -1009876543210
KINDS = {
    "photo": MediaKind.IMAGE,
    "voice": MediaKind.VOICE,
    "audio": MediaKind.AUDIO,
    "video": MediaKind.VIDEO,
    "document": MediaKind.FILE,
}


class TelegramBed(ServedBed):
    manifest = MANIFEST
    receives = frozenset(Does) - {Does.DELETE}
    """Bots are not told of deletions."""
    chat = Address(platform="telegram", chat="501")

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Telegram()
        self.server.chaos = lambda: self.chaos()
        self.server.chat(501)
        self.server.chat(GROUP, "supergroup")
        self.server.chat(FORUM, "supergroup", is_forum=True)
        self._last: dict[str, Any] = {}
        self.topics: Any = None
        """What keeps the names of topics: its `find` and `keep`."""

    def variables(self) -> dict[str, str]:
        return {"TELEGRAM_BOT_TOKEN": self.server.token, "TELEGRAM_BASE_URL": self.server.url}

    def connect(self) -> TelegramAdapter:
        context = self.context()
        if self.topics is not None:
            names = self.topics
            context = replace(context, find_topic=names.find, name_topic=names.name, keep_topic=names.keep)
        adapter = TelegramAdapter(context)
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        for number in range(count):
            self.server.chat(2000 + number)
        return [Address(platform="telegram", chat=str(2000 + number)) for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        number = int((chat or self.chat).chat)
        more: dict[str, Any] = {}
        match does:
            case Does.REPLY:
                more["reply_to_message"] = self.server._find(int(on))
            case Does.THREAD:
                number, more = (
                    FORUM,
                    {"kind": "supergroup", "message_thread_id": 77, "is_topic_message": True},
                )
            case Does.EDIT:
                self.server.edit(self._last, text)
                return
            case Does.MENTION:
                number, text, more = GROUP, f"@{BOT['username']} {text}", {"kind": "supergroup"}
            case Does.COMMAND:
                name, _, rest = text.partition(" ")
                number, text, more = GROUP, f"{name}@{BOT['username']} {rest}", {"kind": "supergroup"}
            case Does.BUTTON:
                self.server.press(on, text, 501)
                return
            case Does.IMAGE | Does.VOICE | Does.FILE:
                more = self._file(does, text)
                text = ""
        self._last = self.server.say(number, text, **more)

    def _file(self, does: Does, text: str) -> dict[str, Any]:
        file = self.server.keep_file(self.content)
        if does is Does.IMAGE:
            return {"photo": [{**file, "width": 90, "height": 60}], "caption": text}
        if does is Does.VOICE:
            return {"voice": {**file, "duration": 3, "mime_type": "audio/ogg"}, "caption": text}
        return {"document": {**file, "file_name": "plan.txt", "mime_type": "text/plain"}, "caption": text}

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """Updates in another order than the messages, and some messages in two updates."""
        before = len(self.server.updates)
        for text in texts:
            self.server.say(501, text)
        news = self.server.updates[before:]
        payloads = [one["message"] for one in news]
        random.Random(7).shuffle(payloads)
        for one, message in zip(news, payloads, strict=True):
            one["message"] = message
        for message in payloads[::3]:
            self.server.update(message=message)

    def acknowledged(self) -> int:
        return sum(1 for one in self.server.updates if one["update_id"] < self.server.confirmed)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        number = None if chat is None else int(chat.chat)
        return [_shown(one) for one in self.server.sent if not one.deleted and _is_in(one, number)]

    def typed(self) -> int:
        return len(self.server.typing)

    def reactions(self) -> list[str]:
        return self.server.reactions

    def samples(self) -> Sequence[Any]:
        return list(UPDATES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, ME, NOW)


class WebhookBed(TelegramBed):
    """The same bot, called by Telegram."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        port = free_port()
        self.said = {
            "TELEGRAM_WEBHOOK_URL": f"http://127.0.0.1:{port}/telegram",
            "TELEGRAM_WEBHOOK_SECRET": "s3cret_of-ours",
            "TELEGRAM_WEBHOOK_PORT": str(port),
        }


def _is_in(one: Sent, chat: int | None) -> bool:
    return chat is None or one.message["chat"]["id"] == chat


def _shown(one: Sent) -> Shown:
    message = one.message
    rows = message.get("reply_markup", {}).get("inline_keyboard", [])
    answered = message.get("reply_to_message")
    return Shown(
        ref=str(message["message_id"]),
        chat=str(message["chat"]["id"]),
        text=one.raw,
        thread=str(message["message_thread_id"]) if "message_thread_id" in message else None,
        files=() if one.file is None else ((KINDS[one.kind], one.file),),
        buttons=tuple(button["text"] for row in rows for button in row),
        reply_to=None if answered is None else str(answered["message_id"]),
        edits=one.edits,
    )
