"""The fake Weixin is judged by weixin-ilink, which we did not write, before our adapter may trust it: it
polls, fetches a file, sends texts and files, types, and logs in."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from hermes.domain.chats.message import MediaKind
from hermes.testing.platform_suite import Does
from tests.foreign.environments import ROOT, python_of
from tests.platforms.weixin.bed import WeixinBed
from tests.platforms.weixin.samples import ANN

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "weixin_ilink_client.py"


async def test_another_makers_client_accepts_the_fake() -> None:
    python = await asyncio.to_thread(python_of, "weixin")
    async with WeixinBed() as bed:
        server = bed.server
        for does, words in ((Does.TEXT, "hello"), (Does.IMAGE, ""), (Does.TEXT, "bye")):
            await bed.do(does, words)
        done = {"status": "confirmed", "bot_token": "new", "ilink_bot_id": "b", "ilink_user_id": ANN}
        server.states = [{"status": "scaned"}, done]
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), server.url, server.cdn, server.token),
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), 100)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, err.decode()[-3000:]
        assert json.loads(out) == {
            "seen": [[2**63 + 1, "hello", ANN], [2**63 + 2, "", ANN], [2**63 + 3, "bye", ANN]],
            "file": bed.content.hex(),
            "wrong": {"ret": -14, "errcode": -14},
            "login": ["new", "b", True],
        }
        files = [one.file for one in server.sent if one.file]
        assert files == [(MediaKind.IMAGE, b"png"), (MediaKind.FILE, b"png")]
        assert (server.sent[0].text, server.sent[0].context, server.typed) == ("hi", "context+3/=", 1)
