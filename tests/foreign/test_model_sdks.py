"""The official SDKs of Anthropic and OpenAI judge our fake model server first: what they understand is what
the wire formats of Hermes are tested against. Streams and whole answers say the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats import load_format
from hermes.domain.ids import CallId
from hermes.domain.tools.deferral import TOOL_SEARCH, bridge_tools
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Kept, ModelSaid, ToolFinished
from hermes.domain.word import replace
from hermes.testing.provider_suite import A_TOOL, ask
from tests.foreign.environments import ROOT, python_of
from tests.foreign.test_foreign_clients import CLIENTS, _heard

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
KEY = "sk-test-0123456789abcdef"
USAGE = {"prompt": 100, "completion": 20, "cached": 64, "cache_written": 16, "reasoning": 5}
SEAL = {"type": "reasoning.encrypted", "data": "c2VhbGVk"}
SCRIPT = {
    "rules": [
        {"match": "plain", "reply": {"text": "Grüße 😀", "usage": USAGE}},
        {"match": "think", "reply": {"text": "Four.", "reasoning": "two and two", "details": [SEAL]}},
        {
            "match": "call",
            "reply": {
                "text": "Wait.",
                "calls": [
                    {"id": "c1", "name": "write_file", "arguments": '{"path": "a"}'},
                    {"id": "c2", "name": "write_file", "arguments": "{}"},
                ],
            },
        },
        {"match": "long", "reply": {"text": "cut", "finish": "length"}},
        {"match": "filtered", "reply": {"text": "no", "finish": "content_filter"}},
        {"match": "limited", "reply": {"fault": "rate_limited"}},
        {"match": "wrong", "reply": {"fault": "context_too_long"}},
    ]
}
CALLS = [["write_file", '{"path": "a"}'], ["write_file", "{}"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = tmp_path_factory.mktemp("model") / "script.json"
    script.write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-m", "hermes.testing.model_server", "--key", KEY, "--script", str(script)]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
        child.terminate()


def heard(vendor: str, python: Path, server: str) -> dict[str, Any]:
    told = json.loads(_heard(python, CLIENTS / "model_sdks.py", server, KEY, vendor))
    assert isinstance(told, dict)
    return told


def test_the_anthropic_sdk(server: str) -> None:
    told = heard("anthropic", python_of("anthropic"), server)
    assert told["plain"] == {
        "blocks": [{"type": "text", "text": "Grüße 😀"}],
        "stop": "end_turn",
        "usage": [20, 20, 64, 16],
    }
    assert told["think"]["blocks"] == [
        {"type": "thinking", "thinking": "two and two", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": json.dumps(SEAL)},
        {"type": "text", "text": "Four."},
    ]
    assert told["call"]["stop"] == "tool_use" and told["call"]["blocks"][1:] == [
        {"type": "tool_use", "id": "c1", "name": "write_file", "input": {"path": "a"}},
        {"type": "tool_use", "id": "c2", "name": "write_file", "input": {}},
    ]
    assert (told["long"]["stop"], told["filtered"]["stop"]) == ("max_tokens", "refusal")
    assert told["limited"] == ["RateLimitError", "rate_limit_error"]
    assert told["wrong"] == ["BadRequestError", "invalid_request_error"]


def test_the_openai_sdk(server: str) -> None:
    told = heard("openai", python_of("openai"), server)
    assert told["plain"]["text"] == "Grüße 😀" and told["plain"]["usage"] == [100, 20, 64, 16]
    assert told["think"]["types"] == ["reasoning", "reasoning", "message"]
    assert told["think"]["thoughts"] == ["two and two"] and told["think"]["sealed"] == [json.dumps(SEAL)]
    assert told["call"]["calls"] == CALLS and told["call"]["text"] == "Wait."
    assert (told["long"]["status"], told["long"]["why"]) == ("incomplete", "max_output_tokens")
    assert told["filtered"]["why"] == "content_filter"
    assert told["limited"] == ["RateLimitError", "rate_limit_exceeded"]
    assert told["wrong"] == ["BadRequestError", "context_length_exceeded"]


def request_with_deferred_tools(format: str, model: str, namespace: str) -> dict[str, Any]:
    """A request after a search, and after a call of what was found."""
    found = replace(A_TOOL, name="weigh_sample")
    hits = [{"name": found.name, "description": found.description, "parameters": found.parameters}]
    searched = ToolCall(id=CallId("c0"), name=TOOL_SEARCH, arguments='{"query": "scales"}')
    called = ToolCall(id=CallId("c1"), name=found.name)
    kept = Kept(format=format, model=model, text=json.dumps([{"call": 0, "namespace": namespace}]))
    said = [
        ModelSaid(text="", calls=(searched,)),
        ToolFinished(call=searched.id, text=json.dumps(hits)),
        ModelSaid(text="", calls=(called,), kept=kept if namespace else None),
        ToolFinished(call=called.id, text="3 g"),
    ]
    asked = ask("weigh it")
    entries = [replace(asked.entries[0], seq=seq, record=record) for seq, record in enumerate(said, 2)]
    request = replace(
        asked,
        model=model,
        entries=[*asked.entries, *entries],
        tools=(A_TOOL, *bridge_tools([found])),
        deferred=(found,),
    )
    endpoint = ModelEndpoint(base_url="", defers="(claude|gpt)-")
    told = json.loads(load_format(format).encode(request, endpoint))
    assert isinstance(told, dict)
    return told


def shapes(vendor: str, request: dict[str, Any], folder: Path) -> list[str]:
    file = folder / "request.json"
    file.write_text(json.dumps(request))
    kinds = json.loads(_heard(python_of(vendor), CLIENTS / "request_shapes.py", vendor, str(file)))
    assert isinstance(kinds, list)
    return kinds


def test_the_anthropic_sdk_takes_our_deferred_tools(tmp_path: Path) -> None:
    request = request_with_deferred_tools("anthropic_messages", "claude-sonnet-5", "")
    assert [tool["name"] for tool in request["tools"] if tool.get("defer_loading")] == ["weigh_sample"]
    kinds = shapes("anthropic", request, tmp_path)
    assert kinds == ["tool"] * 4 + ["tool_result", "tool_reference", "tool_result"]


def test_the_openai_sdk_takes_our_deferred_tools(tmp_path: Path) -> None:
    request = request_with_deferred_tools("codex_responses", "gpt-5.4", "weigh_sample")
    kinds = shapes("openai", request, tmp_path)
    assert kinds == ["function", "tool_search", "tool_search_call", "tool_search_output", "function_call"]
    assert [item for item in request["input"] if "namespace" in item]
