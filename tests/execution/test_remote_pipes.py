"""Streams to a far world by a vendor's SDK: their order, their pace and their end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.domain.errors import HermesError, Unreachable
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.pipes import RemotePipes, finish
from tests.execution.beds import RemotePlace, make_bed


async def nothing() -> None:
    return


async def test_what_is_written_arrives_in_order_and_before_the_end() -> None:
    sent = bytearray()
    ended = asyncio.Event()

    async def send(data: bytes) -> None:
        await asyncio.sleep(0)
        assert not ended.is_set()
        sent.extend(data)

    async def hang_up() -> None:
        ended.set()

    pipes, words = RemotePipes(send, hang_up), bytes(range(256)) * 20_000
    pipes.write(words[:3_000_000])
    await pipes.drain()
    assert len(sent) > 1_900_000, "a writer waits for what is far behind"
    pipes.write(words[3_000_000:])
    pipes.close()
    assert await pipes.wait() == 255 and ended.is_set()
    assert bytes(sent) == words


async def test_who_feeds_waits_for_who_reads() -> None:
    async def send(data: bytes) -> None:
        raise AssertionError

    pipes, fed = RemotePipes(send, nothing), 0

    async def feed() -> None:
        nonlocal fed
        for _ in range(1000):
            await pipes.feed(bytes(10_000))
            fed += 1
        pipes.end(3, "that is all")

    feeding = asyncio.create_task(feed())
    for _ in range(2000):
        await asyncio.sleep(0)
    assert fed < 100
    done = await finish(pipes, 30)
    await feeding
    assert (done.code, len(done.output), done.complaint) == (3, 10_000_000, "that is all")


async def test_what_the_sdk_raises_ends_it_and_tells_why() -> None:
    async def send(data: bytes) -> None:
        raise RuntimeError("no such sandbox")

    pipes = RemotePipes(send, nothing)
    pipes.write(b"x")
    done = await finish(pipes, 30)
    assert (done.code, done.complaint) == (255, "no such sandbox")


async def test_one_that_takes_nothing_can_be_killed() -> None:
    async def send(data: bytes) -> None:
        await asyncio.Event().wait()

    pipes = RemotePipes(send, nothing)
    pipes.write(b"x")
    with pytest.raises(Unreachable, match=r"did not answer within 0\.1 s"):
        await finish(pipes, 0.1)
    assert pipes.returncode == 255


async def test_a_lost_place_costs_one_command_even_if_waiting_streams_do_not_know(tmp_path: Path) -> None:
    bed = make_bed("remote", tmp_path)
    backend = bed.backend
    assert isinstance(backend, FarBackend)
    await backend.open()
    try:
        place, pool = backend._place, backend._pool
        assert isinstance(place, RemotePlace)
        running = asyncio.create_task(bed.run("echo > up; sleep 300"))
        while (await bed.run("cat up", session="look")).code:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        place.told.clear()
        await place.kill()
        for stream in pool._streams - set(pool._waiting):
            stream._child.end(255)  # type: ignore[attr-defined]
        with pytest.raises(HermesError):
            await running
        assert (await bed.run("echo anew")).output == "anew\n"
    finally:
        place.told.set()
        await backend.close()
