"""The fake Twilio is judged by Twilio's own SDK, before our adapter may trust it; and the adapter uses an
emulator of Twilio that another maker wrote (npm `emulate`): what it sends is taken, and what people write
there comes by calls that are signed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, InboundKind
from hermes.domain.errors import NeedsLogin
from hermes.testing.platform_suite import Inboxes, running, until
from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT, node, python_of
from tests.platforms.sms.bed import SmsBed
from tests.platforms.sms.samples import ANN, MESSAGES
from tests.platforms.sms.server import NUMBER, SID, TOKEN
from tests.platforms.sms.signing import signature

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "twilio_sdk.py"


async def test_twilios_sdk_accepts_the_fake(tmp_path: Path) -> None:
    python = await asyncio.to_thread(python_of, "twilio")
    url = "https://your.host/sms?key=turn%3A1"
    calls = [
        {"url": url, "params": fields, "signature": signature(TOKEN, url, fields)}
        for fields in (MESSAGES["text"], MESSAGES["picture"])
    ]
    calls.append({**calls[0], "signature": calls[1]["signature"]})
    path = tmp_path / "calls.jsonl"
    path.write_text("\n".join(json.dumps(call) for call in calls))
    async with SmsBed() as bed:
        bed.server.say(ANN, "first", call=False)
        bed.server.say(ANN, "look", ("image/png", bed.content), call=False)
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), bed.server.url, SID, TOKEN, NUMBER, ANN, str(path)),
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 0, err.decode()[-3000:]
        assert json.loads(out) == {
            "account": "My account",
            "listed": [["inbound", "look", "1"], ["inbound", "first", "0"]],
            "media": "image/png",
            "sent": ["queued", "outbound-api", "SM"],
            "phone": True,
            "errors": {
                "to": [400, 21211],
                "from": [400, 21606],
                "body": [400, 21602],
                "long": [400, 21617],
                "token": 401,
            },
            "signed": [True, True, False],
        }


SEED = """
twilio:
  account: {{sid: {sid}, auth_token: "{token}", friendly_name: Emulated}}
  phone_numbers:
    - {{sid: {phone}, phone_number: "{number}", friendly_name: Ours, sms_url: "{url}"}}
"""


@asynccontextmanager
async def emulator(folder: Path, callback: str) -> AsyncIterator[str]:
    program, place = await asyncio.to_thread(node, "slack-node", ROOT / "tests" / "foreign" / "slack")
    (folder / "seed.yaml").write_text(
        SEED.format(sid=SID, token=TOKEN, number=NUMBER, url=callback, phone="PN" + "0" * 32)
    )
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(str(program), str(place / "node_modules" / "emulate" / "dist" / "index.js"), "start"),
        *("--service", "twilio", "--port", str(port), "--seed", str(folder / "seed.yaml")),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://localhost:{port}"
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(url):
                        break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
        yield url
    finally:
        process.kill()
        await process.wait()


async def test_the_adapter_uses_another_makers_twilio(tmp_path: Path) -> None:
    bed = SmsBed()
    async with emulator(tmp_path, bed.server.callback) as url, aiohttp.ClientSession() as session:
        bed.said["SMS_API_URL"] = url
        platform, inboxes = bed.connect(), Inboxes()
        async with running(platform, inboxes.accept, None) as task:
            await until(lambda: inboxes.batches > 0 or task.done(), "it does not listen")
            assert not task.done(), task.exception()
            sent = await platform.send(
                Address(platform="sms", chat=ANN), Body(text="hello"), key="turn:1 ü", reply_to=None
            )
            assert sent.ref.startswith("SM")
            asked = {"To": NUMBER, "From": ANN, "Body": "hello é 😀"}
            login = {"Authorization": aiohttp.encode_basic_auth(SID, TOKEN)}
            simulate = f"{url}/_twilio/simulate"
            async with session.post(f"{simulate}/inbound-message", data=asked, headers=login) as response:
                assert response.status < 300, await response.text()
            await until(lambda: inboxes.texts == ["hello é 😀"], lambda: f"it heard {inboxes.texts}")
            asked = {"MessageSid": sent.ref, "Status": "undelivered"}
            async with session.post(f"{simulate}/message-status", data=asked, headers=login) as response:
                assert response.status < 300, await response.text()
            await until(lambda: len(inboxes.items) == 2, "nobody hears that it did not arrive")
            assert (inboxes.items[1].what, inboxes.items[1].ref) == (InboundKind.UNDELIVERED, "turn:1 ü")
        bed.said["TWILIO_AUTH_TOKEN"] = "0" * 32
        with pytest.raises(NeedsLogin):
            await bed.connect().run(inboxes.accept, None)
