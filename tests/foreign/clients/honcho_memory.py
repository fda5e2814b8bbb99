"""Our provider of Honcho with the real SDK, against the server whose address is given: learns (one exchange
twice, as after a crash), recalls, forgets, and prints what it recalled as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.memory import MemoryScope, TurnExchange
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.memory_providers import HonchoSettings
from hermes.domain.settings.settings import Profile, Settings
from hermes.state.memory.honcho import HonchoMemory


def scope(person: str) -> MemoryScope:
    return MemoryScope(session=SessionId(f"s:{person}"), person=person)


def exchange(turn: str, words: str) -> TurnExchange:
    return TurnExchange(turn=TurnId(turn), words=words, answer="noted", at=datetime(2026, 1, 1, tzinfo=UTC))


async def live(url: str, key: str) -> list[str]:
    chosen = HonchoSettings(api_key=Secret(key), base_url=url, workspace="w")
    memories = {
        agent: HonchoMemory(Profile(agent=AgentId(agent), home=Path(), settings=Settings(honcho=chosen)))
        for agent in ("main", "other")
    }
    memory = memories["main"]
    for turn, words in (("t1", "I like oolong"), ("t1", "I like oolong"), ("t2", "I live in Ulm")):
        await memory.learn(exchange(turn, words), scope("fake:Ann"))
    await memory.learn(exchange("t3", "I like coffee"), scope("fake:Bob"))
    recalled = [await memory.recall("what do I like?", scope("fake:Ann"))]
    recalled.append(await memories["other"].recall("what do I like?", scope("fake:Ann")))
    await memory.forget("fake:Ann")
    recalled.append(await memory.recall("what do I like?", scope("fake:Ann")))
    recalled.append(await memory.recall("what do I like?", scope("fake:Bob")))
    for each in memories.values():
        await each.close()
    return recalled


print(json.dumps(asyncio.run(live(*sys.argv[1:3]))))
