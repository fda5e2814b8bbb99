"""What a model's service wants back with a reply goes back there, also after a restart, and nowhere else."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from hermes.testing.api import ApiWorld
from hermes.testing.model_script import ModelRequest, Reply
from hermes.testing.model_server import FakeModelServer

SEAL = "c2VhbGVkLXRob3VnaHRz"
DETAILS = ({"type": "reasoning.encrypted", "data": SEAL, "index": 0},)
QUIET = {"HERMES_NO_PROBE": "1"}


def living(home: Path, server: FakeModelServer, model: str) -> ApiWorld:
    config = f"model: {{default: {model}, base_url: '{server.base_url}'}}\n"
    return ApiWorld(home=home, config=config, provider=None, environ=QUIET)


def brought_back(request: ModelRequest) -> list[object]:
    """What came back with each reply of the model."""
    return [said.get("reasoning_details") for said in request.messages if said["role"] == "assistant"]


async def talk(api: ApiWorld, words: str) -> str:
    said = {"model": "hermes-agent", "messages": [{"role": "user", "content": words}]}
    answer = await api.post("/v1/chat/completions", said, headers={"X-Hermes-Session-Id": "s1"})
    assert answer.status == 200, answer.json
    streamed = await api.post(
        "/v1/chat/completions", {**said, "stream": True}, headers={"X-Hermes-Session-Id": "s1"}
    )
    told = await api.get("/api/sessions/s1/messages")
    return f"{answer.json} {streamed.data!r} {told.json} {(await api.get('/api/sessions')).json}"


async def test_it_goes_back_to_the_same_model_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    async with FakeModelServer(lambda request: Reply(text="ok", details=DETAILS)) as server:
        with caplog.at_level(logging.DEBUG, logger="hermes"):
            async with living(home, server, "first") as api:
                shown = await talk(api, "hello")
            assert brought_back(server.requests[-1]) == [list(DETAILS)]
            async with living(home, server, "first") as api:
                shown += await talk(api, "after a restart")
            assert brought_back(server.requests[-1]) == [list(DETAILS)] * 3
            async with living(home, server, "second") as api:
                shown += await talk(api, "another model")
            assert brought_back(server.requests[-1]) == [None, None, None, None, list(DETAILS)]
            async with living(home, server, "first") as api:
                shown += await talk(api, "the first again")
            assert brought_back(server.requests[-1])[:4] == [list(DETAILS)] * 4
    assert SEAL not in shown and SEAL not in caplog.text
    logs = [path for path in home.rglob("*") if path.is_file() and path.suffix in (".jsonl", ".json", ".log")]
    assert logs and not [path for path in logs if SEAL in path.read_text("utf-8", "replace")]
    assert json.dumps(DETAILS[0])[1:-1] not in shown
