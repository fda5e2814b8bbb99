"""A program talks over HTTP: a chat in a named session, a chain of responses, a run that needs an approval;
it tries again under the same key whenever the gateway is gone, and everything happens once."""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel, echo
from hermes.testing.tools import world_tools
from tests.acceptance.cut_api import cut_everywhere
from tests.acceptance.telling import comes, obeys

DONE: dict[Path, list[str]] = defaultdict(list)


def make(folder: Path) -> ApiWorld:
    async def act(tool: str, key: str, token: str) -> None:
        DONE[folder].append(token)

    return ApiWorld(home=folder / "home", provider=ScriptedModel(obeys), tools=tuple(world_tools(act)))


def key(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


async def chat(api: ApiWorld, words: str, name: str) -> str:
    body = {"model": "main", "messages": [{"role": "user", "content": words}]}
    heard = await api.post(
        "/v1/chat/completions", body, headers=key(name) | {"X-Hermes-Session-Id": "project"}
    )
    assert heard.status == 200, heard.data
    text: str = heard.json["choices"][0]["message"]["content"]
    return text


async def state(api: ApiWorld, run: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await api.get(f"/v1/runs/{run}")).json
    return shown


async def becomes(api: ApiWorld, run: str, *states: str) -> str:
    async def there() -> bool:
        return str((await state(api, run))["status"]) in states

    await comes(there)
    return str((await state(api, run))["status"])


async def talk(api: ApiWorld) -> None:
    assert await chat(api, "hello", "one") == "answer to hello"
    begun = await api.post("/v1/runs", {"input": "do x"}, headers=key("run"))
    assert begun.status in (200, 202), begun.data
    run = begun.json["run_id"]
    if await becomes(api, run, "waiting_for_approval", "completed") == "waiting_for_approval":
        await api.post(f"/v1/runs/{run}/approval", {"choice": "once"})
    assert await becomes(api, run, "completed") == "completed"
    assert DONE[api.home.parent] in ([], ["x"]), "never twice; not at all only where a crash left it unknown"
    sessions = await api.app.store.read(lambda tx: tx.sessions.find(""))
    journals = [await api.app.store.read(lambda tx, one=one: tx.journal.read(one.id)) for one in sessions]  # type: ignore[misc]
    said = [type(entry.record).__name__ for one in journals for entry in one]
    assert said.count("UserSaid") == 2 and said.count("Finished") == 2, "each request is one turn"


async def test_a_chat_and_a_run_with_an_approval(tmp_path: Path) -> None:
    async with make(tmp_path) as api:
        await talk(api)
        assert DONE[tmp_path] == ["x"]
        await talk(api)
        assert DONE[tmp_path] == ["x"], "the same keys are the same requests"


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, make, talk, after=after, full=full)


async def test_a_chain_a_stop_and_what_is_refused(tmp_path: Path) -> None:
    api = ApiWorld(home=tmp_path / "home", provider=ScriptedModel(echo))
    async with api:
        first = (await api.post("/v1/responses", {"model": "main", "input": "one"})).json
        again = {"model": "main", "input": "two", "previous_response_id": first["id"]}
        assert (await api.post("/v1/responses", again)).json["status"] == "completed"
        body = {"model": "main", "messages": [{"role": "user", "content": "hi"}]}
        assert (await api.post("/v1/chat/completions", body, headers={"Authorization": "x"})).status == 401
        assert (await api.post("/v1/chat/completions", {"messages": []})).status == 400
        large = {"data": io.BytesIO(b"x" * 11_000_000), "headers": {"Content-Type": "application/json"}}
        assert (await api.ask("POST", "/v1/chat/completions", **large)).status == 413
        names = [event.data async for event in api.events("/v1/chat/completions", body | {"stream": True})]
        assert names[-1] == "[DONE]" and any("You said: hi" in name for name in names)
