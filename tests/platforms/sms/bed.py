"""The fake Twilio as a testbed: with a public address that it calls, and without."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, MediaKind, media_kind
from hermes.entry.platforms.sms.adapter import SmsAdapter
from hermes.entry.platforms.sms.convert import SmsIdentity, to_inbounds
from hermes.entry.platforms.sms.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.sms.samples import ANN, MESSAGES
from tests.platforms.sms.server import NUMBER, SID, TOKEN, Twilio

ME = SmsIdentity(number=NUMBER)
NOW = datetime(2026, 11, 16, tzinfo=UTC)


class SmsBed(ServedBed):
    manifest = MANIFEST
    receives = frozenset({Does.TEXT, Does.IMAGE, Does.FILE})
    chat = Address(platform="sms", chat=ANN)

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Twilio()
        self.server.chaos = lambda: self.chaos()
        port = free_port()
        self.server.callback = f"http://127.0.0.1:{port}/sms"
        self.said = {"SMS_WEBHOOK_URL": self.server.callback, "SMS_WEBHOOK_PORT": str(port)}

    def variables(self) -> dict[str, str]:
        return {
            "TWILIO_ACCOUNT_SID": SID,
            "TWILIO_AUTH_TOKEN": TOKEN,
            "TWILIO_PHONE_NUMBER": NUMBER,
            "SMS_API_URL": self.server.url,
        }

    def connect(self) -> SmsAdapter:
        adapter = SmsAdapter(self.context())
        adapter.ask_seconds, adapter.look_seconds = 0.02, 0.2
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="sms", chat=f"+1555200{number:04}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        mimes = {Does.IMAGE: "image/png", Does.FILE: "application/pdf"}
        media = [(mimes[does], self.content)] if does in mimes else []
        self.server.say((chat or self.chat).chat, text, *media)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """Calls in another order than the messages, some twice, and some never."""
        fields = [self.server.say(ANN, text, call=False) for text in texts]
        random.Random(7).shuffle(fields)
        for one in [*fields[::2], *fields[::4]]:
            if self.server.callback:
                await self.server.call(self.server.callback, one)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        sent = [one for one in self.server.messages if one["direction"] != "inbound"]
        return [self._shown(one) for one in sent if chat is None or one["to"] == chat.chat]

    def _shown(self, message: dict[str, Any]) -> Shown:
        files: tuple[tuple[MediaKind, bytes], ...] = ()
        if message["sid"] in self.server.fetched:
            mime, data = self.server.fetched[message["sid"]]
            files = ((media_kind(mime), data),)
        return Shown(ref=message["sid"], chat=message["to"], text=message["body"], files=files)

    def samples(self) -> Sequence[Any]:
        return list(MESSAGES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, ME, NOW)


class AskingBed(SmsBed):
    """Nobody can call us."""

    exempt = {
        "check_declared_abilities_are_there": "without an address no files can be sent, see test_sms",
        "check_sends_files_of_each_kind": "Twilio fetches files from an address, and there is none",
        "check_sends_files_together": "Twilio fetches files from an address, and there is none",
    }

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server.callback = ""
        self.said = {}
