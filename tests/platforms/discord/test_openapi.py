"""Discord's own description of its HTTP API judges both sides: Prism stands between the adapter and the fake,
and lets through what the description allows, in requests and in answers. It is strict: a field that Discord
does not name is a mistake, ours or the fake's."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.chats.message import Attachment, Body, Button, MediaKind
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.discord.adapter import DiscordAdapter
from hermes.testing.platform_suite import Does, Inboxes, running, until
from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT, node
from tests.platforms.discord.bed import ForgetfulBed
from tests.platforms.discord.objects import BOT, FORUM, GENERAL
from tests.platforms.discord.samples import ROLE

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
FOREIGN = ROOT / "tests" / "foreign"
MESSAGE = "/channels/{channel_id}/messages/{message_id}"
ROUTES = [
    "GET /users/@me",
    "GET /gateway/bot",
    "GET /applications/@me",
    "PUT /applications/{application_id}/commands",
    "GET /users/@me/guilds",
    "POST /users/@me/channels",
    "GET /guilds/{guild_id}/members/{user_id}",
    "POST /interactions/{interaction_id}/{interaction_token}/callback",
    "GET /channels/{channel_id}",
    "POST /channels/{channel_id}/typing",
    "POST /channels/{channel_id}/threads",
    "GET /channels/{channel_id}/messages",
    "POST /channels/{channel_id}/messages",
    f"POST {MESSAGE}/threads",
    f"GET {MESSAGE}",
    f"PATCH {MESSAGE}",
    f"DELETE {MESSAGE}",
    f"PUT {MESSAGE}/reactions/{{emoji_name}}/@me",
    f"DELETE {MESSAGE}/reactions/{{emoji_name}}/@me",
]
"""All that the adapter calls."""


class JudgedBed(ForgetfulBed):
    def connect(self) -> DiscordAdapter:
        adapter = super().connect()
        # Prism takes its time when it meets a schema for the first time.
        adapter.api.answer_seconds = 60.0
        return adapter


@asynccontextmanager
async def judged(folder: Path) -> AsyncIterator[JudgedBed]:
    """The fake Discord behind Prism; the adapter talks to Prism."""
    program, place = await asyncio.to_thread(node, "discord-node", FOREIGN / "discord")
    writer = [str(program), str(FOREIGN / "clients" / "discord_openapi.mjs"), *ROUTES]
    written = await asyncio.to_thread(subprocess.run, writer, cwd=place, capture_output=True, check=False)
    assert written.returncode == 0, written.stderr.decode()
    (folder / "discord.json").write_bytes(written.stdout)
    async with JudgedBed() as bed:
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            *(str(program), str(place / "node_modules" / "@stoplight" / "prism-cli" / "dist" / "index.js")),
            *("proxy", str(folder / "discord.json"), bed.server.url, "--errors", "--port", str(port)),
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "SCARF_ANALYTICS": "false"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        bed.said["DISCORD_BASE_URL"] = f"http://127.0.0.1:{port}"
        try:
            await answers(f"http://127.0.0.1:{port}/gateway/bot", process)
            yield bed
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def answers(url: str, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(600), aiohttp.ClientSession() as session:
        while process.returncode is None:
            try:
                async with session.get(url):
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
    raise AssertionError("Prism ended")


async def ask(bed: JudgedBed, route: str, body: Any, **headers: str) -> tuple[int, str]:
    """One request through Prism, by hand."""
    method, path = route.split(" ")
    url = bed.said["DISCORD_BASE_URL"] + path
    known = {"Authorization": f"Bot {bed.server.token}", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, json=body, headers=known) as told,
    ):
        return told.status, await told.text()


def used(bed: JudgedBed) -> set[str]:
    """Which of the routes were called."""
    shapes = {route: re.compile(re.sub(r"\{\w+\}", "[^/]+", route)) for route in ROUTES}
    calls = [f"{method} /{path}" for method, path, _ in bed.server.calls]
    return {route for route, shape in shapes.items() if any(map(shape.fullmatch, calls))}


async def test_all_that_the_adapter_says_and_hears_is_as_discord_describes_it(tmp_path: Path) -> None:
    async with judged(tmp_path) as bed:
        bed.settings = PlatformSettings(allowed_users=("777",), allowed_roles=(ROLE,))
        bed.open_file = _open_file
        await _first_meeting(bed, inboxes := Inboxes())
        # While nobody was there; it is read from the channels.
        bed.server.say(GENERAL, f"<@&{ROLE}> missed", mention_roles=[ROLE])
        # Its session is over; the next connection begins one.
        async with running(bed.connect(), inboxes.accept, inboxes.cursor) as task:
            await until(task.done, "the session that is over was taken up")
            assert isinstance(task.exception(), Unreachable), task.exception()
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor) as task:
            await until(lambda: "missed" in inboxes.texts or task.done(), "what was missed is not read")
            assert not task.done(), task.exception()
            await _write(bed, platform)
            await _open_threads(bed, platform)
            await _answer_people(bed, platform)
            bed.server.channel("630000000000000001", 0)
            bed.server.say("630000000000000001", "where nobody told of a channel")
            await until(lambda: "where nobody" in inboxes.texts[-1], "it is not heard")
        assert [one.good for one in await bed.connect().check()] == [True, True]
        await _uploads_as_json(bed)
        assert used(bed) == set(ROUTES)


async def _open_file(file: Attachment) -> bytes:
    return b"OggS: Prism lets text through, and no bytes"


async def _first_meeting(bed: JudgedBed, inboxes: Inboxes) -> None:
    async with running(bed.connect(), inboxes.accept, None):
        await bed.do(Does.TEXT, "first")
        await until(lambda: inboxes.texts == ["first"], "the first message is missing")


async def _write(bed: JudgedBed, platform: Any) -> None:
    said = bed.server.say("501", "words", attachments=[bed.server.keep_file(b"abc", "a.txt", "text/plain")])
    buttons = tuple(Button(label=f"Choice {number}", value=f"q_1:{number}") for number in range(7))
    sent = await platform.send(bed.chat, Body(text="May I?", buttons=buttons), key="k1", reply_to=said["id"])
    await platform.edit(sent, Body(text="May I not?", buttons=buttons[:2]))
    await platform.edit(sent, Body(text="No."))
    await platform.typing(bed.chat)
    await platform.react(sent, "👀")
    await platform.react(sent, "", instead="👀")
    await platform.delete(sent)

    async def sink(piece: bytes) -> None:
        raise AssertionError("nothing comes")

    # The file itself is behind Prism's back, and so on no server of Discord's.
    with pytest.raises(Refused, match="own servers"):
        await platform.fetch(f"501/{said['id']}/{said['attachments'][0]['id']}", sink)
    for number, kind in enumerate((MediaKind.FILE, MediaKind.VOICE)):
        file = Attachment(kind=kind, ref="x", name="a.ogg", mime="audio/ogg")
        await platform.send(bed.chat, Body(attachments=(file,)), key=f"f{number}", reply_to=said["id"])


async def _uploads_as_json(bed: JudgedBed) -> None:
    """The words that go with files, alone: what stands beside files is not described."""
    uploads = [asked for _, path, asked in bed.server.calls if "attachments" in (asked or ())]
    assert len(uploads) == 2
    for asked in uploads:
        status, told = await ask(bed, "POST /channels/501/messages", {**asked, "nonce": "another"})
        assert status != 422, told


async def _open_threads(bed: JudgedBed, platform: Any) -> None:
    for text in ("plan the week", "and the next"):
        root = bed.server.say(GENERAL, text)
        begun = Address(platform="discord", chat=GENERAL, thread=root["id"])
        await platform.send(begun, Body(text="Well."), key="k3", reply_to=root["id"])
        assert (bed.shown()[-1].chat == root["id"]) == (GENERAL not in bed.server.no_threads)
        bed.server.no_threads.add(GENERAL)
    bed.server.no_threads.clear()
    await platform.open_thread(Address(platform="discord", chat=GENERAL), "Plans")
    await platform.open_thread(Address(platform="discord", chat=FORUM), "Idea")


async def _answer_people(bed: JudgedBed, platform: Any) -> None:
    body = Body(text="And?", buttons=(Button(label="Yes", value="q_2:yes"),))
    asked = await platform.send(bed.chat, body, key="k2", reply_to=None)
    await bed.do(Does.BUTTON, "q_2:yes", on=asked.ref)
    await bed.do(Does.COMMAND, "/status now")
    await until(lambda: len(bed.server.answered) == 2, "Discord shows a failure")
    entries = [MenuEntry(name="status", summary="how it stands"), MenuEntry(name="ask", summary="x" * 100)]
    await platform.show_menu([*entries, MenuEntry(name="new", summary="begin anew", takes_text=True)])


WRONG = [
    ("POST /channels/501/messages", {"content": "x" * 4001}),
    ("POST /channels/501/messages", {"content": "x", "nonce": "n" * 26}),
    ("POST /channels/501/messages", {"content": "x", "emforce_nonce": True}),
    ("POST /channels/501/messages", {"content": "x", "message_reference": {}}),
    ("POST /channels/501/messages", {"content": "x", "components": [{"type": 1, "components": []}]}),
    ("PUT /applications/5/commands", [{"name": "x" * 33, "description": "too long"}]),
    ("POST /channels/501/threads", {"name": "x" * 101, "type": 11}),
    ("POST /channels/general/typing", None),
]


async def test_the_judge_refuses_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with judged(tmp_path) as bed:
        for route, body in WRONG:
            status, told = await ask(bed, route, body)
            assert status == 422, f"{route} {body}: {status} {told}"
        assert bed.server.calls == [], "what is wrong does not pass"
        status, told = await ask(bed, "GET /users/@me", None, Authorization="")
        assert status == 401, told
        monkeypatch.setitem(BOT, "discriminator", 5)
        status, told = await ask(bed, "GET /users/@me", None)
        assert status == 500 and "discriminator" in told, "an answer of the fake is judged too"
