"""The fake Telegram is judged by two clients that we did not write, before our adapter may trust it: they log
in, receive, acknowledge, reply, edit, press and fetch against it. And what our adapter sends is held against
the models of one of them."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.chats.message import Attachment, Body, Button, MediaKind
from hermes.domain.word import replace
from hermes.testing.platform_suite import Does, Fault, Inboxes, running, until
from tests.foreign.environments import ROOT, python_of
from tests.platforms.telegram.bed import FORUM, TelegramBed
from tests.platforms.telegram.samples import UPDATES
from tests.platforms.telegram.server import Telegram, Upload

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "telegram_bot.py"
PICTURE = b"\x89PNG\r\n\x1a\n"


async def heard(*arguments: str) -> dict[str, Any]:
    """What a client printed; it gets nothing of our surroundings but the path."""
    python = await asyncio.to_thread(python_of, "telegram")
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(CLIENT),
        *arguments,
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 600)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-3000:]
    return json.loads(out)


def peopled(server: Telegram) -> None:
    server.chat(501)
    server.chat(FORUM, "supergroup", is_forum=True)
    for number in (666, 429):
        server.chat(number)
    server.fail(Fault.GONE, 99, False, 666)
    server.fail(Fault.TOO_FAST, 99, False, 429)


async def test_python_telegram_bot_accepts_the_fake() -> None:
    async with TelegramBed() as bed:
        server = bed.server
        peopled(server)
        server.say(501, photo=[{**server.keep_file(PICTURE), "width": 90, "height": 60}], caption="look")
        server.say(501, "hello")

        async def press() -> None:
            await until(lambda: bool(server.sent and server.sent[0].edits), "no answer to hello", 60)
            server.press(str(server.sent[0].message["message_id"]), "q_1:yes", 501)

        pressing = asyncio.create_task(press())
        found = await heard("ptb", server.url, server.token)
        await pressing
        assert found == {
            "seen": ["file 89504e47", "private 501 hello", "pressed q_1:yes May I not?"],
            "me": "hermes_test_bot",
            "sent": ["May I & you?", "bold", "hello"],
            "edited": "May I not?",
            "answered": True,
            "photo": [True, "look", "italic"],
            "file": "abc",
            "reaction": True,
            "topic": "Plans",
            "commands": True,
            "deleted": True,
            "errors": [
                ["BadRequest", "Message is too long"],
                ["BadRequest", "Chat not found"],
                ["Forbidden", "Forbidden: bot was blocked by the user"],
                ["RetryAfter", "Flood control exceeded"],
            ],
            "webhook": "https://example.invalid/hook",
            "conflict": "Conflict: can't use getUpdates meth",
            "wrong token": "InvalidToken",
        }
        assert bed.acknowledged() == len(server.updates), "a client that polls confirms what it has"


async def test_aiogram_accepts_the_fake_and_what_the_adapter_sends(tmp_path: Path) -> None:
    calls = await calls_of_the_adapter()
    path = tmp_path / "calls.jsonl"
    path.write_text("\n".join(json.dumps(call) for call in calls))
    assert len({name for name, _ in calls}) >= 19
    async with TelegramBed() as bed:
        server = bed.server
        peopled(server)
        message = server.say(501, "hello", reply_to_message=server.say(501, "before"))
        server.edit(message, "hello again")
        for does in (Does.IMAGE, Does.VOICE, Does.FILE, Does.MENTION, Does.COMMAND, Does.THREAD):
            await bed.do(does, "/look")
        samples = tmp_path / "samples.jsonl"
        samples.write_text("\n".join(json.dumps(update) for update in UPDATES.values()))
        found = await heard("aiogram", server.url, server.token, str(path), str(samples))
        assert found == {
            "checked": len(calls),
            "samples": len(UPDATES),
            "me": "hermes_test_bot",
            "updates": ["message", "message", "edited_message", *["message"] * 6],
            "left": 0,
            "sent": ["x", "pre", "python"],
            "edited": ["y", True],
            "voice": "audio/ogg",
            "file": "OggS",
            "album": [2, "both", True],
            "unchanged": True,
            "info": 0,
        }


class Forgetful:
    """Names of topics that nobody keeps."""

    async def find(self, named: Address) -> Address | None:
        return None

    async def name(self, numbered: Address) -> Address | None:
        return None

    async def keep(self, named: Address, opened: Address) -> None:
        """Nothing is kept."""


async def calls_of_the_adapter() -> list[list[Any]]:
    """Every kind of call that it makes, as the fake got it."""
    async with TelegramBed() as bed:
        peopled(bed.server)

        async def open_file(file: Attachment) -> bytes:
            return bed.content

        bed.open_file = open_file
        bed.topics = Forgetful()
        platform = bed.connect()
        file = Attachment(kind=MediaKind.IMAGE, ref="x", name="a.png", mime="image/png")
        async with running(platform, Inboxes().accept, None):
            buttons = (Button(label="Yes", value="q_1:yes"),)
            sent = await platform.send(bed.chat, Body(text="a", buttons=buttons), key="k", reply_to="5")
            await platform.edit(sent, Body(text="b", buttons=buttons))
            await bed.do(Does.BUTTON, "q_1:yes", on=sent.ref)
            await until(lambda: bool(bed.server.answered), "the button is not answered")
            await platform.show_menu([MenuEntry(name="status", summary="how it is")])
            await platform.react(sent, "👍")
            await platform.typing(bed.chat)
            await platform.preview(bed.chat, 5, Body(text="<i>so</i>"))
            topic = await platform.open_thread(Address(platform="telegram", chat=str(FORUM)), "Plans")
            for kind in platform.capabilities.media:
                one = Body(text="c", attachments=(Attachment(kind=kind, ref="x", name="a", mime=file.mime),))
                await platform.send(topic, one, key="k", reply_to=None)
                await platform.send(
                    topic, replace(one, attachments=one.attachments * 2), key="k", reply_to="5"
                )
            await platform.send(
                replace(bed.chat, thread="Daily news"), Body(text="d"), key="k", reply_to=None
            )
            await platform.delete(sent)
        await bed.connect().check()
        return [
            [name, {key: _told(value) for key, value in asked.items() if not _is_part(key, value)}]
            for name, asked in bed.server.calls
        ]


def _is_part(name: str, value: Any) -> bool:
    """A file that the album names, which is no parameter of the method."""
    return isinstance(value, Upload) and re.fullmatch(r"file\d+", name) is not None


def _told(value: Any) -> Any:
    """A parameter as a model takes it: what came as JSON in a form is read, a file is a name for one."""
    if isinstance(value, Upload):
        return "attach://file"
    if isinstance(value, str) and value[:1] in "{[":
        return json.loads(value)
    return value
