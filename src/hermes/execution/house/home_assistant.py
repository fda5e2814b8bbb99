"""Home Assistant as a `House`: one WebSocket for each look or action. Which entities are exposed is asked
each time, so what the owner takes away in Home Assistant is away at once. An answer that cannot be read
exposes none."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import aiohttp

from hermes.domain.errors import UserError
from hermes.domain.ports.house import HouseEntity
from hermes.domain.text import one_line, trouble_told

T = TypeVar("T")
Ask = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Asks one thing."""
_SECONDS = 20.0
_MOST_BYTES = 32 * 1024 * 1024
_SETTLES_SECONDS = 0.5
_SERVICE = re.compile(r"[a-z0-9_]{1,64}", re.ASCII)
_ASSISTANT = "conversation"
"""Entities are exposed to voice assistants, of which this is the house's own (Assist)."""


class HomeAssistantHouse:
    """`address` and `token` tell what counts now."""

    def __init__(self, address: Callable[[], str], token: Callable[[], str]) -> None:
        self._address = address
        self._token = token

    async def entities(self) -> Sequence[HouseEntity]:
        return await self._talk(_exposed)

    async def act(self, entity: str, service: str, data: Mapping[str, Any]) -> HouseEntity:
        if not _SERVICE.fullmatch(service):
            raise UserError(f"“{one_line(service, 60)}” is no service; one is like turn_on.")

        async def work(ask: Ask) -> HouseEntity:
            meant = _find(await _exposed(ask), entity)
            target = {"target": {"entity_id": meant.id}, "service_data": dict(data)}
            await ask({"type": "call_service", "domain": meant.domain, "service": service, **target})
            await asyncio.sleep(_SETTLES_SECONDS)
            return _find(await _exposed(ask), entity)

        return await self._talk(work)

    async def _talk(self, work: Callable[[Ask], Awaitable[T]]) -> T:
        """Log in, and let the work ask what it needs."""
        url = f"{self._address().rstrip('/')}/api/websocket"
        try:
            async with (
                asyncio.timeout(_SECONDS),
                aiohttp.ClientSession() as session,
                session.ws_connect(url, max_msg_size=_MOST_BYTES) as socket,
            ):
                await socket.receive_json()
                await socket.send_json({"type": "auth", "access_token": self._token()})
                if (await socket.receive_json()).get("type") != "auth_ok":
                    raise UserError("Home Assistant does not take the token (HASS_TOKEN).")
                numbers = count(1)
                return await work(lambda asked: _answer(socket, {"id": next(numbers), **asked}))
        except (aiohttp.ClientError, TimeoutError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise UserError(f"Home Assistant cannot be reached ({trouble_told(error)}).") from None


async def _answer(socket: aiohttp.ClientWebSocketResponse, asked: Mapping[str, Any]) -> Any:
    await socket.send_json(asked)
    answer = await socket.receive_json()
    if answer.get("success") is not True:
        why = one_line(str((answer.get("error") or {}).get("message")), 200)
        raise UserError(f"Home Assistant refuses it: {why}")
    return answer.get("result")


async def _exposed(ask: Ask) -> list[HouseEntity]:
    listed = (await ask({"type": "homeassistant/expose_entity/list"}))["exposed_entities"]
    states = await ask({"type": "get_states"})
    return [
        HouseEntity(
            id=state["entity_id"],
            name=str(state["attributes"].get("friendly_name") or state["entity_id"]),
            state=str(state["state"]),
            attributes=state["attributes"],
        )
        for state in states
        if isinstance(listed.get(state["entity_id"]), dict)
        and listed[state["entity_id"]].get(_ASSISTANT) is True
    ]


def _find(entities: Sequence[HouseEntity], entity: str) -> HouseEntity:
    for known in entities:
        if known.id == entity:
            return known
    name = one_line(entity, 80)
    raise UserError(
        f"“{name}” is not there, or not exposed (Home Assistant: Settings → Voice assistants → Expose)."
    )
