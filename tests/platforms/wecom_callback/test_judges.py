"""The fake of WeCom's apps is judged by wechatpy, which we did not write, before our adapter may trust it: it
opens what the fake seals, sends and uploads. And we open what wechatpy seals."""

from __future__ import annotations

import asyncio
import json
import os
import re

import pytest

from hermes.entry.platforms.wecom_callback.convert import WeComSecrets, opened, sealed_in, signature
from tests.foreign.environments import ROOT, python_of
from tests.platforms.wecom_callback.bed import WeComAppBed
from tests.platforms.wecom_callback.samples import AES_KEY, ANN, CORP, TOKEN, xml
from tests.platforms.wecom_callback.server import AGENT, WeComApp

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "wecom_wechatpy.py"


async def test_another_makers_client_accepts_the_fake() -> None:
    python = await asyncio.to_thread(python_of, "wecom")
    sealed = WeComApp.sealed(xml("7", "text", Content="hello 😀"))
    call = {
        "body": f"<xml><ToUserName>{CORP}</ToUserName><Encrypt><![CDATA[{sealed}]]></Encrypt></xml>",
        "msg_signature": signature(TOKEN, "1793000000", "n1", sealed),
        "timestamp": "1793000000",
        "nonce": "n1",
    }
    async with WeComAppBed() as bed:
        told = {"token": TOKEN, "aes_key": AES_KEY, "corp": CORP, "secret": bed.server.secret}
        told |= {"agent": AGENT, "person": ANN, "call": call}
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-W", "ignore", str(CLIENT), bed.server.url, json.dumps(told)),
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), 200)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, err.decode()[-3000:]
        found = json.loads(out)
        theirs = found.pop("sealed")
        assert found == {
            "opened": ["text", "hello 😀", ANN, AGENT],
            "forged": "Error code: -40001, message: Invalid signature",
            "sent": [0, ""],
            "long": "Error code: 45002, message: content size out of limit",
            "uploaded": ["image", 0],
            "wrong": "Error code: 40001, message: invalid credential",
        }
    given = re.search(r"<MsgSignature><!\[CDATA\[(\w+)\]\]>", theirs)
    assert given is not None
    secrets = WeComSecrets(token=TOKEN, aes_key=AES_KEY, corp=CORP)
    ours = opened(secrets, given[1], "1793000000", "n1", sealed_in(theirs.encode()))
    assert ours == b"<xml><a>hello</a></xml>"
