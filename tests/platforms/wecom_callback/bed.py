"""The fake of WeCom's apps as a testbed."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound
from hermes.entry.platforms.wecom_callback.adapter import WeComCallbackAdapter
from hermes.entry.platforms.wecom_callback.convert import to_inbounds
from hermes.entry.platforms.wecom_callback.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.wecom_callback.samples import AES_KEY, ANN, CORP, MESSAGES, TOKEN, xml
from tests.platforms.wecom_callback.server import AGENT, WeComApp


class WeComAppBed(ServedBed):
    manifest = MANIFEST
    chat = Address(platform="wecom_callback", chat=ANN)
    receives = frozenset({Does.TEXT, Does.IMAGE, Does.VOICE, Does.COMMAND})
    delay = 30.0
    """WeCom names no time; ours is half a minute."""
    exempt = {"check_a_long_outage": "WeCom makes a call three more times, within seconds"}

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        port = free_port()
        self.server = WeComApp(callback=f"http://127.0.0.1:{port}/wecom")
        self.server.chaos = lambda: self.chaos()
        self._port = port
        self._numbers = itertools.count(1)

    def variables(self) -> dict[str, str]:
        return {
            "WECOM_CALLBACK_CORP_ID": CORP,
            "WECOM_CALLBACK_CORP_SECRET": self.server.secret,
            "WECOM_CALLBACK_AGENT_ID": str(AGENT),
            "WECOM_CALLBACK_TOKEN": TOKEN,
            "WECOM_CALLBACK_AES_KEY": AES_KEY,
            "WECOM_CALLBACK_URL": self.server.callback,
            "WECOM_CALLBACK_PORT": str(self._port),
            "WECOM_CALLBACK_API_URL": f"http://127.0.0.1:{self.server.port}",
        }

    def connect(self) -> WeComCallbackAdapter:
        adapter = WeComCallbackAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="wecom_callback", chat=f"person{number}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        self.server.say(*self.said_by(does, text, (chat or self.chat).chat))

    def said_by(self, does: Does, text: str, person: str) -> tuple[str, str]:
        number, stamp = str(next(self._numbers)), int(time.time())
        if does in (Does.IMAGE, Does.VOICE):
            media = f"media_in_{number}"
            self.server.media[media] = self.content
            return number, xml(
                number, "image" if does is Does.IMAGE else "voice", person, stamp, MediaId=media
            )
        return number, xml(number, "text", person, stamp, Content=text)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        told = [self.said_by(Does.TEXT, text, ANN) for text in texts]
        random.Random(7).shuffle(told)
        for one in (*told, *told[::3]):
            self.server.say(*one)

    def acknowledged(self) -> int:
        return len(self.server.acked)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            Shown(ref=one.ref, chat=one.chat, text=one.text, files=() if one.file is None else (one.file,))
            for one in self.server.sent
            if not one.gone and (chat is None or one.chat == chat.chat)
        ]

    def samples(self) -> Sequence[Any]:
        return list(MESSAGES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload)
