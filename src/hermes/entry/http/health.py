"""`/health`: whether the gateway answers, and, for who may know more, how each part of it is."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes.entry.http.door import PLATFORM, Call, route


class Health(msgspec.Struct, kw_only=True):
    status: str
    platform: str
    version: str


class DetailedHealth(Health, kw_only=True):
    """`facts` is what the gateway says of itself: its state, platforms, model, process."""

    gateway_state: str
    open_streams: int
    running_turns: int
    facts: dict[str, Any]


@route("GET", "/health", "Whether the gateway answers.", scope=None)
async def health(call: Call) -> Health:
    return _health(call)


def _health(call: Call) -> Health:
    return Health(status="ok", platform=PLATFORM, version=call.door.version)


@route("GET", "/v1/health", "The same, where clients with a base address look for it.", scope=None)
async def health_of_v1(call: Call) -> Health:
    return _health(call)


@route("GET", "/health/detailed", "How each part of the gateway is.")
async def detailed(call: Call) -> DetailedHealth:
    facts = dict(call.door.facts())
    return DetailedHealth(
        status="ok",
        platform=PLATFORM,
        version=call.door.version,
        gateway_state=str(facts.get("gateway_state", "running")),
        open_streams=len(call.door.streams),
        running_turns=len(call.door.gateway.feeds),
        facts=facts,
    )
