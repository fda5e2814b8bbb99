"""A conversation with a tool in each wire format, over a restart: what the service sealed is on disk and
comes back, and the beginning of the prompt stays the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, CODEX_RESPONSES
from hermes.domain.models.usage import Usage
from hermes.testing.api import ApiWorld
from hermes.testing.model_script import Call, ModelRequest, Reply
from hermes.testing.model_server import FakeModelServer

SEAL = {"type": "reasoning.encrypted", "data": "c2VhbGVk", "index": 0}
PLAN = '{"todos": [{"id": "1", "content": "count", "status": "pending"}]}'
USED = Usage(prompt=5000, completion=10, cached=10)


def answer(request: ModelRequest) -> Reply:
    if request.messages[-1]["role"] == "tool":
        return Reply(text="Planned.", usage=USED)
    if "plan" in request.last_user_message:
        return Reply(text="Let me see.", calls=(Call(id="c1", name="todo", arguments=PLAN),), details=(SEAL,))
    return Reply(text="You are welcome.", usage=USED)


def living(home: Path, server: FakeModelServer, name: str) -> ApiWorld:
    model = f"model: {{default: claude-opus-5, base_url: '{server.base_url}', api_mode: {name}}}\n"
    return ApiWorld(home=home, config=model, provider=None, accounts={}, environ={"HERMES_NO_PROBE": "1"})


async def say(api: ApiWorld, words: str) -> str:
    body = {"model": "hermes-agent", "messages": [{"role": "user", "content": words}]}
    heard = await api.post("/v1/chat/completions", body, headers={"X-Hermes-Session-Id": "talk"})
    assert heard.status == 200, heard.json
    text: str = heard.json["choices"][0]["message"]["content"]
    return text


def told(request: ModelRequest) -> list[dict[str, Any]]:
    return [message for message in request.messages if message["role"] != "system"]


@pytest.mark.parametrize("name", [CHAT_COMPLETIONS, CODEX_RESPONSES, ANTHROPIC_MESSAGES])
async def test_a_conversation_goes_on_after_a_restart(name: str, tmp_path: Path) -> None:
    async with FakeModelServer(answer) as server:
        async with living(tmp_path / "home", server, name) as api:
            assert "Planned." in await say(api, "make a plan")
        async with living(tmp_path / "home", server, name) as api:
            assert "welcome" in await say(api, "thanks")
        first, second, third = server.requests
        assert told(second)[: len(told(first))] == told(first)
        assert told(third)[: len(told(second))] == told(second), "the prefix changed with the restart"
        reply = told(third)[1]
        assert reply["reasoning_details"] == [SEAL] and reply["tool_calls"][0]["id"] == "c1"
        assert [message["role"] for message in told(third)] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
        ]
