"""Many watchers of one run, some of them asleep: nobody holds anybody back, and who was cut comes back."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.sse import SseParser
from hermes.domain.turns.event import TextDelta
from hermes.entry.http.site import streams
from hermes.entry.http.site.free_memory import FreeMemory
from hermes.testing.api import KEY, ApiWorld

PIECE = "word " * 400
PIECES = 120


class Talker:
    """Says a lot in many pieces once somebody listens, and ends when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.end = asyncio.Event()

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        await self.go.wait()
        for number in range(PIECES):
            yield TextDelta(text=f"{number} {PIECE}")
            await asyncio.sleep(0.002)
        await self.end.wait()
        yield ModelEnd()

    @property
    def text(self) -> str:
        return "".join(f"{number} {PIECE}" for number in range(PIECES))


class Reader:
    """A client that puts the words together; `said` tells when all of them are there."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        self._pieces: list[str] = []
        self._length = 0
        self.first = asyncio.Event()
        self.said = asyncio.Event()
        self.names: list[str] = []

    async def read(self, api: ApiWorld, path: str, last_id: str = "") -> None:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        parser = SseParser()
        async with api.http.get(api.address + path, headers=headers) as response:
            assert response.status == 200
            async for data in response.content.iter_any():
                self.first.set()
                for event in parser.feed(data):
                    self.see(json.loads(event.data))

    @property
    def words(self) -> str:
        return "".join(self._pieces)

    def see(self, data: dict[str, str]) -> None:
        self.names.append(data["event"])
        match data["event"]:
            case "message.delta":
                self._pieces.append(data["delta"])
                self._length += len(data["delta"])
            case "message.snapshot":
                self._pieces, self._length = [data["text"]], len(data["text"])
            case "message.reset":
                self._pieces, self._length = [], 0
        if self._length == len(self.whole):
            self.said.set()


async def sleeper(api: ApiWorld, path: str) -> socket.socket:
    """A client that reads up to the first record's number and then never again."""
    place = urlsplit(api.address)
    assert place.hostname is not None
    asleep = socket.socket()
    asleep.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asleep.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(asleep, (place.hostname, place.port))
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    await loop.sock_sendall(asleep, request.encode())
    heard = b""
    while b"id: 1\n" not in heard:
        heard += await loop.sock_recv(asleep, 1024)
    return asleep


def is_cut(asleep: socket.socket) -> bool:
    poll = select.poll()
    poll.register(asleep, 0)
    return bool(poll.poll(0))


async def all_cut(asleep: list[socket.socket]) -> None:
    while True:
        if all(map(is_cut, asleep)):
            return
        await asyncio.sleep(0.1)


async def test_many_watchers_and_some_asleep(
    tmp_path: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    awake, sleeping = (450, 50) if full else (20, 4)
    if not full:
        monkeypatch.setattr(streams, "STALLED_SECONDS", 8.0)
        monkeypatch.setattr(streams, "_LOOK_SECONDS", 0.1)
    model = Talker()
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        api.http.connector._limit = 0  # type: ignore[union-attr]
        run = (await api.post("/v1/runs", {"input": "talk"})).json["run_id"]
        path = f"/v1/runs/{run}/events"
        readers = [Reader(model.text) for _ in range(awake)]
        reading = [asyncio.create_task(reader.read(api, path)) for reader in readers]
        async with asyncio.timeout(300):
            asleep = [await sleeper(api, path) for _ in range(sleeping)]
            for reader in readers:
                await reader.first.wait()
        model.go.set()
        async with asyncio.timeout(600):
            for reader in readers:
                await reader.said.wait()
        assert all(reader.words == model.text for reader in readers)
        assert all("message.reset" not in reader.names for reader in readers)
        async with asyncio.timeout(600):
            await all_cut(asleep)
        for connection in asleep:
            connection.close()
        assert not any(task.done() for task in reading), "who reads is not cut"
        back = [Reader(model.text) for _ in range(sleeping)]
        reading += [asyncio.create_task(reader.read(api, path, last_id="1")) for reader in back]
        async with asyncio.timeout(600):
            for reader in back:
                await reader.said.wait()
            model.end.set()
            await asyncio.gather(*reading)
        assert all(reader.words == model.text for reader in (*readers, *back))
        assert all(reader.names[-1] == "run.completed" for reader in (*readers, *back))


async def test_a_client_that_leaves_is_no_fault_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Talker()
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        run = (await api.post("/v1/runs", {"input": "talk"})).json["run_id"]
        path = f"/v1/runs/{run}/events"
        asleep = [await sleeper(api, path) for _ in range(5)]
        model.go.set()
        for connection in asleep:
            connection.close()
        model.end.set()
        reader = Reader(model.text)
        await reader.read(api, path)
        assert reader.words == model.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_quiet_stream_is_kept_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(streams, "_LOOK_SECONDS", 0.05)
    model = Talker()
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        run = (await api.post("/v1/runs", {"input": "talk"})).json["run_id"]
        heard = b""
        async with api.http.get(f"{api.address}/v1/runs/{run}/events") as response, asyncio.timeout(60):
            async for data in response.content.iter_any():
                heard += data
                if heard.count(b": keep-alive\n\n") >= 3:
                    break
        assert heard.count(b": keep-alive\n\n") >= 3
        model.go.set()
        model.end.set()


async def test_memory_is_looked_after_while_streams_are_open_and_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    seen = asyncio.Semaphore(0)

    def look(memory: FreeMemory) -> None:
        nonlocal looks
        looks += 1
        loop.call_soon_threadsafe(seen.release)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(streams, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(streams, "_LOOKS_AFTERWARDS", 3)
    monkeypatch.setattr(streams.FreeMemory, "give_back", look)
    talker = Talker()
    talker.go.set()
    body = {"stream": True, "messages": [{"role": "user", "content": "hi"}]}
    async with ApiWorld(home=tmp_path / "home", provider=talker) as api, asyncio.timeout(40):
        await api.get("/health")
        assert not looks
        async with api.http.post(f"{api.address}/v1/chat/completions", json=body) as response:
            for _ in range(5):
                await seen.acquire()
            talker.end.set()
            await response.read()
        before = -1
        while looks != before:
            before = looks
            await asyncio.sleep(0.5)


def test_memory_that_became_free_is_given_back() -> None:
    memory = FreeMemory()
    if not memory.able:
        pytest.skip("this C library keeps it")
    blocks = [bytes(20_000) for _ in range(3_000)]
    # What stays keeps the heap from shrinking by itself.
    kept = blocks[::50]
    before = resident()
    blocks.clear()
    assert memory.give_back() and resident() < before - 30 * 1024 * 1024
    assert not memory.give_back() and len(kept) == 60


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
