"""A database that cannot be written: whoever asks for a change is told so at once, with 503 and when to come
again; nothing of it happens later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes.domain.ports.agent import ModelRequest
from hermes.entry.http.site.endpoint import ROUTES, shown_path
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.tools import world_tools

PATIENCE = 60.0
FAULTS = {
    "a read-only file system": apsw.ReadOnlyError("attempt to write a readonly database"),
    "a full disk": apsw.FullError("database or disk is full"),
    "a broken disk": apsw.IOError("disk I/O error"),
}


def _script(request: ModelRequest) -> Say:
    if last_words(request).startswith("danger") and type(request.entries[-1].record).__name__ == "UserSaid":
        return call("danger", '{"token": "x"}')
    return say("Done.")


async def _act(tool: str, key: str, token: str) -> None:
    """Nothing."""


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    config = "platforms:\n  webhook:\n    routes:\n      build: {secret: INSECURE_NO_AUTH, prompt: look}\n"
    tools = world_tools(_act)
    async with ApiWorld(
        home=tmp_path / "home", provider=ScriptedModel(_script), tools=tools, config=config
    ) as world:
        yield world


async def _run_that_waits(api: ApiWorld) -> str:
    run: str = (await api.post("/v1/runs", {"input": "danger"})).json["run_id"]
    for _ in range(6000):
        if (await api.get(f"/v1/runs/{run}")).json["status"] == "waiting_for_approval":
            return run
        await asyncio.sleep(0.01)
    raise AssertionError("it never asked")


async def _things(api: ApiWorld) -> tuple[int, int]:
    """How many sessions and jobs there are."""
    sessions = await api.app.store.read(lambda tx: tx.sessions.find("", 100))
    return len(sessions), len((await api.get("/api/jobs")).json["jobs"])


async def _calls(api: ApiWorld) -> dict[tuple[str, str], tuple[str, dict[str, Any] | None]]:
    """Each route that changes something: the address and the body of a call that would be taken."""
    session = (await api.post("/api/sessions", {})).json["id"]
    job = (await api.post("/api/jobs", {"schedule": "every 1h", "prompt": "look"})).json["job"]["id"]
    response = (await api.post("/v1/responses", {"input": "hello"})).json["id"]
    run = await _run_that_waits(api)
    words = {"messages": [{"role": "user", "content": "hello"}]}
    return {
        ("POST", "/v1/runs"): ("/v1/runs", {"input": "hello"}),
        ("POST", "/v1/runs/{run_id}/approval"): (f"/v1/runs/{run}/approval", {"choice": "once"}),
        ("POST", "/v1/runs/{run_id}/stop"): (f"/v1/runs/{run}/stop", None),
        ("POST", "/v1/chat/completions"): ("/v1/chat/completions", words),
        ("POST", "/v1/responses"): ("/v1/responses", {"input": "hello"}),
        ("DELETE", "/v1/responses/{response_id}"): (f"/v1/responses/{response}", None),
        ("POST", "/api/sessions"): ("/api/sessions", {}),
        ("PATCH", "/api/sessions/{session_id}"): (f"/api/sessions/{session}", {"title": "new"}),
        ("DELETE", "/api/sessions/{session_id}"): (f"/api/sessions/{session}", None),
        ("POST", "/api/sessions/{session_id}/fork"): (f"/api/sessions/{session}/fork", {}),
        ("POST", "/api/sessions/{session_id}/chat"): (f"/api/sessions/{session}/chat", {"message": "x"}),
        ("POST", "/api/sessions/{session_id}/chat/stream"): (
            f"/api/sessions/{session}/chat/stream",
            {"message": "x"},
        ),
        ("POST", "/api/jobs"): ("/api/jobs", {"schedule": "every 1h", "prompt": "look"}),
        ("PATCH", "/api/jobs/{id}"): (f"/api/jobs/{job}", {"prompt": "other"}),
        ("DELETE", "/api/jobs/{id}"): (f"/api/jobs/{job}", None),
        ("POST", "/api/jobs/{id}/pause"): (f"/api/jobs/{job}/pause", None),
        ("POST", "/api/jobs/{id}/resume"): (f"/api/jobs/{job}/resume", None),
        ("POST", "/api/jobs/{id}/run"): (f"/api/jobs/{job}/run", None),
        ("POST", "/webhooks/{route}"): ("/webhooks/build", {"a": 1}),
    }


ALIKE = {
    ("POST", "/p/{agent}/webhooks/{route}"): "as the route without an agent",
    ("POST", "/v1/questions/{question}"): "as an approval",
    ("POST", "/v1/runs/{run_id}/clarify"): "as an approval",
    ("POST", "/v1/responses/{response_id}/cancel"): "as the stop of a run",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_change_is_refused_at_once(
    fault: str, api: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = await _calls(api)
    changing = {(route.method, shown_path(route)) for route in ROUTES if route.method != "GET"}
    assert changing == {*calls, *ALIKE}
    before = await _things(api)
    monkeypatch.setattr(api.app.store, "_commit", lambda batch: FAULTS[fault])
    try:
        for (method, path), (address, body) in calls.items():
            async with asyncio.timeout(PATIENCE):
                heard: Heard = await api.ask(method, address, json=body)
            assert (heard.status, path) == (503, path), heard.data
            assert int(heard.headers["Retry-After"]) >= 1
            assert "nothing can be stored" in heard.json["error"]["message"]
    finally:
        monkeypatch.undo()
    for (method, _), (address, body) in calls.items():
        if method == "PATCH":
            assert (await api.ask(method, address, json=body)).status == 200, "it goes on by itself"
    assert await _things(api) == before, "what was refused never happens"


async def test_what_runs_on_a_damaged_file_can_be_stopped_and_answered(api: ApiWorld) -> None:
    """Nothing new is taken, but what ends something is still written."""
    stopped, allowed = [await _run_that_waits(api) for _ in range(2)]
    api.app.store._note_damage("a page is spoilt")
    assert (await api.post("/v1/runs", {"input": "hello"})).status == 503
    assert (await api.post(f"/v1/runs/{stopped}/stop", None)).status == 200
    assert (await api.post(f"/v1/runs/{allowed}/approval", {"choice": "once"})).status == 200
    for run, end in ((stopped, "cancelled"), (allowed, "completed")):
        async with asyncio.timeout(PATIENCE):
            while (status := (await api.get(f"/v1/runs/{run}")).json["status"]) != end:
                assert status not in ("failed", "completed", "cancelled")
                await asyncio.sleep(0.01)
