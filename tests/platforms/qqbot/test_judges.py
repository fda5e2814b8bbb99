"""The fake QQ is judged by nonebot-adapter-qq, which we did not write, before our adapter may trust it: it
gets a token, is let in, receives, answers, sends a picture, and hears what QQ does not allow."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from hermes.testing.platform_suite import Does, until
from tests.foreign.environments import ROOT, python_of
from tests.platforms.qqbot.bed import QQBed
from tests.platforms.qqbot.samples import ANN, APP

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "qq_nonebot.py"


async def test_another_makers_client_accepts_the_fake() -> None:
    python = await asyncio.to_thread(python_of, "qq")
    async with QQBed() as bed:
        server = bed.server
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), server.url, APP, server.secret),
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        talking = asyncio.create_task(people(bed))
        try:
            out, err = await asyncio.wait_for(process.communicate(), 100)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            talking.cancel()
        assert process.returncode == 0, err.decode()[-3000:]
        private = "C2CMessageCreateEvent"
        assert json.loads(out.splitlines()[-1]) == {
            "seen": [
                ["GroupAtMessageCreateEvent", "what now?", ANN, []],
                [private, "", ANN, ["image/png"]],
                [private, "hello", ANN, []],
                [private, "bye", ANN, []],
            ],
            "group": "ok",
            "sent": True,
            "picture": "ok",
            "again": ["ActionFailed", 40054005],
            "more": ["ok", "ok", ["ActionFailed", 22009], ["ActionFailed", 22009]],
            "unasked": ["ActionFailed", 40034102],
        }
        assert server.beats > 0


async def people(bed: QQBed) -> None:
    server = bed.server
    await until(lambda: bool(server.sockets), "nobody came", 100)
    server.say(bed.said_by(Does.MENTION, "what now?", ANN))
    await until(lambda: len(server.sent) == 1, "no answer in the group", 60)
    server.say(bed.said_by(Does.IMAGE, "", ANN))
    server.say(bed.said_by(Does.TEXT, "hello", ANN))
    await until(lambda: len(server.sent) >= 5, "too few answers", 60)
    await asyncio.sleep(1.0)
    server.say(bed.said_by(Does.TEXT, "bye", ANN))
