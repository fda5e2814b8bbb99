"""Connections: who sends nothing, too slowly, or no HTTP at all holds up nobody, and is told why."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hermes.admin.process.run import _raise_file_limit
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.turns.event import TextDelta
from hermes.testing.api import KEY, ApiWorld
from tests.entry.http.talking import CHAT, content, words

PATIENCE = 60


@asynccontextmanager
async def connected(
    api: ApiWorld, data: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    port = urlsplit(api.address).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        yield reader, writer
    finally:
        writer.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """What came until the other end closed."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionResetError:
        return b""


def limits(**values: int) -> str:
    return json.dumps({"platforms": {"api_server": values}})


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=["nothing", "half a request", "no second request"],
)
async def test_a_connection_without_a_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    async with (
        ApiWorld(home=tmp_path / "home", config=limits(idle_timeout=1)) as api,
        connected(api, sent) as (reader, _),
    ):
        heard = await read_all(reader)
        assert (b"200 OK" in heard) == sent.endswith(b"\r\n\r\n")


class Holder:
    """A model that says its first words, waits, and then says the rest."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        yield TextDelta(text="first ")
        await self.go.wait()
        yield TextDelta(text="last")
        yield ModelEnd()


async def test_a_quiet_stream_outlives_the_limit_for_idle_connections(tmp_path: Path) -> None:
    model = Holder()
    async with ApiWorld(home=tmp_path / "home", provider=model, config=limits(idle_timeout=1)) as api:
        events = []
        async for event in api.events(CHAT, words("hi", stream=True)):
            events.append(event)
            if content(events) and not model.go.is_set():
                async with connected(api) as (reader, _):
                    assert await read_all(reader) == b""  # opened later, closed before
                model.go.set()
        assert content(events) == "first last"


async def test_a_body_that_dribbles_in_is_refused(tmp_path: Path) -> None:
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
    )
    async with (
        ApiWorld(home=tmp_path / "home", config=limits(body_timeout=1)) as api,
        connected(api, head.encode()) as (reader, writer),
    ):
        answer = asyncio.create_task(reader.readuntil(b"body_too_slow"))
        async with asyncio.timeout(PATIENCE):
            while not answer.done():
                writer.write(b" ")
                await asyncio.sleep(0.1)
        assert answer.result().startswith(b"HTTP/1.1 408")


async def test_sockets_that_nobody_uses_keep_out_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ApiWorld(home=tmp_path / "home", config=limits(max_connections=6)) as api:
        idle = [await asyncio.open_connection("127.0.0.1", urlsplit(api.address).port) for _ in range(20)]
        heard = await api.post(CHAT, words("hi"))
        assert heard.status == 200
        assert await read_all(idle[0][0]) == b"", "the oldest gave way"
        for _, writer in idle:
            writer.close()
    assert sum("http.crowded" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"garbage\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\nX: \x00\r\n\r\n",
        b"\x16\x03\x01" * 9,
    ],
)
async def test_what_is_no_http_is_told_in_the_usual_shape(
    tmp_path: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with ApiWorld(home=tmp_path / "home") as api, connected(api, sent) as (reader, _):
        head, _, body = (await read_all(reader)).partition(b"\r\n\r\n")
        assert b" 400 " in head.splitlines()[0] and b"x-request-id: req_" in head.lower()
        error = json.loads(body)["error"]
        assert error["code"] == "bad_http" and error["type"] == "invalid_request_error"
        assert error["message"].endswith(".")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING and record.exc_info]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_body_that_is_not_what_its_headers_say_is_a_bad_request(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        heard = await api.ask("POST", CHAT, data=b"not gzip", headers=headers)
        assert (heard.status, heard.json["error"]["type"]) == (400, "invalid_request_error")


async def test_addresses_are_taken_as_they_are_meant(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        for path in ("/v1/models/", "//v1/models", "/v1//models/?x=1", "/p/main//v1/models/"):
            heard = await api.get(path)
            assert heard.status == 200 and heard.json["object"] == "list", path
        assert (await api.get("//v1/models/hermes-agent/")).json["id"] == "hermes-agent"
        assert (await api.get("//")).status == 404


async def test_heads_of_what_can_be_read(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        for path in ("/health", "/v1/models", "/docs"):
            heard, whole = await api.ask("HEAD", path), await api.get(path)
            assert (heard.status, heard.data) == (200, b"")
            assert heard.headers["Content-Length"] == str(len(whole.data))
        assert (await api.ask("HEAD", "/v1/models", headers={"Authorization": ""})).status == 401
        run = (await api.post("/v1/runs", {"input": "hi"})).json["run_id"]
        assert (await api.ask("HEAD", f"/v1/runs/{run}/events")).status == 405


async def test_every_answer_has_an_id_of_its_own(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = [await api.get(path) for path in ("/health", "/v1/models", "/nowhere")]
        heard.append(await api.post(CHAT, {}))
        async with api.http.post(api.address + CHAT, json=words("hi", stream=True)) as stream:
            idents = {each.headers["X-Request-Id"] for each in heard} | {stream.headers["X-Request-Id"]}
        assert len(idents) == 5 and all(ident.startswith("req_") for ident in idents)


async def test_an_endpoint_that_there_is_not_is_no_thing_of_that_name(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.post("/v1/responses/compact", {})
        assert (heard.status, heard.json["error"]["code"]) == (404, "unknown_url")
        heard = await api.post("/v1/models", {})
        assert (heard.status, heard.json["error"]["code"]) == (405, "method_not_allowed")
        assert (await api.ask("DELETE", "/v1/models/main")).status == 405


def test_the_limit_of_open_files_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        _raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(8192, hard), hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        _raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard), "it is never lowered"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
