"""The fake Slack as a testbed, with a socket and with calls."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, media_kind
from hermes.domain.ports.platform import Accept
from hermes.entry.platforms.slack.adapter import SlackAdapter
from hermes.entry.platforms.slack.compose import emoji_told
from hermes.entry.platforms.slack.convert import SlackIdentity, to_inbounds
from hermes.entry.platforms.slack.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Shown, until
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.slack.samples import CHANNEL, DM, GROUP, PAYLOADS
from tests.platforms.slack.samples import ME as BOT
from tests.platforms.slack.server import Slack

ME = SlackIdentity(
    user=BOT,
    bot="B0HERMES001",
    name="hermes",
    team="T0FAKETEAM1",
    kinds={GROUP: "mpim", CHANNEL: "channel"},
    names={"U0ANN000001": "Ann", "U0BOB000001": "Bob", CHANNEL: "team"},
)
NOW = datetime(2026, 11, 16, tzinfo=UTC)


class SlackBed(ServedBed):
    """Socket Mode."""

    manifest = MANIFEST
    chat = Address(platform="slack", chat=DM)

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Slack()
        self.server.chaos = lambda: self.chaos()
        self.server.room(DM)
        self.server.room(CHANNEL, "channel")
        self.server.room(GROUP, "mpim")
        self.said = {"SLACK_APP_TOKEN": self.server.app_token}
        self._spoke: dict[str, Any] = {}
        self._thread: Address | None = None
        self._events: set[str] = set()
        self._beginners: list[SlackAdapter] = []
        self._seen: dict[str, tuple[int, list[Shown]]] = {}

    def variables(self) -> dict[str, str]:
        return {"SLACK_BOT_TOKEN": self.server.token, "SLACK_API_URL": self.server.url}

    def connect(self) -> SlackAdapter:
        adapter = SlackAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        run = adapter.run

        async def watched(accept: Accept, cursor: str | None) -> None:
            if cursor is None:
                self._beginners.append(adapter)
            try:
                await run(accept, cursor)
            finally:
                if adapter in self._beginners:
                    self._beginners.remove(adapter)

        adapter.run = watched  # type: ignore[method-assign]
        return adapter

    def chats(self, count: int) -> list[Address]:
        rooms = [self.server.room(f"D0PERSON{number:03d}") for number in range(count)]
        return [Address(platform="slack", chat=room) for room in rooms]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        await self.listening()
        await self.do_now(does, text, chat=chat, on=on)

    async def do_now(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        room, raw = (chat or self.chat).chat, escaped(text)
        before = len(self.server.events)
        match does:
            case Does.REPLY:
                self.server.say(room, raw, thread_ts=on)
            case Does.THREAD:
                root = self.server.say(CHANNEL, "a root", user="U0BOB000001", subtype="channel_topic")
                self.server.say(CHANNEL, raw, thread_ts=root["ts"])
            case Does.EDIT:
                self.server.edit(room, self._spoke, raw)
            case Does.DELETE:
                where, said = next(
                    (one, said) for one in self.server.rooms if (said := self.server.find(one, on))
                )
                self.server.delete(where, said)
            case Does.MENTION:
                self.server.say(CHANNEL, f"<@{BOT}> {raw}")
            case Does.COMMAND:
                self.server.command(CHANNEL, "/hermes", text.removeprefix("/"))
            case Does.BUTTON:
                self.server.press(room, on, text)
            case Does.IMAGE | Does.VOICE | Does.FILE:
                self.server.say(room, raw, subtype="file_share", files=[self._file(does)], upload=True)
            case _:
                self._spoke = self.server.say(room, raw, user=f"U{room[1:]}")
        self._events |= {one["event_id"] for one in self.server.events[before:]}

    async def listening(self) -> None:
        """Nothing is kept for who was never there: people write once whoever begins there listens."""
        await until(
            lambda: self._anybody() and not any(one._new for one in self._beginners), "nobody ever listens"
        )

    def _anybody(self) -> bool:
        return self.server.reached.is_set()

    def _file(self, does: Does) -> dict[str, Any]:
        if does is Does.IMAGE:
            return self.server.keep_file("a.png", self.content)
        if does is Does.VOICE:
            return self.server.keep_file(
                "audio_message.m4a", self.content, "audio/mp4", subtype="slack_audio"
            )
        return self.server.keep_file("plan.txt", self.content)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        await self.listening()
        before = len(self.server.events)
        deliver, self.server.deliver = self.server.deliver, lambda *told: None  # type: ignore[method-assign]
        for text in texts:
            self.server.say(DM, text)
        self.server.deliver = deliver  # type: ignore[method-assign]
        news = self.server.events[before:]
        random.Random(7).shuffle(news)
        for payload in (*news, *news[::3]):
            self.server.deliver("events_api", payload, payload["event_id"])

    def acknowledged(self) -> int:
        return len(self._events & self.server.acked)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        if chat is not None:
            return self._in(chat.chat)
        by_ref = {one.ref: one for room in self.server.changes for one in self._in(room)}
        return [by_ref[one["ts"]] for one in self.server.order if one["ts"] in by_ref]

    def _in(self, room: str) -> list[Shown]:
        """What we said in a conversation; looked at often, and made anew only after a change."""
        changes = self.server.changes.get(room, 0)
        if self._seen.get(room, (0, []))[0] != changes:
            mine = [one for one in self.server.messages[room] if one["user"] == BOT]
            self._seen[room] = (changes, [self._shown(room, one) for one in mine])
        return self._seen.get(room, (0, []))[1]

    def _shown(self, room: str, message: dict[str, Any]) -> Shown:
        files = [self.server.files[file["id"]] for file in message.get("files", ())]
        return Shown(
            ref=message["ts"],
            chat=room,
            text=next(
                (one["text"] for one in message.get("blocks", ()) if one["type"] == "markdown"),
                message["text"],
            ),
            thread=message.get("thread_ts"),
            files=tuple((media_kind(file.told["mimetype"]), file.data or b"") for file in files),
            buttons=tuple(
                element["text"]["text"]
                for block in message.get("blocks", ())
                for element in block.get("elements", ())
            ),
            reply_to=message.get("thread_ts"),
            edits=self.server.edits.get(message["ts"], 0),
        )

    def typing_chat(self) -> Address:
        if self._thread is None:
            root = self.server.say(CHANNEL, "a root", user="U0BOB000001", subtype="channel_topic")
            self._thread = Address(platform="slack", chat=CHANNEL, thread=root["ts"])
        return self._thread

    def typed(self) -> int:
        return self.server.typed

    def reactions(self) -> list[str]:
        return [emoji_told(name) for _, _, name in self.server.reactions]

    def samples(self) -> Sequence[Any]:
        return list(PAYLOADS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, ME, NOW)


class EventsBed(SlackBed):
    """The same app, called by Slack."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        port = free_port()
        self.server.events_url = f"http://127.0.0.1:{port}/slack/events"
        self.said = {"SLACK_SIGNING_SECRET": self.server.secret, "SLACK_WEBHOOK_PORT": str(port)}

    def _anybody(self) -> bool:
        """A call that cannot be made is tried again until somebody has listened once."""
        return True


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
