"""The fake DingTalk as a testbed, with cards and without."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Inbound
from hermes.entry.platforms.dingtalk.adapter import DingTalkAdapter
from hermes.entry.platforms.dingtalk.convert import to_inbounds
from hermes.entry.platforms.dingtalk.manifest import MANIFEST
from hermes.testing.platform_suite import Does, Fault, Shown
from hermes.testing.served import ServedBed
from tests.platforms.dingtalk.samples import ANN, BOT, FRAMES, GROUP, ROBOT, message
from tests.platforms.dingtalk.server import DingTalk, Sent


class DingTalkBed(ServedBed):
    manifest = MANIFEST
    chat = Address(platform="dingtalk", chat=ANN)
    receives = frozenset(Does) - {Does.THREAD, Does.EDIT, Does.DELETE, Does.BUTTON}
    delay = 2.0
    """DingTalk names no time; its own connector waits for two seconds."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = DingTalk()
        self.server.chaos = lambda: self.chaos()
        self._numbers = itertools.count(1)

    def variables(self) -> dict[str, str]:
        return {
            "DINGTALK_CLIENT_ID": ROBOT,
            "DINGTALK_CLIENT_SECRET": self.server.secret,
            "DINGTALK_API_URL": self.server.url,
        }

    def connect(self) -> DingTalkAdapter:
        adapter = DingTalkAdapter(self.context())
        self.patient(lambda seconds: setattr(adapter.api, "answer_seconds", seconds))
        return adapter

    def fail(self, fault: Fault, *, times: int = 1, done: bool = False, chat: Address | None = None) -> None:
        # aiohttp repeats a PUT by itself when the connection that it used again was dead.
        super().fail(fault, times=2 * times if fault is Fault.RESET else times, done=done, chat=chat)

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="dingtalk", chat=f"person{number}") for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        self.server.say(self.said_by(does, text, (chat or self.chat).chat, on))

    def said_by(self, does: Does, text: str, person: str, on: str = "") -> dict[str, Any]:
        number = f"msg{next(self._numbers)}=="
        words: dict[str, Any] = {"content": text}
        match does:
            case Does.REPLY:
                quoted = {"msgId": "x", "senderId": BOT, "content": {"text": "ours"}}
                words |= {"isReplyMsg": True, "repliedMsg": quoted}
                return message(number, person=person, msgtype="text", text=words, originalProcessQueryKey=on)
            case Does.MENTION | Does.COMMAND:
                return message(number, True, person, msgtype="text", text={"content": f" {text}"})
            case Does.IMAGE | Does.VOICE | Does.FILE:
                code = f"code+{number}"
                self.server.files[code] = self.content
                kind = {Does.IMAGE: "picture", Does.VOICE: "audio", Does.FILE: "file"}[does]
                content = {"downloadCode": code, "fileName": "plan.txt"}
                return message(number, person=person, msgtype=kind, content=content)
        return message(number, person=person, msgtype="text", text=words)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """In another order than they were written, and some again."""
        told = [self.said_by(Does.TEXT, text, ANN) for text in texts]
        random.Random(7).shuffle(told)
        for one in (*told, *told[::3]):
            self.server.say(one)

    def acknowledged(self) -> int:
        return len(self.server.acked & self.server.kept.keys())

    def shown(self, chat: Address | None = None) -> list[Shown]:
        found = [one for one in self.server.sent if not one.gone and (one.text or one.file)]
        return [_shown(one) for one in found if chat is None or one.chat == chat.chat]

    def samples(self) -> Sequence[Any]:
        return list(FRAMES.values())

    def convert(self, payload: Any) -> Sequence[Inbound]:
        return to_inbounds(payload)


class PlainBed(DingTalkBed):
    """The same app without cards."""

    exempt = {
        "check_declared_abilities_are_there": "the operator switched the cards off",
        "check_sends_edits_deletes": "nothing can be edited without a card",
        "check_errors_of_edits_are_translated": "nothing can be edited without a card",
        "check_a_message_is_answered": "there is no draft without a card",
        "check_drafts_keep_the_pace": "there is no draft without a card",
    }

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.said = {"DINGTALK_CARD_TEMPLATE": "off"}


def _shown(one: Sent) -> Shown:
    return Shown(
        ref=one.ref,
        chat=one.chat,
        text=one.text.replace("  \n", "\n"),
        files=() if one.file is None else (one.file,),
        edits=one.edits,
    )


GROUP_CHAT = Address(platform="dingtalk", chat=GROUP)
