"""The fake Discord is judged by two clients that we did not write, before our adapter may trust it: they
connect, receive, reply, edit, press, upload and fetch against it."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from hermes.testing.platform_suite import Does, Fault, until
from tests.foreign.environments import ROOT, python_of
from tests.platforms.discord.bed import DiscordBed
from tests.platforms.discord.objects import GENERAL, THREAD

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "discord_bot.py"
PRESSED = ["pressed q_1:yes May I not?", "command status now"]


async def heard(which: str, bed: DiscordBed) -> dict[str, Any]:
    """What a client printed while people were there; it gets nothing of our surroundings but the path."""
    python = await asyncio.to_thread(python_of, "discord")
    server = bed.server
    server.channel("666")
    server.fail(Fault.GONE, 99, False, "666")
    doing = asyncio.create_task(people(bed))
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(CLIENT),
        which,
        server.url,
        server.gateway_url,
        server.token,
        "501",
        GENERAL,
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 600)
    finally:
        if process.returncode != 0:
            doing.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-3000:]
    await doing
    return json.loads(out)


async def people(bed: DiscordBed) -> None:
    server = bed.server
    await until(lambda: server.identified > 0, "nobody came", 60)
    server.say(GENERAL, "to all")
    server.say(THREAD, "in the thread")
    await bed.do(Does.VOICE, "")
    frist = server.say("501", "frist")
    server.say("501", "hello")
    await until(lambda: any(one.edits for one in server.sent), "no answer to hello", 60)
    server.edit(frist, "first")
    # Taken up again, nothing is missed.
    await server.ask_all(7)
    server.press(next(one.message["id"] for one in server.sent), "q_1:yes")
    await until(lambda: len(server.answered) == 1, "the button is not answered", 60)
    server.command(GENERAL, "status", "now")


async def test_discord_py_accepts_the_fake() -> None:
    async with DiscordBed() as bed:
        found = await heard("discord.py", bed)
        assert found == {
            "seen": [
                "channel Ann to all",
                "thread Ann in the thread",
                "private Ann ",
                "private Ann frist",
                "private Ann hello",
                "edited first",
                *PRESSED,
            ],
            "fetched": ["89504e47 voice=True"],
            "sent": ["May I?", "reply", "n1", "Yes"],
            "edited": "May I not?",
            "me": "hermes",
            "guild": ["Team", "general", "plans"],
            "file": ["a.txt", "abc"],
            "thread": ["Plans", True],
            "begun": ["From a message", True, True],
            "history": ["to all", "look"],
            "errors": [["HTTPException", 400, 50035], ["Forbidden", 403, 50007], ["NotFound", 404, 10003]],
            "wrong token": "LoginFailure",
        }
        assert bed.server.resumed == 1, "the session was taken up again"


async def test_hikari_accepts_the_fake() -> None:
    async with DiscordBed() as bed:
        found = await heard("hikari", bed)
        assert found == {
            "seen": [
                "channel ann to all",
                "channel ann in the thread",
                "private ann None",
                "private ann frist",
                "private ann hello",
                "edited first",
                *PRESSED,
            ],
            "fetched": ["89504e47 audio/ogg"],
            "sent": ["May I?", "Yes", "hello"],
            "edited": "May I not?",
            "me": "hermes",
            "guild": ["Team", 2, 1],
            "file": ["a.txt", "abc"],
            "thread": "Plans",
            "begun": ["From a message", True, True],
            "commands": ["status"],
            "errors": [["BadRequestError", 400], ["ForbiddenError", 403], ["NotFoundError", 404]],
        }
        assert bed.server.resumed == 1, "the session was taken up again"
