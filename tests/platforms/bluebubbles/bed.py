"""The fake BlueBubbles as a testbed: asked again and again, and ringing."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound, MediaKind, media_kind
from hermes.entry.platforms.bluebubbles.adapter import BlueBubblesAdapter
from hermes.entry.platforms.bluebubbles.convert import TAPBACKS, BlueBubblesIdentity, to_inbounds
from hermes.entry.platforms.bluebubbles.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Fault, Shown
from hermes.testing.ports import free_port
from hermes.testing.served import ServedBed
from tests.platforms.bluebubbles.samples import ANN, CHAT, MESSAGES
from tests.platforms.bluebubbles.server import PASSWORD, BlueBubbles

ME = BlueBubblesIdentity(ours={"OURS": True})


class BlueBubblesBed(ServedBed):
    manifest = MANIFEST
    receives = frozenset({Does.TEXT, Does.REPLY, Does.IMAGE, Does.VOICE, Does.FILE})
    faults = frozenset({Fault.REVOKED, Fault.GONE, Fault.BROKEN, Fault.RESET, Fault.HANG})
    exempt = {
        "check_types_and_reacts": "iMessage has six reactions, and 👀 is none of them: see test_bluebubbles"
    }
    chat = Address(platform="bluebubbles", chat=CHAT)

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = BlueBubbles()
        self.server.chaos = lambda: self.chaos()
        self.said = {"BLUEBUBBLES_PRIVATE_API": "true"}

    def variables(self) -> dict[str, str]:
        return {"BLUEBUBBLES_SERVER_URL": self.server.url, "BLUEBUBBLES_PASSWORD": PASSWORD}

    def connect(self) -> BlueBubblesAdapter:
        adapter = BlueBubblesAdapter(self.context())
        adapter.ask_seconds, adapter.look_seconds = 0.05, 0.5
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="bluebubbles", chat=f"iMessage;-;+1555200{one:04}") for one in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        guid = (chat or self.chat).chat
        more: dict[str, Any] = {}
        if does is Does.REPLY:
            more["threadOriginatorGuid"] = on
        mimes = {
            Does.IMAGE: ("image/png", "a.png"),
            Does.VOICE: ("audio/x-caf", "Audio Message.caf"),
            Does.FILE: ("text/plain", "plan.txt"),
        }
        if does in mimes:
            more["attachments"] = [self.server.keep_file(self.content, *mimes[does])]
            more["isAudioMessage"] = does is Does.VOICE
        self.server.say(guid, guid.rpartition(";")[2], text, **more)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """Messages of other devices come late: with times before those that were there already."""
        now = int(time.time() * 1000)
        times = [now + number * 10 for number in range(len(texts))]
        random.Random(7).shuffle(times)
        for text, at in zip(texts, times, strict=True):
            self.server.say(CHAT, ANN, text, at=at)

    def shown(self, chat: Address | None = None) -> list[Shown]:
        sent = [one for one in self.server.messages if one["isFromMe"]]
        return [self._shown(one) for one in sent if chat is None or one["chats"][0]["guid"] == chat.chat]

    def _shown(self, message: dict[str, Any]) -> Shown:
        files = []
        for file in message["attachments"]:
            mime = file["mimeType"]
            kind = MediaKind.VOICE if file["voice"] else media_kind(mime)
            files.append((kind, self.server.files[file["guid"]]))
        return Shown(
            ref=message["guid"],
            chat=message["chats"][0]["guid"],
            text=message["text"] or "",
            files=tuple(files),
            reply_to=message["threadOriginatorGuid"],
        )

    def typed(self) -> int:
        return len(self.server.typing)

    def reactions(self) -> list[str]:
        return [TAPBACKS[name] for name in self.server.reactions.values()]

    def samples(self) -> Sequence[Any]:
        return list(MESSAGES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload, ME)


class RingingBed(BlueBubblesBed):
    """The server can reach us."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        port = free_port()
        self.said |= {
            "BLUEBUBBLES_WEBHOOK_URL": f"http://127.0.0.1:{port}",
            "BLUEBUBBLES_WEBHOOK_PORT": str(port),
        }
