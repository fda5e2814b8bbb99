"""The fake QQ as a testbed, with its gateway and with signed calls."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Inbound, Receipt
from hermes.entry.platforms.qqbot.adapter import QQAdapter
from hermes.entry.platforms.qqbot.convert import to_inbounds
from hermes.entry.platforms.qqbot.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown, until
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.qqbot.samples import ANN, APP, EVENTS, GROUP, message
from tests.platforms.qqbot.server import QQ


class QQBed(ServedBed):
    """The gateway."""

    manifest = MANIFEST
    chat = Address(platform="qqbot", chat=f"u_{ANN}")
    receives = frozenset({Does.TEXT, Does.IMAGE, Does.VOICE, Does.FILE, Does.MENTION, Does.COMMAND})
    delay = 5.0
    """QQ names no time; ours is five seconds."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = QQ()
        self.server.chaos = lambda: self.chaos()
        self._numbers = itertools.count(1)

    def variables(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.server.port}"
        tokens = f"{url}/app/getAppAccessToken"
        return {
            "QQ_APP_ID": APP,
            "QQ_CLIENT_SECRET": self.server.secret,
            "QQ_API_URL": url,
            "QQ_TOKEN_URL": tokens,
        }

    def connect(self) -> QQAdapter:
        adapter = QQAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="qqbot", chat=f"u_person{number:04d}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        self.server.say(self.said_by(does, text, (chat or self.chat).chat.removeprefix("u_")))

    def said_by(self, does: Does, text: str, person: str) -> dict[str, Any]:
        number = f"in{next(self._numbers):06d}"
        now = {"timestamp": datetime.now(UTC).isoformat(timespec="seconds")}
        if does in (Does.IMAGE, Does.VOICE, Does.FILE):
            self.server.files[number] = self.content
            kind = {Does.IMAGE: "image/png", Does.VOICE: "voice", Does.FILE: "file"}[does]
            file = {"content_type": kind, "url": f"http://127.0.0.1:{self.server.port}/files/{number}"}
            return message(number, "", person=person, attachments=[file], **now)
        if does in (Does.MENTION, Does.COMMAND):
            return message(number, f" {text}", True, person, **now)
        return message(number, text, person=person, **now)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        await until(lambda: bool(self.server.sockets or self.server.callback), "nobody ever came")
        told = [self.said_by(Does.TEXT, text, ANN) for text in texts]
        random.Random(7).shuffle(told)
        for one in (*told, *told[::3]):
            self.server.say(one)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            Shown(
                ref=one.ref,
                chat=one.chat,
                text=one.text,
                files=() if one.file is None else (one.file,),
            )
            for one in self.server.sent
            if chat is None or one.chat == chat.chat
        ]

    def samples(self) -> Sequence[Any]:
        return list(EVENTS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload)


class AnsweringBed(QQBed):
    """The same; and before each message of ours the person has written."""

    def connect(self) -> QQAdapter:
        adapter, server = super().connect(), self.server
        send = adapter.send

        async def answer(to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
            last = next((one for one, (chat, _) in server.written.items() if chat == to.chat), None)
            used = server.answered.get(last or "", set())
            if last is None or len(used) >= 3:
                if last is not None:
                    del server.written[last]
                last = server.write(to.chat)
            adapter.replies.hear(to.chat, last, time.monotonic())
            return await send(to, body, key=key, reply_to=reply_to)

        adapter.send = answer  # type: ignore[method-assign]
        return adapter


class CalledBed(QQBed):
    """The same bot, called by QQ."""

    exempt = {
        "check_stores_before_it_acknowledges": "a call is its own receipt, which the fake keeps to itself",
        "check_keeps_to_its_account": "what is sent first answers nothing; the gateway's testbed does it",
    }

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        port = free_port()
        self.server.callback = f"http://127.0.0.1:{port}/qq"
        self.said = {"QQ_WEBHOOK_URL": self.server.callback, "QQ_WEBHOOK_PORT": str(port)}


GROUP_CHAT = Address(platform="qqbot", chat=f"g_{GROUP}")
