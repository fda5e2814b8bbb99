"""Routes and the `select_agent` hook count for API clients, webhooks and jobs as they do for chats."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.ids import AgentId
from hermes.testing.api import ApiWorld
from tests.entry.http.talking import CHAT, words

SECRET = "a secret of the hook"
KEYS = {
    "phone": "another long secret 1",
    "beeonly": "another long secret 2",
    "mainonly": "another long secret 3",
}
CONFIG = f"""
platforms:
  api_server:
    keys:
      phone: {{key: {KEYS["phone"]}, scopes: [chat]}}
      beeonly: {{key: {KEYS["beeonly"]}, scopes: [chat], agents: [bee]}}
      mainonly: {{key: {KEYS["mainonly"]}, scopes: [chat], agents: [main]}}
    model_routes:
      fast: {{model: some/model}}
  webhook:
    enabled: true
    extra:
      routes:
        gh: {{secret: {SECRET}, prompt: "event {{n}}"}}
        other: {{secret: {SECRET}, prompt: "event {{n}}"}}
agents:
  bee: {{}}
  work: {{}}
routes:
  - match: {{platform: api_server, chat_id: room9}}
    agent: bee
  - match: {{platform: api_server, chat_id: room9}}
    agent: work
  - match: {{kind: api, user_id: ann, thread_id: t1}}
    agent: work
  - match: {{kind: webhook, chat_id: gh}}
    agent: bee
  - match: {{kind: job, chat_id: Mail}}
    agent: bee
  - match: {{platform: api_server, account: beeonly}}
    agent: bee
"""
HOOK = """
name: chooser
events: [select_agent]
"""
CHOOSE = """
def handle(event, context):
    text = context["text"]
    return {"agent": "work" if "@work" in text else "bee" if "@bee" in text else None}
"""


def world(folder: Path, *, hook: str = "") -> ApiWorld:
    if hook:
        place = folder / "home" / "hooks" / "chooser"
        place.mkdir(parents=True)
        (place / "HOOK.yaml").write_text(HOOK)
        (place / "handler.py").write_text(hook)
    return ApiWorld(home=folder / "home", config=CONFIG)


def by(key: str, **headers: str) -> dict[str, str]:
    named = {f"X-Hermes-{name.replace('_', '-')}": text for name, text in headers.items()}
    return {"Authorization": f"Bearer {KEYS[key]}"} | named


async def agents(api: ApiWorld) -> dict[str, int]:
    """How many sessions each agent has."""
    counts = {}
    for agent in ("main", "bee", "work"):
        store = api.app.store.scoped(AgentId(agent))
        counts[agent] = len(await store.read(lambda tx: tx.sessions.find("", 100)))
    return counts


async def agent_of(api: ApiWorld, session: str) -> str:
    for agent in ("main", "bee", "work"):
        store = api.app.store.scoped(AgentId(agent))
        if await store.read(lambda tx: tx.sessions.get(session)):  # type: ignore[arg-type]
            return agent
    raise AssertionError(f"nobody has {session}")


ASKS: dict[str, dict[str, Any]] = {
    CHAT: words("hello"),
    "/v1/responses": {"input": "hello", "model": "hermes-agent"},
    "/v1/runs": {"input": "hello"},
}


@pytest.mark.parametrize("path", ASKS)
async def test_the_first_declared_route_decides(path: str, tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        for headers, agent in (
            (by("phone", Chat_Id="room9"), "bee"),
            (by("phone", Chat_Id="room1"), "main"),
            (by("phone", User_Id="ann", Thread_Id="t1", Chat_Id="room2"), "work"),
            (by("phone"), "main"),
            (by("beeonly"), "bee"),
        ):
            for body in (ASKS[path], ASKS[path] | {"model": "fast"}):
                heard = await api.post(path, body, headers=headers)
                assert heard.status in (200, 202), heard.data
                assert await agent_of(api, _session(heard)) == agent


def _session(heard: Any) -> str:
    found = heard.headers.get("X-Hermes-Session-Id") or heard.json["session_id"]
    return str(found)


@pytest.mark.parametrize("path", ASKS)
async def test_an_agent_that_is_named_wins(path: str, tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        body = ASKS[path] | {"model": "work"}
        heard = await api.post(path, body, headers=by("phone", Chat_Id="room9"))
        assert await agent_of(api, _session(heard)) == "work"
        heard = await api.post(f"/p/work{path}", ASKS[path], headers=by("phone", Chat_Id="room9"))
        assert await agent_of(api, _session(heard)) == "work"


@pytest.mark.parametrize("path", ASKS)
async def test_a_key_never_reaches_another_agent_by_a_route(path: str, tmp_path: Path) -> None:
    async with world(tmp_path) as api:
        heard = await api.post(path, ASKS[path], headers=by("mainonly", Chat_Id="room9"))
        assert (heard.status, heard.json["error"]["code"]) == (403, "agent_not_allowed")
        # Its own agent by name is no way around the route's refusal of others.
        heard = await api.post(path, ASKS[path] | {"model": "bee"}, headers=by("mainonly"))
        assert heard.status == 404
        assert await agents(api) == {"main": 0, "bee": 0, "work": 0}


async def test_what_was_begun_stays_with_its_agent(tmp_path: Path) -> None:
    """A session, a response, a conversation, a key: named again, they are found wherever they are."""
    async with world(tmp_path) as api:
        room = by("phone", Chat_Id="room9")
        begun = await api.post(
            CHAT, words("one") | {"model": "work"}, headers=by("phone", Session_Id="notes")
        )
        assert begun.status == 200
        again = await api.post(CHAT, words("two"), headers=by("phone", Session_Id="notes", Chat_Id="room9"))
        assert again.status == 200 and await agent_of(api, "notes") == "work"
        run = await api.post("/v1/runs", {"input": "x", "session_id": "notes"}, headers=room)
        assert (run.status, run.json["session_id"]) == (202, "notes")

        first = await api.post("/v1/responses", {"input": "one"}, headers=room)
        assert await agent_of(api, _session(first)) == "bee"
        for model in ("hermes-agent", None, "bee"):
            body = {"input": "two", "model": model, "previous_response_id": first.json["id"]}
            second = await api.post("/v1/responses", body, headers=by("phone"))
            assert second.status == 200, second.data
            assert await agent_of(api, _session(second)) == "bee"
        after = {"input": "three", "previous_response_id": first.json["id"]}
        run = await api.post("/v1/runs", after, headers=by("phone"))
        assert run.status == 202 and await agent_of(api, run.json["session_id"]) == "bee"

        talk = {"input": "one", "conversation": "c1"}
        first = await api.post("/v1/responses", talk, headers=room)
        second = await api.post("/v1/responses", talk, headers=by("phone"))
        assert _session(first) == _session(second) and await agent_of(api, _session(first)) == "bee"


async def test_the_hook_decides_where_no_route_fits(tmp_path: Path) -> None:
    async with world(tmp_path, hook=CHOOSE) as api:
        for text, headers, agent in (
            ("this goes @work", by("phone"), "work"),
            ("this goes @work", by("phone", Chat_Id="room9"), "bee"),
            ("anything", by("phone"), "main"),
        ):
            heard = await api.post(CHAT, words(text), headers=headers)
            assert await agent_of(api, _session(heard)) == agent
        refused = await api.post(CHAT, words("@work"), headers=by("mainonly"))
        assert refused.status == 403
        # A repeat is the same request, whatever a hook says to it by now.
        key = by("phone") | {"Idempotency-Key": "k1"}
        one = await api.post("/v1/runs", {"input": "@bee"}, headers=key)
        (tmp_path / "home" / "hooks" / "chooser" / "handler.py").write_text(CHOOSE.replace("bee", "main"))
        two = await api.post("/v1/runs", {"input": "@bee"}, headers=key)
        assert one.json["run_id"] == two.json["run_id"]


def signed(body: bytes, delivery: str) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Hub-Signature-256": f"sha256={digest}",
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": "watch",
    }


async def send(api: ApiWorld, path: str, delivery: str, number: object = 1) -> str:
    body = json.dumps({"n": number}).encode()
    heard = await api.ask("POST", path, data=body, headers=signed(body, delivery))
    return str(heard.json["status"])


async def test_events_are_routed_and_counted_once(tmp_path: Path) -> None:
    async with world(tmp_path, hook=CHOOSE) as api:
        assert await send(api, "/webhooks/gh", "d1") == "accepted"
        assert await agents(api) == {"main": 0, "bee": 1, "work": 0}
        assert await send(api, "/webhooks/gh", "d1") == "duplicate"
        assert await send(api, "/webhooks/other", "d1", "@work") == "accepted"
        assert await agents(api) == {"main": 0, "bee": 1, "work": 1}
        assert await send(api, "/p/main/webhooks/gh", "d1") == "accepted"
        # Sent to an agent by name it is an event of its own.
        assert await send(api, "/p/work/webhooks/other", "d2") == "accepted"
        assert await send(api, "/webhooks/other", "d2") == "accepted"
        assert await agents(api) == {"main": 2, "bee": 1, "work": 2}


async def test_an_event_counts_once_whatever_a_hook_says_to_its_repeat(tmp_path: Path) -> None:
    count = tmp_path / "count"
    turnabout = f"""
from pathlib import Path
def handle(event, context):
    count = Path({str(count)!r})
    asked = len(count.read_text()) if count.exists() else 0
    count.write_text("x" * (asked + 1))
    return {{"agent": ("bee", "work", "main")[asked % 3]}}
"""
    async with world(tmp_path, hook=turnabout) as api:
        assert await send(api, "/webhooks/other", "d1") == "accepted"
        assert await send(api, "/webhooks/other", "d1") == "duplicate"
        assert sum((await agents(api)).values()) == 1


async def test_jobs_without_an_agent_are_routed_when_they_are_made(tmp_path: Path) -> None:
    async with world(tmp_path, hook=CHOOSE) as api:
        job = {"schedule": "every 2h", "prompt": "look"}
        for body, headers, agent in (
            (job | {"name": "Mail"}, by("phone"), "bee"),
            (job | {"name": "Mail", "agent": "work"}, by("phone"), "work"),
            (job, by("beeonly"), "bee"),
            (job | {"prompt": "@work"}, by("phone"), "work"),
            (job, by("phone"), "main"),
        ):
            heard = await api.post("/api/jobs", body, headers=headers)
            assert (heard.status, heard.json["job"]["agent"]) == (200, agent), heard.data
        refused = await api.post("/api/jobs", job | {"name": "Mail"}, headers=by("mainonly"))
        assert (refused.status, refused.json["error"]["code"]) == (403, "agent_not_allowed")
