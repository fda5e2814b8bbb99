"""The fake Feishu is judged by Feishu's own SDK, which we did not write, before our adapter may trust it. The
SDK opens the long connection, receives, acknowledges, is pressed, reads an encrypted call, sends, replies in
a topic, changes a card, uploads and fetches."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from typing import Any

import pytest

from hermes.testing.platform_suite import Does, until
from tests.foreign.environments import ROOT, python_of
from tests.platforms.feishu.bed import FeishuBed
from tests.platforms.feishu.samples import ANN, APP, EVENTS, PRIVATE, TOKEN
from tests.platforms.feishu.server import KEY, Feishu

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "feishu_sdk.py"


def a_call() -> dict[str, Any]:
    raw = Feishu.sealed(EVENTS["text"])
    signature = hashlib.sha256(f"1793000000nonce{KEY}".encode() + raw).hexdigest()
    headers = {
        "X-Lark-Request-Timestamp": "1793000000",
        "X-Lark-Request-Nonce": "nonce",
        "X-Lark-Signature": signature,
    }
    return {"body": raw.decode(), "headers": headers, "key": KEY, "token": TOKEN}


async def test_the_vendors_sdk_accepts_the_fake() -> None:
    python = await asyncio.to_thread(python_of, "feishu")
    async with FeishuBed() as bed:
        server = bed.server
        server.part_bytes = 400  # an event comes in several frames
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), server.url, APP, server.secret, json.dumps(a_call())),
            env={"PATH": os.environ["PATH"]},
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
        value = {"hermes_button": "q:yes", "private": True}
        assert json.loads(out.splitlines()[-1]) == {  # the SDK logs beside it
            "called": [200, 500, 500],
            "seen": [
                ["text", "group", '{"text": "@_user_1 what now?"}', ANN],
                ["image", "p2p", '{"image_key": "file_in_in0000000002"}', ANN],
                ["text", "p2p", '{"text": "bye"}', ANN],
            ],
            "pressed": [value, ANN, PRIVATE],
            "recalled": "om_in0000000001",
            "created": [0, True, True],
            "replied": [0, True],
            "patched": [0, True],
            "got": ["interactive", "app"],
            "uploaded": [[0, True], [0, True]],
            "fetched": "bin",
            "deleted": [0, True],
            "errors": [230011, 230099, 230025],
            "wrong": "obtain self tenant access token failed, code: 10014, msg: app secret invalid",
        }
        assert server.pings > 0 and server.acked >= {"event-in0000000001", "event-in0000000002", "asked"}


async def people(bed: FeishuBed) -> None:
    server = bed.server
    await until(lambda: server.opened > 0 and server.tokens > 0, "nobody came", 300)
    pressed = EVENTS["pressed"]
    value = {"hermes_button": "q:yes", "private": True}
    told = {**pressed["event"], "action": {"value": value, "tag": "button"}}
    press = {**pressed, "header": {**pressed["header"], "event_id": "asked"}, "event": told}
    mention = bed.said_by(Does.MENTION, "what now?", PRIVATE)
    image = bed.said_by(Does.IMAGE, "", PRIVATE)
    server.say(mention)
    recall = bed.said_by(Does.DELETE, "", PRIVATE, on="om_in0000000001")
    for one in (image, press, recall, bed.said_by(Does.TEXT, "bye", PRIVATE)):
        await until(lambda: len(server.acked) == len(server.kept), "it is not acknowledged", 300)
        server.say(one)
