"""The fake Discord as a testbed, with sessions that last and with sessions that do not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, MediaKind, media_kind
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.discord.adapter import DiscordAdapter
from hermes.entry.platforms.discord.convert import (
    DiscordChannel,
    DiscordContext,
    DiscordIdentity,
    to_inbounds,
)
from hermes.entry.platforms.discord.manifest import MANIFEST
from hermes.testing.clock import QuickClock
from hermes.testing.platform_suite import Does, Shown, until
from hermes.testing.served import ServedBed
from tests.platforms.discord.objects import BOT, FORUM, GENERAL, THREAD
from tests.platforms.discord.samples import EVENTS
from tests.platforms.discord.server import Discord, Sent

ME = DiscordIdentity(id=BOT["id"])
SCENE = DiscordContext(
    me=ME,
    place=DiscordChannel(name="plans", parent=GENERAL),
    guild="1",
    mine=frozenset({"700000000000000001"}),
)


class DiscordBed(ServedBed):
    manifest = MANIFEST
    chat = Address(platform="discord", chat="501")

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Discord()
        self.server.chaos = lambda: self.chaos()
        self.server.channel("501")
        self.server.channel(GENERAL, 0)
        self.server.channel(FORUM, 15, name="ideas")
        self.server.channel(THREAD, 11, name="plans")
        self.settings = PlatformSettings()
        self._last: dict[str, Any] = {}
        self._meeting = 1

    def variables(self) -> dict[str, str]:
        return {"DISCORD_BOT_TOKEN": self.server.token, "DISCORD_BASE_URL": self.server.url}

    def connect(self) -> DiscordAdapter:
        context = replace(self.context(), settings=self.settings, clock=QuickClock())
        adapter = DiscordAdapter(context)
        self.patient(lambda seconds: _wait(adapter, seconds))
        self._meeting = self.server.met + 1
        return adapter

    def chats(self, count: int) -> list[Address]:
        for number in range(count):
            self.server.channel(str(2000 + number))
        return [Address(platform="discord", chat=str(2000 + number)) for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        channel, server = (chat or self.chat).chat, self.server
        await self._come()
        more: dict[str, Any] = {}
        match does:
            case Does.REPLY:
                more = server._referenced(server.channels[channel], {"message_id": on})
            case Does.THREAD:
                channel = THREAD
            case Does.EDIT:
                server.edit(self._last, text)
                return
            case Does.DELETE:
                server.delete(self._last)
                return
            case Does.MENTION:
                channel, text, more = GENERAL, f"<@{BOT['id']}> {text}", {"mentions": [BOT]}
            case Does.COMMAND:
                name, _, rest = text.removeprefix("/").partition(" ")
                server.command(GENERAL, name, rest)
                return
            case Does.BUTTON:
                server.press(on, text)
                return
            case Does.IMAGE:
                more = {"attachments": [server.keep_file(self.content, "a.png", "image/png")]}
            case Does.FILE:
                more = {
                    "attachments": [server.keep_file(self.content, "plan.txt", "text/plain; charset=utf-8")]
                }
            case Does.VOICE:
                file = server.keep_file(
                    self.content, "voice-message.ogg", "audio/ogg", duration_secs=1.2, waveform="AAAA"
                )
                text, more = "", {"attachments": [file], "flags": 1 << 13}
        user = channel if channel not in (GENERAL, THREAD) else "501"
        self._last = server.say(channel, text, user=user, **more)

    async def _come(self) -> None:
        """Nothing is kept for a bot that was never there, so people wait for one that is on its way."""
        server = self.server
        if server.is_up:
            await until(lambda: server.met >= self._meeting, "it never came")

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """Out of order, and some again: as a session that is taken up too early repeats them."""
        await self._come()
        server, kept = self.server, []
        dispatch, server.dispatch = server.dispatch, lambda name, data: kept.append((name, data))
        for text in texts:
            server.say("501", text)
        server.dispatch = dispatch
        random.Random(7).shuffle(kept)
        for name, data in [*kept, *kept[::3]]:
            server.dispatch(name, data)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            _shown(one)
            for one in self.server.sent
            if not one.deleted and (chat is None or one.message["channel_id"] == chat.chat)
        ]

    def typed(self) -> int:
        return self.server.typed

    def reactions(self) -> list[str]:
        return self.server.reactions

    def samples(self) -> Sequence[Any]:
        return list(EVENTS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        scenes = (
            SCENE,
            replace(SCENE, place=None),
            replace(SCENE, place=DiscordChannel(opens=True), threads=True),
        )
        return [item for scene in scenes for item in to_inbounds(payload, scene)]


class ForgetfulBed(DiscordBed):
    """Sessions end with their connection: what was missed has to be read from the channels."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server.forgets = True


def _wait(adapter: DiscordAdapter, seconds: float) -> None:
    adapter.api.answer_seconds = seconds


def _shown(one: Sent) -> Shown:
    message = one.message
    spoken = message["flags"] & (1 << 13)
    files = tuple((MediaKind.VOICE if spoken else media_kind(mime), data) for _, mime, data in one.files)
    answered = message.get("message_reference")
    return Shown(
        ref=message["id"],
        chat=message["channel_id"],
        text=message["content"],
        files=files,
        buttons=tuple(button["label"] for row in message["components"] for button in row["components"]),
        reply_to=None if answered is None else answered["message_id"],
        edits=one.edits,
    )
