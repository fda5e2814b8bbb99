"""Files on their way to and from every platform: over a slow line they get there as long as they move, and
what stands still or only trickles is given up."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hermes.domain.chats.message import Attachment, MediaKind, transfer_seconds
from hermes.domain.clock import SystemClock
from hermes.domain.errors import Unreachable
from hermes.entry.kit import transfer
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.transfer import OutgoingFile, TransferLimit
from hermes.entry.platforms.discord.api import DiscordApi
from hermes.entry.platforms.matrix.api import MatrixClient
from hermes.entry.platforms.mattermost.api import MattermostApi
from hermes.entry.platforms.slack.api import SlackApi
from hermes.entry.platforms.telegram.api import TelegramApi
from hermes.entry.platforms.telegram.compose import Upload

SIZE = 24 * 1024 * 1024
"""More than the kernel keeps for a connection whose reader is slow."""
STEPS = 10
PAUSE = 0.2
QUIET = 1.5
"""Less than all pauses together, much more than one of them."""
ANSWER = (
    b'{"ok": true, "result": {}, "file_infos": [{"id": "aaaaaaaaaaaaaaaaaaaaaaaaaa"}],'
    b' "content_uri": "mxc://x/y", "id": "1"}'
)
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


@contextlib.asynccontextmanager
async def served(talk: Talk) -> AsyncIterator[str]:
    """A server that answers what has no body at once, and lets `talk` take the others."""

    talks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                await talk(reader, writer, int(length[1]) if length else 0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=64 * 1024)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


def said(writer: asyncio.StreamWriter) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n"
    writer.write(head.encode() + ANSWER)


async def take_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    left, step = length, length // STEPS + 1
    while left:
        piece = await reader.readexactly(min(step, left))
        left -= len(piece)
        await asyncio.sleep(PAUSE if length > step > 100_000 else 0)
    said(writer)


async def take_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    if length < 100_000:
        await reader.readexactly(length)
        said(writer)
        return
    await reader.readexactly(length // 2)
    await asyncio.Event().wait()


async def to_telegram(url: str, data: bytes, quiet: float) -> None:
    api = TelegramApi(url, "1:x", None)
    upload = Upload(kind=MediaKind.FILE, name="a", data=data)
    await _with(api, quiet, api.ask("sendDocument", {"chat_id": 1}, files={"document": upload}))


async def to_discord(url: str, data: bytes, quiet: float) -> None:
    api = DiscordApi("x", url, None, SystemClock())
    await _with(api, quiet, api.upload("/channels/1/messages", {}, [("a", data, "text/plain")]))


async def to_slack(url: str, data: bytes, quiet: float) -> None:
    api = SlackApi(url, "x", None)
    await _with(api, quiet, api.upload(f"{url}/upload", "a", data, "text/plain"))


async def to_mattermost(url: str, data: bytes, quiet: float) -> None:
    api = MattermostApi(url, "x", None)
    await _with(api, quiet, api.upload("c", "a", data, None))


async def to_matrix(url: str, data: bytes, quiet: float) -> None:
    client = MatrixClient(url)
    await _with(client, quiet, client.upload(data, "a", "text/plain"))


async def _with(client: HttpClient[Any], quiet: float, work: Awaitable[object]) -> None:
    client.answer_seconds = client.upload_seconds = quiet
    try:
        await work
    finally:
        await client.close()


UPLOADS = [to_telegram, to_discord, to_slack, to_mattermost, to_matrix]
Uploading = Callable[[str, bytes, float], Awaitable[None]]


@pytest.mark.parametrize("upload", UPLOADS)
async def test_a_slow_upload_that_moves_arrives(upload: Uploading) -> None:
    async with served(take_slowly) as url:
        await upload(url, bytes(SIZE), QUIET)


@pytest.mark.parametrize("upload", UPLOADS)
async def test_an_upload_that_stands_still_ends(upload: Uploading) -> None:
    async with served(take_half) as url:
        with pytest.raises(Unreachable) as error:
            await upload(url, bytes(SIZE), 1.0)
        assert error.value.maybe_done or error.value.in_transfer, "the outbox counts it as a broken transfer"


async def _fetch(talk: Talk, quiet: float) -> bytes:
    got = bytearray()

    async def keep(piece: bytes) -> None:
        got.extend(piece)

    client = HttpClient("It", HttpAnswer)
    client.answer_seconds = quiet
    async with served(talk) as url:
        try:
            await client.download(url, keep)
        finally:
            await client.close()
    return bytes(got)


async def test_a_slow_download_that_moves_arrives() -> None:
    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(STEPS):
            writer.write(bytes(100_000))
            await asyncio.sleep(PAUSE)

    assert await _fetch(give, QUIET) == bytes(1_000_000)


async def test_a_download_that_stands_still_ends() -> None:
    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(100_000))
        await asyncio.Event().wait()

    with pytest.raises(Unreachable, match="stopped coming"):
        await _fetch(give, 0.3)


async def test_a_download_that_trickles_ends() -> None:
    """One byte now and then is no sign of life: the fewest bytes that are waited for are more."""

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    with pytest.raises(Unreachable, match="stopped coming"):
        await _fetch(give, 0.4)


async def test_the_limit_grows_with_what_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it began, it may stand still no longer than at the start."""
    monkeypatch.setattr(transfer, "SLOWEST_BYTES", 1000)
    async with TransferLimit(10.0) as limit:
        began, timeout = limit._began, limit._timeout
        limit.moved(500)  # as much as half a second may take
        now = asyncio.get_running_loop().time()
        deadline = timeout.when()
        assert deadline is not None and began + 10 <= deadline <= now + 10
        limit.moved(1_000_000)
        deadline = timeout.when()
        assert deadline is not None and deadline <= asyncio.get_running_loop().time() + 10


async def test_a_limit_that_is_over_hears_of_nothing_more() -> None:
    async with TransferLimit(10.0) as limit:
        file = OutgoingFile(b"abc")
        file.limit = limit
    assert file.read() == b"abc"
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with TransferLimit(0.01) as late:
            await asyncio.sleep(5)
    late.moved(1)


def test_the_outbox_waits_for_large_files() -> None:
    small, large = (Attachment(kind=MediaKind.FILE, ref="r", size=size) for size in (0, 50 * 2**20))
    assert transfer_seconds([]) == transfer_seconds([small]) == 0.0
    assert transfer_seconds([small, large]) == 1600.0
    assert transfer_seconds([Attachment(kind=MediaKind.FILE, ref="r")]) == 800.0
