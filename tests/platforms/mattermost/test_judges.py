"""The fake Mattermost is judged by its vendor's own client, before our adapter may trust it: it completes the
handshake, receives, pings, types, posts, edits, reacts, uploads and reads the history against it."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from hermes.testing.platform_suite import Fault
from tests.foreign.environments import ROOT, node
from tests.platforms.mattermost.samples import PRIVATE, TEAM
from tests.platforms.mattermost.server import Mattermost

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
FOREIGN = ROOT / "tests" / "foreign"


async def test_the_vendors_client_accepts_the_fake() -> None:
    program, place = await asyncio.to_thread(node, "mattermost-node", FOREIGN / "mattermost")
    server = Mattermost()
    server.channel("ann")
    server.channel("team", "O")
    server.fail(Fault.TOO_FAST, 1, False, TEAM)
    await server.up()
    process = await asyncio.create_subprocess_exec(
        str(program),
        str(FOREIGN / "clients" / "mattermost_client.cjs"),
        *(server.url, server.token, PRIVATE, TEAM),
        cwd=place,
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(600):
            line = await process.stderr.readline()
            if line.strip() == b"SKIP":
                # An event gets lost on the way.
                server.connections[0].seq += 1
                server.say(PRIVATE, "after the lost one")
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await server.down()
    assert process.returncode == 0, (line + err).decode()[-3000:]
    assert json.loads(out) == {
        "hello": ["hello", 0, True],
        "typing": ["OK", True],
        "ping": "pong",
        "me": ["hermes", True],
        "channels": ["D", "O"],
        "created": ["hello *you* 😀", True, True, "x"],
        "posted": [True, "D", "@hermes"],
        "broadcast": True,
        "reply": True,
        "edited": ["hello again", True, "x"],
        "reaction": ["eyes", True, 1, "OK", 0],
        "file": ["a.txt", 3, "text/plain", "abc"],
        "since": [3, True],
        "page": [2, True],
        "before": True,
        "people": ["hermes"],
        "channel": "O",
        "button": ["Yes", True],
        "deleted": "OK",
        "errors": [
            ["press", 400, "api.post.do_action.action_integration.app_error"],
            ["gone", 404, "app.post.get.app_error"],
            ["too long", 400, "model.post.is_valid.message_length.app_error"],
            ["nowhere", 403, "api.context.permissions.app_error"],
            ["no thread", 400, "api.post.create_post.root_id.app_error"],
            ["too fast", None, None],
            ["wrong token", 401, "api.context.session_expired.app_error"],
        ],
        "quiet": [0, 0],
        "missed": [1, 2],
    }
    assert server.typed == 1 and server.greeted == 2
