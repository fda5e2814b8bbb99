"""Hindsight as a memory provider (`memory.provider: hindsight`), over its HTTP API. Routes and bodies are
those of its own client (`hindsight-client` 1.1.0, `hindsight_client_api/api/memory_api.py`, `banks_api.py`).

Each person has a bank of their own for each agent, so nothing that one said is recalled for another. A turn
is a document, which a repeat after a crash replaces; the facts in it are worked out there, later."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp

from hermes.domain.errors import UserError
from hermes.domain.ports.memory import MemoryScope, TurnExchange
from hermes.domain.settings.settings import Profile
from hermes.domain.text import one_line

_ADDRESS = "https://api.hindsight.vectorize.io"
_TOKENS = 1_500
_LARGEST = 1 << 20
_SECONDS = aiohttp.ClientTimeout(total=20.0)


class HindsightMemory:
    def __init__(self, profile: Profile) -> None:
        chosen = profile.settings.hindsight
        key = str(chosen.api_key.reveal())
        if not key and not chosen.api_url:
            raise UserError(
                "Hindsight needs a key.",
                hint="Set HINDSIGHT_API_KEY, or your own server as hindsight.api_url.",
            )
        self._banks = f"{(chosen.api_url or _ADDRESS).rstrip('/')}/v1/default/banks"
        self._prefix = f"{chosen.bank}--{profile.agent}--"
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._session: aiohttp.ClientSession | None = None

    async def notes(self) -> Mapping[str, str]:
        return {}

    async def recall(self, words: str, scope: MemoryScope) -> str:
        asked = {"query": words[:2000], "budget": "low", "max_tokens": _TOKENS}
        found = await self._ask("POST", scope.person, "/memories/recall", asked)
        return "\n".join(f"- {fact['text']}" for fact in found.get("results", ()))

    async def learn(self, exchange: TurnExchange, scope: MemoryScope) -> None:
        item = {
            "content": f"The person: {exchange.words}\n\nThe assistant: {exchange.answer}",
            "timestamp": exchange.at.isoformat(),
            "document_id": str(exchange.turn),
            "metadata": {"session": str(scope.session)},
            "update_mode": "replace",
        }
        operation = str(uuid.uuid5(uuid.NAMESPACE_OID, str(exchange.turn)))
        await self._ask(
            "POST", scope.person, "/memories", {"items": [item], "async": True, "operation_id": operation}
        )

    async def forget(self, person: str) -> None:
        await self._ask("DELETE", person, missing=True)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _ask(
        self, method: str, person: str, route: str = "", body: object = None, *, missing: bool = False
    ) -> Mapping[str, Any]:
        """What it answers about a person's bank; where it may be `missing`, nothing if it is."""
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=_SECONDS)
        bank = quote(f"{self._prefix}{person}", safe="")
        async with self._session.request(method, f"{self._banks}/{bank}{route}", json=body) as response:
            data = await _whole(response)
            if missing and response.status == 404:
                return {}
            if response.status >= 400:
                why = one_line(data.decode("utf-8", "replace"), 200)
                raise UserError(f"Hindsight answered with {response.status}: {why}")
        answer = json.loads(data)
        return answer if isinstance(answer, dict) else {}


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """Its body, which is bounded: so much was not asked for."""
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > _LARGEST:
            raise UserError(f"Hindsight answered with more than {_LARGEST >> 20} MiB.")
    return bytes(data)
