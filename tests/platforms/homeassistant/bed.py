"""The fake Home Assistant as a testbed."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound
from hermes.domain.word import replace
from hermes.entry.platforms.homeassistant.adapter import HomeAssistantAdapter
from hermes.entry.platforms.homeassistant.convert import HomeIdentity, to_inbounds
from hermes.entry.platforms.homeassistant.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Fault, Shown, until
from hermes.testing.served import ServedBed
from tests.platforms.homeassistant.samples import EVENTS
from tests.platforms.homeassistant.server import TOKEN, Home

ME = HomeIdentity(
    domains=frozenset({"binary_sensor"}),
    entities=frozenset({"sensor.oven"}),
    ignored=frozenset({"binary_sensor.motion"}),
)
_LOST = "Home Assistant keeps no events for who is away: they are lost, as the page says"


class HomeBed(ServedBed):
    manifest = MANIFEST
    receives = frozenset({Does.TEXT})
    faults = frozenset({Fault.REVOKED, Fault.GONE, Fault.BROKEN, Fault.RESET, Fault.HANG})
    exempt = {
        "check_goes_on_from_its_cursor": _LOST,
        "check_connections_may_die": _LOST,
        "check_a_long_outage": _LOST,
    }
    chat = Address(platform="homeassistant", chat="voice")

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Home()
        self.server.chaos = lambda: self.chaos()
        self.folder = Path()

    def variables(self) -> dict[str, str]:
        return {"HASS_URL": self.server.url, "HASS_TOKEN": TOKEN}

    def context(self) -> AdapterContext:
        return replace(super().context(), folder=self.folder)

    async def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-home-"))
        await super().open()

    async def close(self) -> None:
        await super().close()
        shutil.rmtree(self.folder)

    def connect(self) -> HomeAssistantAdapter:
        adapter = HomeAssistantAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="homeassistant", chat=f"room_{number}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        await until(lambda: bool(self.server.sockets), "nobody listens")
        await until(lambda: any(self.server.sockets.values()), "nobody listens")
        data = {"text": text, "chat": (chat or self.chat).chat, "user": "ann"}
        await self.server.fire("hermes_message", data)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order, and some of them twice."""
        await until(lambda: any(self.server.sockets.values()), "nobody listens")
        told = [self.server.event("hermes_message", {"text": text, "chat": "voice"}) for text in texts]
        random.Random(7).shuffle(told)
        self.server.coalesces = True
        await self.server.tell(*told, *told[::3])

    def acknowledged(self) -> int | None:
        return None

    def shown(self, chat: Address | None = None) -> list[Shown]:
        said = self.server.said
        return [
            Shown(ref=id, chat=place, text=text)
            for place, id, text in said
            if chat is None or place == chat.chat
        ]

    def samples(self) -> Sequence[Any]:
        return list(EVENTS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, ME)
