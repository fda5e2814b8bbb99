"""The plug is pulled during a stream and during a parked approval: the turn is there, goes on, and is
answered once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.sse import SseParser
from hermes.domain.turns.event import Entry, Finished, UserSaid
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.writer import SqliteStore
from hermes.testing.ports import free_port
from tests import nursery
from tests.cli.command import ROOT, environment
from tests.entry.http.talking import CHAT, content, words

CHILD = Path(__file__).with_name("api_child.py")
KEY = "a key that nobody guesses"
HEADERS = {"Authorization": f"Bearer {KEY}", "X-Hermes-Session-Id": "s", "Idempotency-Key": "k"}
WHOLE = "answer to m1: all {} tools were used as you wished"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def port() -> int:
    return free_port()


@contextlib.contextmanager
def life(home: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    environ = {
        **environment(home),
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "API_SERVER_KEY": KEY,
        "API_SERVER_PORT": str(port),
    }
    with nursery.Popen([sys.executable, str(CHILD), str(home)], env=environ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


@contextlib.asynccontextmanager
async def client(port: int) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the gateway, once it answers."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=HEADERS) as session:
        for _ in range(2400):
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get("/health") as response:
                    if response.status == 200:
                        break
            await asyncio.sleep(0.05)
        yield session


async def ask(session: aiohttp.ClientSession, path: str, body: object = None) -> dict[str, Any]:
    async with session.request("GET" if body is None else "POST", path, json=body) as response:
        assert response.status == 200, await response.text()
        heard: dict[str, Any] = await response.json()
        return heard


async def kept(home: Path) -> list[Entry]:
    async with SqliteStore(home / DATABASE_FILE) as store:
        return await store.scoped(MAIN_AGENT).read(lambda tx: tx.journal.read(SessionId("s")))


def is_answered_once(entries: list[Entry]) -> bool:
    said = sum(isinstance(entry.record, UserSaid) for entry in entries)
    ends = sum(isinstance(entry.record, Finished) for entry in entries)
    return (said, ends) == (1, 1) and [entry.seq for entry in entries] == list(range(1, len(entries) + 1))


async def test_a_stream_that_was_cut_by_a_kill_is_answered_once(home: Path, port: int) -> None:
    (home / "hold").touch()
    body = words("m1", stream=True)
    with life(home, port) as process:
        async with client(port) as session, session.post(CHAT, json=body) as response:
            await response.content.readuntil(b"answer")
            process.kill()
            process.wait(60)
    (home / "hold").unlink()
    with life(home, port):
        async with client(port) as session, session.post(CHAT, json=body) as response:
            parser = SseParser()
            heard = [event async for data in response.content.iter_any() for event in parser.feed(data)]
            assert response.headers["X-Hermes-Session-Id"] == "s"
    assert content(heard) == WHOLE.format(0)
    assert heard[-1].data == "[DONE]"
    assert is_answered_once(await kept(home))


async def test_an_approval_that_was_parked_outlives_a_kill(home: Path, port: int) -> None:
    body = words("m1 danger")
    with life(home, port) as process:
        async with client(port) as session:
            pending = (await ask(session, CHAT, body))["hermes"]["pending"]
        process.kill()
        process.wait(60)
    with life(home, port):
        async with client(port) as session:
            path = f"/v1/questions/{pending['id']}"
            found = await ask(session, path)
            assert (found["status"], found["action"]) == ("open", pending["action"])
            assert (await ask(session, CHAT, body))["hermes"]["pending"] == pending
            assert not (home / "done").exists()
            await ask(session, path, {"choice": "once"})
            heard = await ask(session, CHAT, body)
            assert heard["choices"][0]["message"]["content"] == WHOLE.format(1)
    assert (home / "done").read_text() == "danger m1\n"
    assert is_answered_once(await kept(home))
