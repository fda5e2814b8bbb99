"""What the journeys of API clients share: requests, chunks read apart, a look at what the gateway keeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from hermes.domain.ids import SessionId
from hermes.domain.sse import SseEvent
from hermes.domain.turns.event import Entry, Failed, Finished, Stopped, UserSaid
from hermes.domain.turns.session import Session
from hermes.testing.api import ApiWorld

CHAT = "/v1/chat/completions"
PHONE_KEY = "another long secret 1"
PHONE = {"Authorization": f"Bearer {PHONE_KEY}"}
TWO_KEYS = f"""
platforms:
  api_server:
    keys:
      phone: {{key: {PHONE_KEY}, scopes: [chat]}}
agents:
  helper: {{}}
"""


def words(text: str, **more: object) -> dict[str, object]:
    return {"model": "hermes-agent", "messages": [{"role": "user", "content": text}], **more}


def chunks(events: Iterable[SseEvent]) -> list[dict[str, Any]]:
    """The chunks of a chat stream: every `data:` of it is one, but for the end mark and an error."""
    parts = [json.loads(one.data) for one in events if one.data != "[DONE]"]
    for part in parts:
        assert "error" in part or (part["object"], type(part["choices"])) == ("chat.completion.chunk", list)
    return parts


def beside(events: Iterable[SseEvent], name: str) -> list[dict[str, Any]]:
    """What a chat stream tells beside its answer, under this name."""
    told = [part["hermes"] for part in chunks(events) if part.get("hermes", {}).get("event") == name]
    return [{key: value for key, value in each.items() if key != "event"} for each in told]


def content(events: Iterable[SseEvent]) -> str:
    deltas = (choice["delta"] for chunk in chunks(events) for choice in chunk["choices"])
    return "".join(delta.get("content") or "" for delta in deltas)


def told(events: Iterable[SseEvent], name: str) -> list[dict[str, Any]]:
    return [json.loads(one.data) for one in events if one.name == name]


async def sessions(api: ApiWorld) -> list[Session]:
    return await api.app.store.read(lambda tx: tx.sessions.find("", 100))


async def journal(api: ApiWorld, session: str) -> list[Entry]:
    return await api.app.store.read(lambda tx: tx.journal.read(SessionId(session)))


def said(entries: Iterable[Entry]) -> list[str]:
    return [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]


async def ended(api: ApiWorld, session: str | None = None) -> object:
    """The end record of the only session's (or this one's) last turn, once it is there."""
    for _ in range(8000):
        names = [session] if session else [one.id for one in await sessions(api)]
        for name in names:
            entries = await journal(api, name)
            if entries and isinstance(entries[-1].record, Finished | Failed | Stopped):
                return entries[-1].record
        await asyncio.sleep(0.005)
    raise AssertionError("the turn did not end")
