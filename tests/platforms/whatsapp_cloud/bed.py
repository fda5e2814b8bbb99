"""The fake Cloud API as a testbed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, MediaKind
from hermes.entry.platforms.whatsapp_cloud.adapter import PATH, WhatsAppCloudAdapter
from hermes.entry.platforms.whatsapp_cloud.convert import WhatsAppIdentity, to_inbounds
from hermes.entry.platforms.whatsapp_cloud.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.whatsapp_cloud.samples import ANN, WEBHOOKS
from tests.platforms.whatsapp_cloud.server import PHONE, SECRET, TOKEN, WORD, SentMessage, WhatsApp

ME = WhatsAppIdentity(phone=PHONE)
KINDS = {
    "image": MediaKind.IMAGE,
    "video": MediaKind.VIDEO,
    "audio": MediaKind.AUDIO,
    "sticker": MediaKind.STICKER,
    "document": MediaKind.FILE,
}


class WhatsAppBed(ServedBed):
    manifest = MANIFEST
    receives = frozenset(Does) - {Does.THREAD, Does.MENTION}
    """There are no threads, and businesses are not mentioned."""
    exempt = {
        "check_types_and_reacts": "one shows that one writes by a message that came; see test_whatsapp_cloud"
    }
    chat = Address(platform="whatsapp_cloud", chat=ANN)
    delay = 1.0

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = WhatsApp()
        self.server.chaos = lambda: self.chaos()
        port = free_port()
        self.server.callback = f"http://127.0.0.1:{port}{PATH}"
        self.said = {"WHATSAPP_CLOUD_WEBHOOK_PORT": str(port)}
        self._last: dict[str, Any] = {}

    def variables(self) -> dict[str, str]:
        return {
            "WHATSAPP_CLOUD_PHONE_NUMBER_ID": PHONE,
            "WHATSAPP_CLOUD_ACCESS_TOKEN": TOKEN,
            "WHATSAPP_CLOUD_APP_SECRET": SECRET,
            "WHATSAPP_CLOUD_VERIFY_TOKEN": WORD,
            "WHATSAPP_CLOUD_API_URL": self.server.url,
        }

    def connect(self) -> WhatsAppCloudAdapter:
        adapter = WhatsAppCloudAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="whatsapp_cloud", chat=str(16505552000 + one)) for one in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        server, who = self.server, (chat or self.chat).chat
        more: dict[str, Any] = {}
        sort, told = "text", {"body": text}
        match does:
            case Does.REPLY:
                more["context"] = {"from": "15550783881", "id": on}
            case Does.EDIT:
                sort = "edit"
                told = {"original_message_id": self._last["id"], "message": {"type": "text", "text": told}}
            case Does.DELETE:
                sort, told = "revoke", {"original_message_id": self._last["id"]}
            case Does.BUTTON:
                sort, told = (
                    "interactive",
                    {"type": "button_reply", "button_reply": {"id": text, "title": "x"}},
                )
            case Does.IMAGE | Does.VOICE | Does.FILE:
                sort, told = self._file(does, text)
        if does is Does.BUTTON:
            more["context"] = {"from": "15550783881", "id": on}
        said = server.say(who, sort, told, **more)
        if sort not in ("edit", "revoke"):
            self._last = said

    def _file(self, does: Does, text: str) -> tuple[str, dict[str, Any]]:
        if does is Does.VOICE:
            media = self.server.keep_file(self.content, "audio/ogg")
            return "audio", {"id": media, "mime_type": "audio/ogg; codecs=opus", "voice": True}
        mime, sort = ("image/png", "image") if does is Does.IMAGE else ("text/plain", "document")
        media = self.server.keep_file(self.content, mime)
        return sort, {"id": media, "mime_type": mime, "caption": text, "filename": "plan.txt"}

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some of them twice."""
        waiting = self.server._waiting
        before = len(waiting)
        for text in texts:
            self.server.say(ANN, "text", {"body": text})
        news = waiting[before:]
        random.Random(7).shuffle(news)
        waiting[before:] = [*news, *news[::3]]

    def acknowledged(self) -> int:
        return self.server.acknowledged

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [_shown(one) for one in self.server.sent if chat is None or one.chat == chat.chat]

    def typed(self) -> int:
        return len(self.server.typing)

    def reactions(self) -> list[str]:
        return [emoji for emoji in self.server.reactions.values() if emoji]

    def samples(self) -> Sequence[Any]:
        return list(WEBHOOKS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, ME)


def _shown(one: SentMessage) -> Shown:
    sort = one.message["type"]
    told = one.message[sort]
    files: tuple[tuple[MediaKind, bytes], ...] = ()
    if one.file is not None:
        kind = MediaKind.VOICE if told.get("voice") else KINDS[sort]
        files = ((kind, one.file[1]),)
    text = told.get("caption", "") if files else told.get("body", "")
    buttons: list[str] = []
    if sort == "interactive":
        text, action = told["body"]["text"], told["action"]
        buttons = [reply["reply"]["title"] for reply in action.get("buttons", ())]
        buttons += [row["title"] for section in action.get("sections", ()) for row in section["rows"]]
    if sort == "template":
        text = told["components"][0]["parameters"][0]["text"]
    return Shown(
        ref=one.id,
        chat=one.chat,
        text=text,
        files=files,
        buttons=tuple(buttons),
        reply_to=one.message.get("context", {}).get("message_id"),
    )
