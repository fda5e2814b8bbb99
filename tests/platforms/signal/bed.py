"""The fake signal-cli as a testbed, in both dialects."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, MediaKind
from hermes.domain.word import replace
from hermes.entry.platforms.signal.adapter import SignalAdapter
from hermes.entry.platforms.signal.convert import SignalIdentity, message_ref, read_ref, to_inbounds
from hermes.entry.platforms.signal.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Fault, Shown
from hermes.testing.served import ServedBed
from tests.platforms.signal.samples import EVENTS
from tests.platforms.signal.server import ANN, NUMBER, SentSignal, Signal, envelope

ME = SignalIdentity(number=NUMBER)
VOICE = MANIFEST.capabilities.media[MediaKind.VOICE].mimes[0]
_LOST = "signal-cli hands a message over once: what a connection loses on its way is lost, as the page says"


class SignalBed(ServedBed):
    manifest = MANIFEST
    receives = frozenset(Does) - {Does.THREAD, Does.BUTTON}
    faults = frozenset(Fault) - {Fault.TOO_FAST_ALL}
    exempt = {"check_connections_may_die": _LOST}
    chat = Address(platform="signal", chat=ANN)

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = Signal()
        self.server.chaos = lambda: self.chaos()
        self.folder = Path()
        self._last = 0
        self._grouped = False

    def variables(self) -> dict[str, str]:
        return {"SIGNAL_HTTP_URL": self.server.url, "SIGNAL_ACCOUNT": NUMBER}

    def context(self) -> AdapterContext:
        return replace(super().context(), folder=self.folder)

    def connect(self) -> SignalAdapter:
        adapter = SignalAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api.client, "answer_seconds", seconds))
        return adapter

    async def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-signal-"))
        await super().open()

    async def close(self) -> None:
        await super().close()
        shutil.rmtree(self.folder)

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="signal", chat=f"+1555200{number:04}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        say, who = self.server.say, (chat or self.chat).chat
        mention = {"name": NUMBER, "number": NUMBER, "uuid": None, "start": 0, "length": 1}
        match does:
            case Does.REPLY:
                quoted = read_ref(on)
                assert quoted is not None
                self._last = say(
                    text, who=who, quote={"id": quoted[0], "authorNumber": quoted[1], "text": "x"}
                )
            case Does.EDIT:
                data = {"timestamp": self._last + 500_000, "message": text}
                event = {"targetSentTimestamp": self._last, "dataMessage": data}
                self.server.tell(envelope(who, self._last + 500_000, editMessage=event))
            case Does.DELETE:
                say(None, who=who, group=self._grouped, remoteDelete={"timestamp": self._last})
            case Does.MENTION | Does.COMMAND:
                self._last = say(f"\ufffc {text}", who=who, group=True, mentions=[mention])
            case Does.IMAGE | Does.VOICE | Does.FILE:
                mime, name = {
                    Does.IMAGE: ("image/png", "a.png"),
                    Does.VOICE: ("audio/aac", None),
                    Does.FILE: ("text/plain", "plan.txt"),
                }[does]
                self._last = say(text, who=who, attachments=[self.server.keep_file(self.content, mime, name)])
            case _:
                self._last = say(text, who=who)
        if does is not Does.DELETE:
            self._grouped = does in (Does.MENTION, Does.COMMAND)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order, and some of them again, as after a crash of signal-cli."""
        before = len(self.server.waiting)
        for text in texts:
            self.server.say(text)
        news = self.server.waiting[before:]
        random.Random(7).shuffle(news)
        self.server.waiting[before:] = [*news, *news[::3]]

    def acknowledged(self) -> int:
        """What was handed over and is not kept in the adapter's folder."""
        kept = (self.folder / "unstored.json").is_file()
        return self.server.handed - kept

    def unstored(self) -> Any:
        return json.loads((self.folder / "unstored.json").read_text())

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [_shown(one) for one in self.server.sent if chat is None or one.chat == chat.chat]

    def typed(self) -> int:
        return len(self.server.typing)

    def reactions(self) -> list[str]:
        return list(self.server.reactions.values())

    def samples(self) -> Sequence[Any]:
        return list(EVENTS.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, ME)


class RestBed(SignalBed):
    """The same account behind the wrapper."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.said["SIGNAL_DIALECT"] = "rest"


def _shown(one: SentSignal) -> Shown:
    kinds = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
    files = []
    for mime, data in one.files:
        # The wrapper knows no voice messages: there it is the only file of that type.
        voice = one.voice or mime == VOICE
        kind = MediaKind.VOICE if voice else kinds.get(mime.partition("/")[0], MediaKind.FILE)
        files.append((kind, data))
    return Shown(
        ref=message_ref(one.timestamp, NUMBER),
        chat=one.chat,
        text=one.text,
        files=tuple(files),
        reply_to=None if one.quoted is None else str(one.quoted),
    )
