"""A homeserver as a testbed: the fake, or a Synapse behind the same front."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.message import Inbound, MediaKind
from hermes.domain.word import replace
from hermes.entry.platforms.matrix.adapter import MatrixAdapter
from hermes.entry.platforms.matrix.convert import BUTTONS, KEYS, VOICE, Room, to_inbounds
from hermes.entry.platforms.matrix.manifest import MANIFEST
from hermes.entry.platforms.matrix.sync import MatrixIdentity, invites_of, moves_of, news_of
from hermes.testing.platform_suite import Does, Fault, Shown, Testbed, until
from tests.platforms.matrix.front import Front, Sent
from tests.platforms.matrix.homeserver import Fake
from tests.platforms.matrix.people import Person
from tests.platforms.matrix.samples import ME, ROOM, SYNCS

KINDS = {
    "m.image": MediaKind.IMAGE,
    "m.audio": MediaKind.AUDIO,
    "m.video": MediaKind.VIDEO,
    "m.file": MediaKind.FILE,
}


class MatrixBed(Testbed):
    manifest = MANIFEST
    most_chats = 20

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.welcome: set[str] = set()
        self.folder: Path | None = None
        """Where the adapter keeps its login."""
        self._last = self._last_room = ""
        self._mark = 0

    async def register(self) -> tuple[Person, Person, Person]:
        """The bot and two people."""
        self.server = Fake()
        found = []
        for name in ("hermes", "ann", "bob"):
            user = f"@{name}:localhost"
            found.append(Person(self.server, user, self.server.register(user, "secret of " + name)))
        return found[0], found[1], found[2]

    async def open(self) -> None:
        self.bot, self.ann, self.bob = await self.register()
        self.front = Front(homeserver=self.bot.homeserver, bot=self.bot.token)
        self.front.chaos = lambda: self.chaos()
        self._chats = [await self.ann.room(self.bot, direct=True)]
        self.group = await self.ann.room(self.bob, self.bot, name="Team")
        await self.front.up()

    async def close(self) -> None:
        await self.front.down()

    def variables(self) -> dict[str, str]:
        return {
            "MATRIX_HOMESERVER": self.front.url,
            "MATRIX_ACCESS_TOKEN": self.bot.token,
            "MATRIX_ENCRYPTION": "off",
        }

    def connect(self) -> MatrixAdapter:
        adapter = MatrixAdapter(replace(self.context(), welcomes=self._welcomes, folder=self.folder))
        self.patient(lambda seconds: _wait(adapter, seconds))
        self._mark = self.front.listening
        return adapter

    async def _welcomes(self, source: Source) -> bool:
        return source.user in self.welcome

    @property
    def chat(self) -> Address:
        return Address(platform="matrix", chat=self._chats[0])

    def chats(self, count: int) -> list[Address]:
        while len(self._chats) <= count:
            room = self.server.create(self.ann.id, invite=[self.bot.id])
            self.server.member(room, self.bot.id, self.bot.id, "join")
            self._chats.append(room)
        return [Address(platform="matrix", chat=room) for room in self._chats[1 : count + 1]]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        await self._listening()
        room = (chat or self.chat).chat
        self._last_room = self._last_room if does is Does.DELETE else room
        match does:
            case Does.REPLY:
                more = {"m.relates_to": {"m.in_reply_to": {"event_id": on}}}
                self._last = await self.ann.say(room, text, **more)
            case Does.THREAD:
                relation = {"rel_type": "m.thread", "event_id": await self.bot.say(room, "root")}
                self._last = await self.ann.say(room, text, **{"m.relates_to": relation})
            case Does.EDIT:
                new = {"msgtype": "m.text", "body": text}
                relation = {"rel_type": "m.replace", "event_id": on or self._last}
                await self.ann.say(room, f"* {text}", **{"m.new_content": new, "m.relates_to": relation})
            case Does.DELETE:
                await self.ann.redact(self._last_room, on)
            case Does.MENTION:
                self._last_room, mention = self.group, {"user_ids": [self.bot.id]}
                await self.ann.say(self.group, f"Hermes: {text}", **{"m.mentions": mention})
            case Does.BUTTON:
                sent = next(one for one in self.front.sent if one.ref == on)
                values = [one["value"] for one in sent.content[BUTTONS]]
                await self.ann.react(room, on, KEYS[values.index(text)])
            case Does.IMAGE | Does.VOICE | Does.FILE:
                await self._show(does, room, text)
            case _:
                self._last = await self.ann.say(room, text)

    async def _show(self, does: Does, room: str, text: str) -> None:
        sorts = {Does.IMAGE: ("m.image", "image/png"), Does.VOICE: ("m.audio", "audio/ogg")}
        sort, mime = sorts.get(does, ("m.file", "text/plain"))
        url = await self.ann.upload(self.content, mime)
        info = {"mimetype": mime, "size": len(self.content)}
        content = {"msgtype": sort, "body": text, "filename": "plan.txt", "url": url, "info": info}
        if does is Does.VOICE:
            content[VOICE] = {}
        await self.ann.send(room, content)

    async def _listening(self) -> None:
        """Nothing is kept for who was never there: people write once a new adapter listens."""
        await until(lambda: self.front.listening > self._mark or not self.front.is_up, "nobody listens")

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """A homeserver keeps order and repeats nothing, unless it is put back to a backup: the syncs after
        the messages begin before them once more."""
        await self._listening()
        told = await self.bot.homeserver(self._last_sync())
        for text in texts:
            await self.ann.say(self.chat.chat, text)
        self.front.replays = [told.json["next_batch"]] * 3
        self.front.cut()

    def _last_sync(self) -> Any:
        asked = next(one for one in self.front.asked[::-1] if one.path.endswith("/sync"))
        return type(asked)(**{**asked.__dict__, "query": {"timeout": "0"}})

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            self._shown(one)
            for one in self.front.sent
            if not one.deleted and (chat is None or one.room == chat.chat)
        ]

    def _shown(self, one: Sent) -> Shown:
        content, relation = one.content, one.content.get("m.relates_to", {})
        kind = KINDS.get(content["msgtype"])
        if kind is MediaKind.AUDIO and VOICE in content:
            kind = MediaKind.VOICE
        answered = relation.get("m.in_reply_to", {}).get("event_id")
        return Shown(
            ref=one.ref,
            chat=one.room,
            text=content["body"],
            thread=relation.get("event_id") if relation.get("rel_type") == "m.thread" else None,
            files=() if kind is None else ((kind, self.front.uploads[content["url"]]),),
            buttons=tuple(button["label"] for button in content.get(BUTTONS, ())),
            reply_to=answered,
            edits=one.edits,
        )

    def typed(self) -> int:
        return self.front.typed

    def reactions(self) -> list[str]:
        return [one for one in self.front.reactions.values() if one not in KEYS]

    def fail(self, fault: Fault, *, times: int = 1, done: bool = False, chat: Address | None = None) -> None:
        # A PUT may be repeated, and aiohttp does so by itself when a connection that was used before dies.
        times += fault is Fault.RESET
        self.hang(fault is Fault.HANG)
        self.front.fail(fault, times, done, None if chat is None else chat.chat)

    def calm(self) -> None:
        self.front.calm()
        self.hang(False)

    async def cut(self) -> None:
        self.front.cut()

    async def down(self) -> None:
        await self.front.down()

    async def up(self) -> None:
        await self.front.up()

    def samples(self) -> Sequence[Any]:
        return SYNCS

    def convert(self, payload: Any) -> Sequence[Inbound]:
        items: list[Inbound] = []
        for invite in (*invites_of(payload, ME), *moves_of(payload)):
            assert invite.room.startswith("!") and invite.sender.startswith("@")
        for news in news_of(payload):
            known = {event["event_id"]: event for event in news.events}
            for event in news.events:
                items += to_inbounds(event, _room(news.room), ME, known)
        return items


def _wait(adapter: MatrixAdapter, seconds: float) -> None:
    adapter.answer_seconds = adapter._client.answer_seconds = seconds


def _room(number: str) -> Room:
    return Room(id=number, members=ROOM.members, name=ROOM.name)


__all__ = ["MatrixBed", "MatrixIdentity"]
