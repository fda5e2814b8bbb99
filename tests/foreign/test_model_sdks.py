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
