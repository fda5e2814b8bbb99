"""Honcho as a memory provider (`memory.provider: honcho`), through its own SDK (`honcho-ai` 2.7).

Each person is a peer for each agent, so what one agent learned of somebody is not another's; the agent is a
peer, too. A session of ours is a session there. Ids there take letters, digits, `_` and `-` alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes.domain.errors import UserError
from hermes.domain.ports.memory import MemoryScope, TurnExchange
from hermes.domain.settings.settings import Profile

_CONCLUSIONS = 20
_SECONDS = 20.0


class HonchoMemory:
    def __init__(self, profile: Profile) -> None:
        try:
            from honcho import Honcho
        except ImportError as error:
            raise UserError(
                "Honcho needs its package, which is not installed.", hint="Run: hermes memory setup honcho"
            ) from error
        chosen = profile.settings.honcho
        if not chosen.api_key and not chosen.base_url:
            raise UserError(
                "Honcho needs a key.",
                hint="Set HONCHO_API_KEY, or your own server as honcho.base_url.",
            )
        self._agent = _id(profile.agent)
        self._client: Any = Honcho(
            api_key=str(chosen.api_key.reveal()) or None,
            base_url=chosen.base_url or None,
            workspace_id=chosen.workspace,
            timeout=_SECONDS,
            max_retries=1,
        )

    async def notes(self) -> Mapping[str, str]:
        return {}

    async def recall(self, words: str, scope: MemoryScope) -> str:
        peer = await self._client.aio.peer(self._peer(scope.person))
        known = await peer.aio.context(search_query=words[:2000], max_conclusions=_CONCLUSIONS)
        return "\n".join(filter(None, (*(known.peer_card or ()), known.representation)))

    async def learn(self, exchange: TurnExchange, scope: MemoryScope) -> None:
        person = await self._client.aio.peer(self._peer(scope.person))
        agent = await self._client.aio.peer(self._agent)
        session = await self._client.aio.session(_id(scope.session), peers=[person, agent])
        mark: dict[str, object] = {"turn": str(exchange.turn)}
        told = await session.aio.messages(filters={"metadata": mark})
        if told.items:
            return  # before a crash
        at = exchange.at
        said = person.message(exchange.words, metadata=mark, created_at=at)
        await session.aio.add_messages([said, agent.message(exchange.answer, metadata=mark, created_at=at)])

    async def forget(self, person: str) -> None:
        """Its sessions are deleted, with what others said in them, and what is concluded and kept of it."""
        peer = await self._client.aio.peer(self._peer(person))
        while (page := await peer.aio.sessions()).items:
            for session in page.items:
                await session.aio.delete()
        await peer.aio.set_card([])

    async def close(self) -> None:
        await self._client._async_http_client.close()

    def _peer(self, person: str) -> str:
        return f"{self._agent}--{_id(person)}"


def _id(name: str) -> str:
    """One to one, so that nobody gets another's."""
    return "".join(char if char.isascii() and char.isalnum() else f"_{ord(char):x}_" for char in name)
