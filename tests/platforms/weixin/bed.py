"""The fake Weixin as a testbed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Inbound, Receipt
from hermes.domain.word import replace
from hermes.entry.platforms.weixin.adapter import WeixinAdapter
from hermes.entry.platforms.weixin.convert import to_inbounds
from hermes.entry.platforms.weixin.manifest import MANIFEST
from hermes.testing.clock import QuickClock
from hermes.testing.platform_suite import Does, Fault, Shown
from hermes.testing.served import ServedBed
from tests.platforms.weixin.samples import ANN, MESSAGES, message, text
from tests.platforms.weixin.server import Weixin


class WeixinBed(ServedBed):
    manifest = MANIFEST
    chat = Address(platform="weixin", chat=ANN)
    receives = frozenset({Does.TEXT, Does.IMAGE, Does.VOICE, Does.FILE, Does.COMMAND})
    faults = frozenset(Fault) - {Fault.REVOKED}
    """A session that has ended shows at the poll: the same code at a send is no login problem."""
    delay = 60.0
    """Weixin names no time; ours is a minute."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Weixin()
        self.server.chaos = lambda: self.chaos()
        self.folder: Path | None = None
        self._numbers = itertools.count(1)

    def variables(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.server.port}"
        return {"WEIXIN_TOKEN": self.server.token, "WEIXIN_BASE_URL": url, "WEIXIN_CDN_URL": self.server.cdn}

    def context(self) -> AdapterContext:
        return replace(super().context(), folder=self.folder)

    def connect(self) -> WeixinAdapter:
        adapter = WeixinAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="weixin", chat=f"wxid_{number:04d}@im.wechat") for number in range(count)]

    async def do(self, does: Does, words: str, *, chat: Address | None = None, on: str = "") -> None:
        self.server.say(self.said_by(does, words, (chat or self.chat).chat))

    def said_by(self, does: Does, words: str, person: str) -> dict[str, Any]:
        number = next(self._numbers)
        item = text(words)
        if does in (Does.IMAGE, Does.VOICE, Does.FILE):
            kind, name = {
                Does.IMAGE: (2, "image_item"),
                Does.VOICE: (3, "voice_item"),
                Does.FILE: (4, "file_item"),
            }[does]
            item = {"type": kind, name: {"media": self.server.keep(self.content)}}
        return message(number, item, person=person)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        told = [self.said_by(Does.TEXT, words, ANN) for words in texts]
        random.Random(7).shuffle(told)
        for one in (*told, *told[::3]):
            self.server.say(one)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            Shown(ref=one.ref, chat=one.chat, text=one.text, files=() if one.file is None else (one.file,))
            for one in self.server.sent
            if chat is None or one.chat == chat.chat
        ]

    def typed(self) -> int:
        return self.server.typed

    def samples(self) -> Sequence[Any]:
        return list(MESSAGES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, cdn="https://cdn.example/c2c")


class AnsweringBed(WeixinBed):
    """The same; and whoever has had as many messages as a token carries writes again. Its clock is as fast as
    the one of the suite's gateways."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.clock = QuickClock()

    def connect(self) -> WeixinAdapter:
        adapter = super().connect()
        send = adapter.send

        async def answer(to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
            context = adapter._contexts.get(to.chat)
            if context is not None and context.used >= 9:
                await adapter._hear_contexts([message(next(self._numbers), person=to.chat)])
            return await send(to, body, key=key, reply_to=reply_to)

        adapter.send = answer  # type: ignore[method-assign]
        return adapter
