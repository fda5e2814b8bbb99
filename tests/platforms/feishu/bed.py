"""The fake Feishu as a testbed, over a long connection and with encrypted calls."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound
from hermes.entry.platforms.feishu.adapter import FeishuAdapter
from hermes.entry.platforms.feishu.convert import FeishuIdentity, FeishuMessage, to_inbounds
from hermes.entry.platforms.feishu.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.feishu.samples import (
    ANN,
    APP,
    BOT,
    EVENTS,
    PRIVATE,
    ROOT,
    TEAM,
    TOKEN,
    US,
    event,
    received,
)
from tests.platforms.feishu.server import KEY, KINDS, Feishu, Sent

TOPIC = {"root_id": ROOT, "parent_id": ROOT, "thread_id": "omt_d4be107c616"}


def known() -> FeishuIdentity:
    me = FeishuIdentity(open_id=BOT)
    me.asked[ROOT] = FeishuMessage(text="so be it", mine=True)
    return me


class FeishuBed(ServedBed):
    """A long connection."""

    manifest = MANIFEST
    chat = Address(platform="feishu", chat=PRIVATE)
    receives = frozenset(Does) - {Does.EDIT}
    delay = 2.0
    """For one chat Feishu names no time; ours is two seconds."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Feishu()
        self.server.chaos = lambda: self.chaos()
        self._numbers = itertools.count(1)
        self._me = known()

    def variables(self) -> dict[str, str]:
        return {
            "FEISHU_APP_ID": APP,
            "FEISHU_APP_SECRET": self.server.secret,
            "FEISHU_DOMAIN": f"http://127.0.0.1:{self.server.port}",
        }

    def connect(self) -> FeishuAdapter:
        adapter = FeishuAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="feishu", chat=f"oc_person{number:08d}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        if does is Does.BUTTON:
            self.server.press(on, text)
            return
        self.server.say(self.said_by(does, text, (chat or self.chat).chat, on))

    def said_by(self, does: Does, text: str, chat: str, on: str = "") -> dict[str, Any]:
        number, words = f"in{next(self._numbers):010d}", {"text": text}
        match does:
            case Does.REPLY:
                return received(number, "text", words, root_id=on, parent_id=on)
            case Does.THREAD:
                return received(number, "text", words, True, mentions=[], **TOPIC)
            case Does.DELETE:
                last = self.server.kept[max(self.server.kept)] if not on else None
                where = next(
                    (
                        one["event"]["message"]["chat_id"]
                        for one in self.server.kept.values()
                        if one["event"].get("message", {}).get("message_id") == on
                    ),
                    last["event"]["message"]["chat_id"] if last else chat,
                )
                told = {"message_id": on, "chat_id": where, "recall_time": "1793000000900"}
                return event(
                    "im.message.recalled_v1", {**told, "recall_type": "message_owner"}, f"e-{number}"
                )
            case Does.MENTION | Does.COMMAND:
                return received(number, "text", {"text": f"@_user_1 {text}"}, True, mentions=US)
            case Does.IMAGE | Does.VOICE | Does.FILE:
                key = f"file_in_{number}"
                self.server.files[key] = self.content
                kind = {Does.IMAGE: "image", Does.VOICE: "audio", Does.FILE: "file"}[does]
                return received(number, kind, {"image_key" if kind == "image" else "file_key": key})
        told = received(number, "text", words, person=ANN if chat == PRIVATE else f"ou_{chat[3:]}")
        told["event"]["message"]["chat_id"] = chat
        return told

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        told = [self.said_by(Does.TEXT, text, PRIVATE) for text in texts]
        random.Random(7).shuffle(told)
        for one in (*told, *told[::3]):
            self.server.say(one)

    def acknowledged(self) -> int:
        return len(self.server.acked)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        found = [one for one in self.server.sent if not one.gone]
        return [self._shown(one) for one in found if chat is None or one.chat == chat.chat]

    def _shown(self, one: Sent) -> Shown:
        files = ()
        if one.kind in KINDS:
            files = ((KINDS[one.kind], self.server.files[next(iter(one.content.values()))]),)
        return Shown(
            ref=one.ref,
            chat=one.chat,
            text=one.text,
            thread=one.thread,
            files=files,
            buttons=tuple(label for label, _ in one.buttons),
            reply_to=one.reply_to,
            edits=one.edits,
        )

    def samples(self) -> Sequence[Any]:
        return list(EVENTS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, known())


class CalledBed(FeishuBed):
    """The same app, called by Feishu."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        port = free_port()
        self.server.events_url = f"http://127.0.0.1:{port}/feishu/events"
        self.said = {
            "FEISHU_WEBHOOK_URL": self.server.events_url,
            "FEISHU_WEBHOOK_PORT": str(port),
            "FEISHU_ENCRYPT_KEY": KEY,
            "FEISHU_VERIFICATION_TOKEN": TOKEN,
        }


TEAM_CHAT = Address(platform="feishu", chat=TEAM)
