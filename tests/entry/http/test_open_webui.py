"""What Open WebUI sends, by its recorded shapes: chats as streams, and tasks of its own (titles, tags,
follow-ups) that it has the model do beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.tools import world_tools

PATH = "/v1/chat/completions"
CHAT = {"X-Hermes-Chat-Id": "0f3a1c6e-7a41-4d37-9f43-0b6f1b6f9a55"}
"""What a connection sends whose headers name {{CHAT_ID}}."""
HISTORY = "### Chat History:\n<chat_history>\nUSER: hi\n</chat_history>"
TITLE = f"### Task:\nGenerate a title of 3-5 words.\n### Output:\nJSON format.\n{HISTORY}"
TAGS = f"### Task:\nGenerate 1-3 broad tags.\n### Output:\nJSON format.\n{HISTORY}"
FOLLOW_UPS = f"### Task:\nSuggest 3-5 follow-up questions.\n{HISTORY}"


@dataclass
class World:
    requests: list[ModelRequest] = field(default_factory=list)

    async def act(self, tool: str, key: str, token: str) -> None:
        pass

    def script(self, request: ModelRequest) -> Say:
        self.requests.append(request)
        words = last_words(request)
        if words.startswith("### Task"):
            return say('{"title": "A greeting"}')
        done = isinstance(request.entries[-1].record, ToolFinished)
        return call("read", '{"token": "x"}') if words == "look" and not done else say(f"You said: {words}")

    def api(self, home: Path) -> ApiWorld:
        tools = tuple(world_tools(self.act))
        return ApiWorld(home=home, provider=ScriptedModel(self.script), tools=tools)


@pytest.fixture
def world() -> World:
    return World()


def chat_body(*words: str) -> dict[str, Any]:
    """A chat as it comes: the system prompt and the whole history each time, and usage is asked for."""
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(words)]
    return {
        "model": "hermes-agent",
        "messages": [{"role": "system", "content": "User context: Ann"}, *messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
    }


def task_body(prompt: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "hermes-agent:task",
        "messages": [{"role": "user", "content": prompt}],
        "stream": False,
        **more,
    }


async def read_stream(api: ApiWorld, body: dict[str, Any], **options: Any) -> str:
    """As Open WebUI reads a stream: every line of data is a chunk, whatever its event is called."""
    words, usage = "", None
    heard = await api.post(PATH, body, **options)
    assert heard.status == 200, heard.data
    lines = [line.removeprefix("data: ") for line in heard.data.decode().splitlines() if line[:5] == "data:"]
    assert lines.pop() == "[DONE]"
    for line in lines:
        chunk = json.loads(line)
        assert "error" not in chunk, chunk
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            words += choice["delta"].get("content") or ""
    assert usage is not None
    assert usage["total_tokens"] > 0
    return words


async def test_a_chat_with_an_agent_that_uses_tools(tmp_path: Path, world: World) -> None:
    async with world.api(tmp_path / "home") as api:
        assert await read_stream(api, chat_body("hi")) == "You said: hi"
        again = chat_body("hi", "You said: hi", "look")
        assert await read_stream(api, again) == "You said: look"
        assert [earlier.text for earlier in world.requests[-1].history] == ["hi", "You said: hi"]
        assert "User context: Ann" in world.requests[-1].system
        assert world.requests[-1].options.temperature == 0.7


@pytest.mark.parametrize(
    "body",
    [
        task_body(TITLE, max_completion_tokens=1000),
        task_body(TAGS),
        task_body(FOLLOW_UPS),
    ],
    ids=["title", "tags", "follow-ups"],
)
async def test_a_task_beside_a_chat(tmp_path: Path, world: World, body: dict[str, Any]) -> None:
    """A task costs one call of the model, without tools, and stays out of the chat's session."""
    async with world.api(tmp_path / "home") as api:
        assert await read_stream(api, chat_body("hi"), headers=CHAT) == "You said: hi"
        told = (await api.post(PATH, body, headers=CHAT)).json
        assert json.loads(told["choices"][0]["message"]["content"]) == {"title": "A greeting"}
        assert (told["model"], world.requests[-1].tools) == ("hermes-agent:task", ())
        assert world.requests[-1].options.max_tokens == body.get("max_completion_tokens")
        again = chat_body("hi", "You said: hi", "again")
        assert await read_stream(api, again, headers=CHAT) == "You said: again"
        records = [entry.record for entry in world.requests[-1].entries]
        said = [record.text for record in records if isinstance(record, UserSaid)]
        assert said == ["hi", "again"], "the chat is one session, without the task"
        assert world.requests[-1].history == ()
