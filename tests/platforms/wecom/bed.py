"""The fake WeCom as a testbed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound
from hermes.entry.platforms.wecom.adapter import WeComAdapter
from hermes.entry.platforms.wecom.convert import to_inbounds
from hermes.entry.platforms.wecom.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Fault, Shown, until
from hermes.testing.served import ServedBed
from tests.platforms.wecom.samples import AES_KEY, ANN, BOT, FRAMES, GROUP, frame
from tests.platforms.wecom.server import WeCom

NOW = datetime(2026, 11, 18, tzinfo=UTC)
AWAY = "WeCom keeps nothing for a bot that is away, and wants no receipts"


class WeComBed(ServedBed):
    manifest = MANIFEST
    chat = Address(platform="wecom", chat=ANN)
    receives = frozenset({Does.TEXT, Does.IMAGE, Does.FILE, Does.MENTION, Does.COMMAND})
    # A connection that dies, or whose bot is shut out, takes the adapter along: that is tested by itself.
    faults = frozenset(Fault) - {Fault.RESET, Fault.REVOKED}
    delay = 10.0
    """WeCom names no time; ours is ten seconds."""
    exempt = {
        "check_stores_before_it_acknowledges": AWAY,
        "check_a_failed_accept_is_delivered_again": AWAY,
        "check_goes_on_from_its_cursor": AWAY,
        "check_connections_may_die": AWAY,
        "check_a_long_outage": AWAY,
    }

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = WeCom()
        self.server.chaos = lambda: self.chaos()
        self._numbers = itertools.count(1)

    def variables(self) -> dict[str, str]:
        return {"WECOM_BOT_ID": BOT, "WECOM_SECRET": self.server.secret, "WECOM_WS_URL": self.server.ws_url}

    def connect(self) -> WeComAdapter:
        adapter = WeComAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="wecom", chat=f"person{number}") for number in range(count)]

    def answerable(self) -> str:
        told = self.said_by(Does.TEXT, "x", ANN)
        self.server.delivered[told["headers"]["req_id"]] = ANN
        return str(told["headers"]["req_id"])

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        await until(lambda: bool(self.server.sockets), "nobody ever came")
        self.server.say(self.said_by(does, text, (chat or self.chat).chat))

    def said_by(self, does: Does, text: str, person: str) -> dict[str, Any]:
        number = str(next(self._numbers))
        if does in (Does.IMAGE, Does.FILE):
            self.server.files[number] = self.content
            about = {"url": f"http://127.0.0.1:{self.server.port}/files/{number}", "aeskey": AES_KEY}
            kind = "image" if does is Does.IMAGE else "file"
            return frame(number, kind, person=person, **{kind: about})
        if does in (Does.MENTION, Does.COMMAND):
            return frame(number, "text", True, person, text={"content": f"@Hermes {text}"})
        return frame(number, "text", person=person, text={"content": text})

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        await until(lambda: bool(self.server.sockets), "nobody ever came")
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
                edits=one.edits,
            )
            for one in self.server.sent
            if chat is None or one.chat == chat.chat
        ]

    def samples(self) -> Sequence[Any]:
        return list(FRAMES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, NOW)


GROUP_CHAT = Address(platform="wecom", chat=GROUP)
