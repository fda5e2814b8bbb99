"""A gateway that is killed (`kill -9`) while an MCP server carries out a call: the call is not made again,
the person is told, and the server is gone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from hermes.testing.model_script import Call, ModelRequest, Reply
from hermes.testing.model_server import FakeModelServer
from tests.cli.command import PATIENCE, gateway, hermes
from tests.mcp.bed import HERE

NAME = "mcp__pay__echo"


def script(request: ModelRequest) -> Reply:
    done = [one for one in request.messages if one["role"] == "tool"]
    if done:
        return Reply(text=f"So: {done[-1]['content']}")
    tools = {tool["function"]["name"] for tool in request.body["tools"]}
    given = {"text": "100 coins"}
    call = Call(id="c1", name=NAME, arguments=json.dumps(given))
    if NAME not in tools:
        call = Call(id="c1", name="tool_call", arguments=json.dumps({"name": NAME, "arguments": given}))
    return Reply(text=None, calls=(call,))


async def test_a_call_that_was_open_at_a_kill_happens_once(tmp_path: Path) -> None:
    home, notes = tmp_path / "home", tmp_path / "notes"
    home.mkdir(mode=0o700)
    server = {"command": sys.executable, "args": ["-I", "-S", str(HERE / "plain_server.py"), "notes"]}
    server["env"] = {"NOTES": str(notes), "NAP": "120"}
    async with FakeModelServer(script) as model:
        endpoint = {
            "default": "m",
            "provider": "custom",
            "base_url": model.base_url,
            "api_key": "k-test-123456",
        }
        (home / "config.yaml").write_text(json.dumps({"model": endpoint, "mcp_servers": {"pay": server}}))
        assert (await asyncio.to_thread(hermes, home, "mcp", "test", "pay")).code == 0
        with gateway(home) as running:
            asking = asyncio.create_task(asyncio.to_thread(hermes, home, "chat", "-q", "pay please"))
            await _until(notes.exists)
            running.process.kill()
            running.process.wait()
            await _until(lambda: not _servers(home))
            await asking
        with gateway(home):
            await _until(lambda: "outcome is unknown" in _told(home))
            assert notes.read_text() == "100 coins\n"
            assert not _servers(home)


def _told(home: Path) -> str:
    listed = json.loads(hermes(home, "sessions", "list", "--json").out)
    session = (listed["sessions"] if isinstance(listed, dict) else listed)[0]["id"]
    return hermes(home, "sessions", "show", session).out


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def _servers(home: Path) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
            if b"plain_server.py" in words and os.readlink(place / "cwd").startswith(str(home)):
                found.append(place.name)
        except OSError:
            continue
    return found
