"""The fake Mattermost as a testbed, with an address for pressed buttons and without."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, MediaKind
from hermes.domain.ports.platform import Accept
from hermes.entry.platforms.mattermost.adapter import MattermostAdapter
from hermes.entry.platforms.mattermost.convert import (
    MattermostChannel,
    MattermostIdentity,
    to_inbounds,
)
from hermes.entry.platforms.mattermost.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown, until
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.mattermost.samples import EVENTS, PRIVATE, TEAM, new_id
from tests.platforms.mattermost.server import ANN, BOT, Mattermost

NOW = datetime(2026, 11, 16, tzinfo=UTC)
EMOJI = {"eyes": "👀", "+1": "👍"}


def known() -> MattermostIdentity:
    me = MattermostIdentity(id=BOT["id"], username=BOT["username"])
    me.channels[PRIVATE] = MattermostChannel(id=PRIVATE, type="D")
    me.channels[TEAM] = MattermostChannel(id=TEAM, type="O", name="Team")
    me.names[ANN["id"]] = "ann"
    me.posts[new_id("post 77")] = {"user_id": BOT["id"], "message": "so be it"}
    me.posts[new_id("post 3")] = None
    return me


class Watched(MattermostAdapter):
    """An adapter of which the testbed knows when it begins anew."""

    bed: MattermostBed

    async def run(self, accept: Accept, cursor: str | None) -> None:
        if cursor is None:
            self.bed.awaited = self.bed.server.greeted
        try:
            await super().run(accept, cursor)
        finally:
            self.bed.awaited = max(0, min(self.bed.awaited, self.bed.server.greeted - 1))


class MattermostBed(ServedBed):
    manifest = MANIFEST
    chat = Address(platform="mattermost", chat=PRIVATE)

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Mattermost()
        self.server.chaos = lambda: self.chaos()
        self.server.channel("ann")
        self.server.channel("team", "O")
        port = free_port()
        self.said = {
            "MATTERMOST_CALLBACK_URL": f"http://127.0.0.1:{port}/mattermost",
            "MATTERMOST_CALLBACK_PORT": str(port),
        }
        self.awaited = 0
        """After so many greetings a bot without a cursor has come."""
        self._last: dict[str, Any] = {}

    def variables(self) -> dict[str, str]:
        return {"MATTERMOST_URL": self.server.url, "MATTERMOST_TOKEN": self.server.token}

    def connect(self) -> MattermostAdapter:
        adapter = Watched(self.context())
        adapter.bed = self
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [
            Address(platform="mattermost", chat=self.server.channel(f"person {one}")) for one in range(count)
        ]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        await self._met()
        where = (chat or self.chat).chat
        more: dict[str, Any] = {}
        match does:
            case Does.REPLY:
                more["root_id"] = on
            case Does.THREAD:
                where = TEAM
                more["root_id"] = self.server.say(TEAM, "a beginning", user_id=BOT["id"])["id"]
            case Does.EDIT:
                self.server.edit(self._last, text)
                return
            case Does.DELETE:
                self.server.delete(self._last)
                return
            case Does.MENTION:
                where, text = TEAM, f"@hermes {text}"
            case Does.COMMAND:
                where, text = TEAM, f"@hermes {text}"
            case Does.BUTTON:
                actions = self.server.posts[on]["props"]["attachments"][0]["actions"]
                values = {one["integration"]["context"]["value"]: one["name"] for one in actions}
                assert await self.server.press(on, values[text]) == 200
                return
            case Does.IMAGE | Does.VOICE | Does.FILE:
                name, mime = {
                    Does.IMAGE: ("a.png", "image/png"),
                    Does.VOICE: ("v.ogg", "audio/ogg"),
                    Does.FILE: ("plan.txt", "text/plain"),
                }[does]
                more["file_ids"] = [self.server.keep_file(name, self.content, mime)["id"]]
        self._last = self.server.say(where, text, **more)

    async def _met(self) -> None:
        """Nothing is kept for a bot that was never there, so people wait for one that begins."""
        await until(lambda: self.server.greeted > self.awaited, "nobody ever came")

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """Events in another order than the posts, some of them twice, and a number left out."""
        await self._met()
        connections, self.server.connections = self.server.connections, []
        posts = [self.server.say(PRIVATE, text) for text in texts]
        self.server.connections = connections
        random.Random(7).shuffle(posts)
        for place, post in enumerate([*posts, *posts[::3]]):
            for one in connections:
                one.seq += place == 5
            self.server.tell_post(post)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        found = [self.server.posts[number] for number in self.server.sent]
        return [
            self._shown(one)
            for one in found
            if not one["delete_at"] and (chat is None or one["channel_id"] == chat.chat)
        ]

    def _shown(self, post: dict[str, Any]) -> Shown:
        parts = post["props"].get("attachments") or []
        files = [self.server.files[one] for one in post["file_ids"]]
        return Shown(
            ref=post["id"],
            chat=post["channel_id"],
            text=post["message"],
            thread=post["root_id"] or None,
            files=tuple((kind_of(info["mime_type"]), data) for info, data in files),
            buttons=tuple(one["name"] for part in parts for one in part.get("actions", ())),
            edits=self.server.edits.get(post["id"], 0),
        )

    def typed(self) -> int:
        return self.server.typed

    def reactions(self) -> list[str]:
        return [EMOJI[one["emoji_name"]] for one in self.server.reactions]

    def samples(self) -> Sequence[Any]:
        return list(EVENTS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, known(), NOW)


def kind_of(mime: str) -> MediaKind:
    """A Mattermost shows a file by its type."""
    kinds = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
    return kinds.get(mime.partition("/")[0], MediaKind.FILE)
