"""An agent that `hermes config apply` took away: what it left can be seen, stopped and deleted, and stands in
nobody's way. Keys that are limited to some agents hear of no others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes.control.gateway import Gateway
from hermes.control.sessions.callers import wake_session
from hermes.control.sessions.repeats import SubmittedTurn
from hermes.control.sessions.submission import Submission
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.agent import ModelRequest
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.tools import world_tools

LIMITED = {"Authorization": "Bearer another long secret 1"}
KEYS = """
gateway:
  watch_config: true
platforms:
  api_server:
    keys:
      some: {key: another long secret 1, scopes: [chat, sessions, admin], agents: [main]}
"""
WITH = "agents:\n  zebra: {}\n" + KEYS


async def nothing(tool: str, key: str, token: str) -> None:
    return


def world(folder: Path, hold: asyncio.Event) -> ApiWorld:
    def script(request: ModelRequest) -> Say:
        words = last_words(request)
        if words.startswith("danger") and type(request.entries[-1].record).__name__ == "UserSaid":
            return call("danger", '{"token": "x"}')
        return Say(text="I am thinking about it", hold=hold) if words == "wait" else say("fine")

    model = ScriptedModel(script)
    return ApiWorld(home=folder / "home", provider=model, config=WITH, tools=tuple(world_tools(nothing)))


async def begin(api: ApiWorld, text: str, session: str, model: str = "zebra") -> str:
    heard = await api.post("/v1/runs", {"input": text, "session_id": session, "model": model})
    assert heard.status == 202, heard.data
    ident: str = heard.json["run_id"]
    return ident


async def status(api: ApiWorld, run: str) -> str:
    heard = await api.get(f"/v1/runs/{run}")
    assert heard.status == 200, heard.data
    state: str = heard.json["status"]
    return state


async def until(what: Callable[[], Awaitable[Any]], wanted: object) -> None:
    end = time.monotonic() + 30
    while (seen := await what()) != wanted:
        assert time.monotonic() < end, f"it stayed {seen}"
        await asyncio.sleep(0.02)


async def apply(api: ApiWorld, config: str) -> None:
    """Save the file, which is watched."""
    before = await generation(api)
    (api.home / "config.yaml").write_text(config)
    await until(lambda: generation(api), before + 1)


async def generation(api: ApiWorld) -> int:
    return api.app._live.generation


async def test_what_an_agent_left_can_be_seen_stopped_and_deleted(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with world(tmp_path, hold) as api:
        done = await begin(api, "hello", "said")
        await until(lambda: status(api, done), "completed")
        asks = await begin(api, "danger", "asked")
        await until(lambda: status(api, asks), "waiting_for_approval")
        runs = await begin(api, "wait", "held")
        await until(lambda: status(api, runs), "running")
        here = await begin(api, "hello", "here", "hermes-agent")
        await apply(api, KEYS)
        listed = await api.get("/v1/runs")
        assert listed.status == 200, listed.data
        assert {one["run_id"] for one in listed.json["data"]} == {done, asks, runs, here}
        for run in (asks, runs):
            assert (await api.post(f"/v1/runs/{run}/stop", {})).status == 200
            await until(lambda run=run: status(api, run), "cancelled")  # type: ignore[misc]
        for session in ("said", "asked", "held"):
            assert (await api.ask("DELETE", f"/api/sessions/{session}")).status == 200
        listed = await api.get("/v1/runs")
        assert [one["run_id"] for one in listed.json["data"]] == [here]
        assert (await api.post("/v1/runs", {"input": "x", "model": "zebra"})).status == 404


async def test_nobody_waits_for_turns_of_an_agent_that_went(tmp_path: Path) -> None:
    """What it is doing comes to its end; what was accepted just before it went is refused with the reason,
    whether it stands behind that, comes a moment later, or was found at the next start."""
    hold = asyncio.Event()
    async with world(tmp_path, hold) as api:
        runs = await begin(api, "wait", "held")
        await until(lambda: status(api, runs), "running")
        behind = await begin(api, "hello", "held")
        gateway = api.app.gateway
        await apply(api, KEYS)
        hold.set()
        await until(lambda: status(api, runs), "completed")
        await until(lambda: status(api, behind), "failed")
        failed = (await api.get(f"/v1/runs/{behind}")).json
        assert "There is no agent “zebra”." in str(failed) and "Known" not in str(failed), failed
        session, store = SessionId("held"), gateway._parts.store.scoped(AgentId("zebra"))
        ways: tuple[Callable[[], None], ...] = (
            lambda: gateway.actors.ring(AgentId("zebra"), session),
            lambda: gateway.actors.begin(2),
        )
        for find in ways:
            late = await store.write(lambda tx: wake_session(tx, session, "hello", datetime.now(UTC)))
            assert late is not None
            find()
            async with asyncio.timeout(30):
                ended = [item async for item in gateway.watch(late.agent, late.id)]
            assert "There is no agent" in str(ended[-1]), ended


async def test_an_agent_that_goes_while_it_is_asked_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, asyncio.Event()) as api:
        ask = Gateway.ask

        async def ask_late(gateway: Gateway, words: Submission) -> SubmittedTurn:
            await apply(api, KEYS)
            return await ask(gateway, words)

        monkeypatch.setattr(Gateway, "ask", ask_late)
        heard = await api.post("/v1/runs", {"input": "x", "model": "zebra"})
        assert (heard.status, heard.json["error"]["code"]) == (404, "model_not_found"), heard.data


async def test_a_question_of_an_agent_that_went_cannot_be_answered(tmp_path: Path) -> None:
    async with world(tmp_path, asyncio.Event()) as api:
        asks = await begin(api, "danger", "asked")
        await until(lambda: status(api, asks), "waiting_for_approval")
        [question] = (await api.get("/v1/questions")).json["data"]
        await apply(api, KEYS)
        heard = await api.post(f"/v1/questions/{question['id']}", {"choice": "once"})
        assert (heard.status, heard.json["error"]["code"]) == (409, "agent_gone"), heard.data
        assert (await api.post(f"/v1/runs/{asks}/stop", {})).status == 200


async def test_a_waiting_turn_of_an_agent_that_went_is_deleted_with_its_session(tmp_path: Path) -> None:
    async with world(tmp_path, asyncio.Event()) as api:
        asks = await begin(api, "danger", "asked")
        await until(lambda: status(api, asks), "waiting_for_approval")
        await apply(api, KEYS)
        assert (await api.ask("DELETE", "/api/sessions/asked")).status == 200
        assert (await api.get(f"/v1/runs/{asks}")).status == 404
        assert (await api.get("/v1/questions")).json["data"] == []


async def test_a_limited_key_hears_of_no_other_agent(tmp_path: Path) -> None:
    async with world(tmp_path, asyncio.Event()) as api:
        assert (await api.get("/p/zebra/v1/models")).status == 200
        run = await begin(api, "hi", "z")
        await until(lambda: status(api, run), "completed")
        (api.home / "agents" / "zebra" / ".env").write_text("TELEGRAM_BOT_TOKEN=123:abc\n")
        await apply(api, WITH + "timezone: Europe/Vienna\n")
        await api.post("/v1/runs", {"input": "hello", "model": "zebra"})  # it cannot be built any more
        wide = await api.get("/health/detailed")
        assert "zebra" in wide.json["checks"]["agents"]["detail"]
        for path in ("/health/detailed", "/metrics", "/v1/runs", "/v1/models", "/v1/toolsets"):
            heard = await api.get(path, headers=LIMITED)
            assert heard.status == 200 and b"zebra" not in heard.data, path
