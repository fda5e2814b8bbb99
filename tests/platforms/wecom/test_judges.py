"""The fake WeCom is judged by a client that we did not write, before our adapter may trust it: it is let in,
receives, streams, sends, uploads in pieces, fetches a picture and hears of errors."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from hermes.testing.platform_suite import Does, until
from tests.foreign.environments import ROOT, python_of
from tests.platforms.wecom.bed import WeComBed
from tests.platforms.wecom.samples import ANN, BOT

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "wecom_sdk.py"


async def test_another_makers_client_accepts_the_fake() -> None:
    python = await asyncio.to_thread(python_of, "wecom")
    async with WeComBed() as bed:
        server = bed.server
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), server.ws_url, BOT, server.secret),
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        talking = asyncio.create_task(people(bed))
        try:
            out, err = await asyncio.wait_for(process.communicate(), 200)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            talking.cancel()
        assert process.returncode == 0, err.decode()[-3000:]
        found = json.loads(out.splitlines()[-1])
        assert found == {
            "seen": [
                ["text", "group", "@Hermes what now?", ANN],
                ["text", "single", "hello", ANN],
                ["text", "single", "bye", ANN],
            ],
            "picture": len(bed.content),
            "streamed": [0, 0, 0],
            "expired": "Reply ack error: errcode=846608, errmsg=stream message update expired",
            "unknown": "Reply ack error: errcode=846605, errmsg=invalid req_id",
            "sent": 0,
            "long": "Reply ack error: errcode=45002, errmsg=content size out of limit",
            "file": ["file", 0],
            "wrong": "Authentication failed: invalid bot_id or secret (code: 853000)",
        }
        assert [one.text for one in server.sent if one.text] == ["one two three", "**hi**"]
        assert server.pings > 0


async def people(bed: WeComBed) -> None:
    server = bed.server
    await until(lambda: server.subscribed > 0, "nobody came", 120)
    for does, text in ((Does.MENTION, "what now?"), (Does.IMAGE, ""), (Does.TEXT, "hello")):
        server.say(bed.said_by(does, text, ANN))
        await asyncio.sleep(0.3)
    await until(lambda: any(one.file for one in server.sent), "no file came", 120)
    server.say(bed.said_by(Does.TEXT, "bye", ANN))
