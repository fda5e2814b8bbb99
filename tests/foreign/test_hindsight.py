"""Hindsight: its own client understands the fake, and so does our provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.memory import MemoryScope, TurnExchange
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.memory_providers import HindsightSettings
from hermes.domain.settings.settings import Profile, Settings
from hermes.state.memory.hindsight import HindsightMemory
from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT, python_of
from tests.foreign.hindsight_server import FakeHindsight

CLIENT = ROOT / "tests" / "foreign" / "clients" / "hindsight_banks.py"


@asynccontextmanager
async def served(fake: FakeHindsight) -> AsyncIterator[str]:
    port = free_port()
    runner = web.AppRunner(fake.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()


def memory_of(agent: str, url: str, key: str = "hs-1") -> HindsightMemory:
    chosen = HindsightSettings(api_key=Secret(key), api_url=url)
    return HindsightMemory(Profile(agent=AgentId(agent), home=Path(), settings=Settings(hindsight=chosen)))


def scope(person: str) -> MemoryScope:
    return MemoryScope(session=SessionId(f"s:{person}"), person=person)


def exchange(turn: str, words: str) -> TurnExchange:
    return TurnExchange(turn=TurnId(turn), words=words, answer="noted", at=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.slow
async def test_its_own_client_understands_the_fake() -> None:
    python = await asyncio.to_thread(python_of, "hindsight")
    async with served(FakeHindsight(key="hs-1")) as url:
        process = await asyncio.create_subprocess_exec(
            str(python), str(CLIENT), url, "hs-1",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-4000:]
    assert json.loads(output) == [["Ann likes oolong"], []]


async def test_it_learns_once_recalls_and_forgets_by_person_and_agent() -> None:
    async with served(FakeHindsight(key="hs-1")) as url:
        main, other = memory_of("main", url), memory_of("other", url)
        for turn, words in (("t1", "I like oolong"), ("t1", "I like oolong"), ("t2", "I live in Ulm")):
            await main.learn(exchange(turn, words), scope("fake:Ann/1"))
        await main.learn(exchange("t3", "I like coffee"), scope("fake:Ann"))
        recalled = await main.recall("what do I like?", scope("fake:Ann/1"))
        assert recalled.count("oolong") == 1 and "Ulm" in recalled and "coffee" not in recalled
        assert await other.recall("what do I like?", scope("fake:Ann/1")) == ""
        await main.forget("fake:Ann/1")
        await main.forget("fake:Nobody")
        assert await main.recall("what do I like?", scope("fake:Ann/1")) == ""
        assert "coffee" in await main.recall("what do I like?", scope("fake:Ann"))
        wrong = memory_of("main", url, "wrong")
        with pytest.raises(UserError, match="Hindsight answered with 401"):
            await wrong.recall("what?", scope("fake:Ann"))
        for memory in (main, other, wrong):
            await memory.close()


def test_without_a_key_and_a_server_it_says_what_to_set() -> None:
    with pytest.raises(UserError, match="needs a key"):
        memory_of("main", "", "")
