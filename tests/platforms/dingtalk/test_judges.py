"""The fake DingTalk is judged by DingTalk's own SDK, which we did not write, before our adapter may trust it.
The SDK opens the stream, receives, answers pings, acknowledges, fetches a picture, replies and streams into a
card."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from hermes.testing.platform_suite import Does, until
from tests.foreign.environments import ROOT, python_of
from tests.platforms.dingtalk.bed import DingTalkBed
from tests.platforms.dingtalk.samples import ANN, ROBOT

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "dingtalk_sdk.py"


async def test_the_vendors_sdk_accepts_the_fake() -> None:
    python = await asyncio.to_thread(python_of, "dingtalk")
    async with DingTalkBed() as bed:
        server = bed.server
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), ROBOT, server.secret),
            env={"PATH": os.environ["PATH"], "DINGTALK_OPENAPI_ENDPOINT": server.url},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        talking = asyncio.create_task(people(bed))
        try:
            out, err = await asyncio.wait_for(process.communicate(), 300)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            talking.cancel()
        assert process.returncode == 0, err.decode()[-3000:]
        found = json.loads(out)
        assert found.pop("delivered") in server.cards
        assert found == {
            "seen": [
                ["text", "2", "what now?", ANN],
                ["picture", "1", "", ANN],
                ["text", "1", "hello", ANN],
                ["text", "1", "bye", ANN],
            ],
            "picture": len(bed.content),
            "replied": {"errcode": 0, "errmsg": "ok"},
            "card": True,
            "wrong": [None, None],
        }
        card = next(iter(server.cards.values()))
        assert (card.text, card.status, card.chat) == ("one two three", "3", ANN)
        assert len(server.acked & server.kept.keys()) == 4, "what the SDK has heard it acknowledges"
        pong = next(one for one in server.acks if "opaque" in one["data"])
        assert (pong["code"], json.loads(pong["data"])) == (200, {"opaque": "77"})


async def people(bed: DingTalkBed) -> None:
    server = bed.server
    await until(lambda: server.opened > 0, "nobody came", 300)
    server.system("ping", {"opaque": "77"})
    for does, text in (
        (Does.MENTION, "what now?"),
        (Does.IMAGE, ""),
        (Does.TEXT, "hello"),
        (Does.TEXT, "bye"),
    ):
        message = bed.said_by(does, text, ANN)
        message["sessionWebhook"] = f"{server.url}/robot/sendBySession?session=1"
        server.say(message)
        await until(lambda: message["msgId"] in server.acked, f"{does} is not acknowledged", 300)  # noqa: B023
