"""`/health`: whether the gateway answers, and, for who may know more, how each part of it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from aiohttp import web

from hermes.domain.chats.rows import OpenWork
from hermes.domain.errors import HermesError
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import PLATFORM, HttpCall, as_json, route

LEAST_FREE = 64 * 1024 * 1024
"""Bytes on the home's disk below which the gateway is not ready: what it accepts it must be able to store."""
MOST_WAITING = 10_000
"""Messages nobody has looked at yet, beyond which more would only wait."""
_PATIENCE = 5.0


class Health(msgspec.Struct, kw_only=True):
    """That the gateway answers."""

    status: Literal["ok"] = "ok"
    platform: str
    version: str


class ReadinessCheck(msgspec.Struct, kw_only=True):
    """One thing that must be right, and what is wrong with it."""

    ok: bool
    detail: str = ""


class PlatformHealth(msgspec.Struct, kw_only=True):
    """How a platform account is: waiting, connecting, connected, retrying, parked or stopped; and when it
    last gave a sign of life, empty if it never did or needs none."""

    state: str
    detail: str
    updated_at: str
    heard_at: str = ""


class ChoreHealth(msgspec.Struct, kw_only=True):
    """Upkeep that is done every so many seconds: when it last was, and how that ended."""

    name: str
    every: float
    last_at: str | None
    outcome: str
    ok: bool


class LoopHealth(msgspec.Struct, kw_only=True):
    """A loop of the gateway that lives as long as it does: how often something in it broke since the start,
    when last and why. It goes on by itself; one that breaks time and again is not `ok`."""

    name: str
    ok: bool
    failures: int
    last_at: str | None
    why: str


class BoundaryHealth(msgspec.Struct, kw_only=True):
    """What holds whose commands in, in general or on a route: the backend (`local`: nothing does), the
    network, whether they have a folder of their own, whether a person is asked before each; or why none is
    run."""

    who: str
    route: str
    backend: str
    boundary: str
    network: str
    own_folder: bool
    ask_all: bool
    refused: str
    why: str
    remedy: str


class QueueSizes(msgspec.Struct, kw_only=True):
    """What is not done yet; turns and messages on their way by state."""

    turns: dict[str, int]
    outbox: dict[str, int]
    inbox: int
    questions: int


class DetailedHealth(msgspec.Struct, kw_only=True):
    """How each part of the gateway is. `ready` only if every check is; a gateway that is not is answered
    with 503, so that a balancer needs no more than the status."""

    status: Literal["ok", "unavailable"]
    platform: str
    version: str
    ready: bool
    checks: dict[str, ReadinessCheck]
    gateway_state: str
    gateway_busy: bool
    gateway_drainable: bool
    active_agents: int
    agents: list[str]
    model: str
    platforms: dict[str, PlatformHealth]
    chores: list[ChoreHealth]
    loops: list[LoopHealth]
    boundaries: list[BoundaryHealth]
    queues: QueueSizes | None
    open_streams: int
    uptime_seconds: float
    updated_at: str
    pid: int


@route("GET", "/health", "Whether the gateway answers.", scope=None)
async def health(call: HttpCall) -> Health:
    return Health(platform=PLATFORM, version=call.site.version)


@route("GET", "/v1/health", "The same, where clients with a base address look for it.", scope=None)
async def health_of_v1(call: HttpCall) -> Health:
    return Health(platform=PLATFORM, version=call.site.version)


@route("GET", "/health/detailed", "How each part of the gateway is.", scope=KeyScope.ADMIN, also=(503,))
async def detailed(call: HttpCall) -> DetailedHealth | web.Response:
    facts = _for_key(call, await asyncio.to_thread(call.site.facts))
    work, trouble = await _look_at_store(call, str(facts.get("store_trouble", "")))
    now = call.site.clock.now()
    checks = run_checks(facts, work, trouble)
    ready = all(check.ok for check in checks.values())
    busy = 0 if work is None else work.turns.get("running", 0)
    state = str(facts.get("gateway_state", "starting"))
    answer = DetailedHealth(
        status="ok" if ready else "unavailable",
        platform=PLATFORM,
        version=call.site.version,
        ready=ready,
        checks=checks,
        gateway_state=state,
        gateway_busy=busy > 0,
        gateway_drainable=state == "running",
        active_agents=busy,
        agents=sorted(call.agents),
        model=str(facts.get("model", "")),
        platforms=msgspec.convert(facts.get("platforms", {}), dict[str, PlatformHealth]),
        chores=msgspec.convert(facts.get("chores", []), list[ChoreHealth]),
        loops=msgspec.convert(facts.get("loops", []), list[LoopHealth]),
        boundaries=msgspec.convert(facts.get("boundaries", []), list[BoundaryHealth]),
        queues=None if work is None else msgspec.convert(work, QueueSizes, from_attributes=True),
        open_streams=len(call.site.streams),
        uptime_seconds=max(0.0, round(now.timestamp() - float(facts.get("started_at", 0)), 3)),
        updated_at=now.isoformat(),
        pid=int(facts.get("pid", 0)),
    )
    return answer if ready else as_json(answer, status=503)


def _for_key(call: HttpCall, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what names agents that the key may not see."""
    if call.principal.agents is None:
        return facts
    left_out = facts.get("agents_left_out", {}).items()
    return {
        **facts,
        "agents_left_out": {agent: why for agent, why in left_out if call.principal.sees(agent)},
        "settings_problem": facts.get("settings_problem") and "They cannot be adopted: hermes config check",
    }


async def _look_at_store(call: HttpCall, trouble: str) -> tuple[OpenWork | None, str]:
    """What is open, and what is wrong with the store that was asked for it."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await call.gateway.open_work(), trouble
    except TimeoutError:
        return None, f"no answer within {_PATIENCE:g} s"
    except HermesError as error:
        return None, str(error)


def run_checks(facts: Mapping[str, Any], work: OpenWork | None, trouble: str) -> dict[str, ReadinessCheck]:
    """Whether the gateway is ready for more, one check a part."""
    free = int(facts.get("disk_free_bytes", 0))
    problems = int(facts.get("config_problems", 0))
    config = f"{problems} problems: hermes config check" if problems else ""
    config = str(facts.get("settings_problem", "")) or config
    left_out = [f"{agent}: {why}" for agent, why in facts.get("agents_left_out", {}).items()]
    state = str(facts.get("gateway_state", "starting"))
    waiting = 0 if work is None else work.inbox
    broken = [f"{loop['name']}: {loop['why']}" for loop in facts.get("loops", ()) if not loop["ok"]]
    return {
        "state_db": ReadinessCheck(ok=not trouble, detail=trouble),
        # A mistake in the settings stops nothing, and so does not make the gateway unready.
        "config": ReadinessCheck(ok=True, detail=config),
        "agents": ReadinessCheck(ok=True, detail="; ".join(left_out)),
        "model": ReadinessCheck(ok=bool(facts.get("model")), detail=str(facts.get("model_why", ""))),
        "disk": ReadinessCheck(ok=free >= LEAST_FREE, detail=f"{free // (1024 * 1024)} MB free"),
        "gateway": ReadinessCheck(ok=state == "running", detail=state),
        "loops": ReadinessCheck(ok=not broken, detail="; ".join(broken)),
        "background_queues": ReadinessCheck(ok=waiting <= MOST_WAITING, detail=f"{waiting} messages wait"),
    }
