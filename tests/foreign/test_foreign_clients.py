"""Programs of other makers use an agent as if it were a model: they are installed as their makers publish
them, and talk to a gateway in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.api import KEY
from tests.foreign.environments import ROOT, node, python_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENTS = ROOT / "tests" / "foreign" / "clients"
SECONDS = 600
CALL = ["get_weather", {"city": "Paris"}]
EXPECTED: dict[str, Any] = {
    "models": ["hermes-agent", "main", "hermes-agent:task"],
    "chat": {"text": "You said: hello", "usage": True},
    "stream": {"text": "You said: hello", "usage": True},
    "tools": {"reason": "tool_calls", "call": CALL, "text": "It is sunny in Paris."},
    "tools_stream": {"reason": "tool_calls", "call": CALL},
    "images": "I see 1 picture.",
    "errors": [
        ["NotFoundError", 404, "model_not_found"],
        ["BadRequestError", 400, "invalid_request"],
        ["AuthenticationError", 401, "invalid_api_key"],
    ],
    "responses": {"texts": ["You said: hello", "You said: again", "You said: hello"], "gone": True},
    "responses_stream": {
        "text": "You said: hello",
        "ends": ["response.created", "response.completed"],
        "in order": True,
    },
    "responses_tools": {"call": CALL, "text": "It is sunny in Paris."},
    "own_tools": ["It worked: read did x", "It failed: there is no such thing"],
    "own_tools_stream": "I try. \n\nIt worked: read did x",
    "thoughts": [["Forty-two.", "It is a riddle."]] * 2,
    "question": [True, "It worked: danger did x"],
    "failures": [
        *[["InternalServerError", "model_credentials_refused"]] * 2,
        *[["BadRequestError", "context_length_exceeded"]] * 2,
        *[["BadRequestError", "content_filter"]] * 2,
        ["InternalServerError", "model_credentials_refused"],
        ["APIError", "model_credentials_refused"],
    ],
    "retries": [502, 1],
    "limits": [429, "rate_limit_exceeded", True],
    "structured": ["Paris", "Paris"],
    "responses_own_tools": [
        [
            ["message", "completed"],
            ["mcp_call", "completed"],
            ["message", "completed"],
            "I try. It worked: read did x",
        ],
        [
            ["message", "completed"],
            ["mcp_call", "failed"],
            ["message", "completed"],
            "I try. It failed: there is no such thing",
        ],
    ],
    "responses_own_tools_stream": {
        "text": "I try. It worked: read did x",
        "own": ["response.mcp_call.completed", "response.mcp_call.in_progress"],
    },
    "responses_both": {
        "types": ["message", "mcp_call", "function_call"],
        "text": "read did the sky; sunny",
    },
    "responses_approval": [
        ["completed", "mcp_approval_request", "danger", "It worked: danger did x"],
        ["completed", "mcp_approval_request", "danger", "It failed: Denied by the user."],
    ],
    "responses_clarify": [
        "I try. Which one?\n\n1. red\n2. blue\n\nYour next message is the answer.",
        "It worked: blue",
    ],
    "responses_reference": "You said: and then?",
    "responses_thoughts": [
        *[["reasoning", "message"]] * 2,
        *["It is a riddle."] * 2,
        "Forty-two.",
    ],
    "responses_failures": [
        [400, "context_length_exceeded", "response.failed"],
        [429, "rate_limit_exceeded", "response.failed"],
        [502, "model_credentials_refused", "response.failed"],
        [400, "content_filter", "response.failed"],
    ],
    "responses_refusals": [[400, "tools[0]"], [400, "top_logprobs"], [400, "colour"]],
}
PLAIN = {"plain": "You said: hello", "history after an own tool": "You said: thanks"}
FUNCTION = {
    "function": "It is sunny in Paris.",
    "function beside an own tool": "It is sunny in Paris.",
}
OWN = {"own tool": "It worked: read did x", "own tool, streamed": "It worked: read did x"}
ALL_WORDS = dict.fromkeys(OWN, "I try. It worked: read did x")
STREAMED_CHAT = {**OWN, "own tool, streamed": "I try. \n\nIt worked: read did x"}
PARIS = {"city": "Paris"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("foreign") / "home"
    child = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "foreign" / "gateway_child.py"), str(home)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
        child.communicate("")
        assert child.returncode == 0


def _heard(*command: str | Path, cwd: Path | None = None, **environ: str) -> str:
    """What a client printed; it gets nothing of our surroundings but the path."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def _stopped(gateway: str) -> int:
    """How many turns were stopped so far, by the gateway's own numbers."""
    asked = urllib.request.Request(f"{gateway}/metrics", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(asked) as answer:
        found = re.search(r'hermes_turns_total\{end="stopped"\} (\d+)', answer.read().decode())
    assert found is not None
    return int(found[1])


def _wait_until_stopped(gateway: str, count: int) -> None:
    patience = time.monotonic() + 120
    while _stopped(gateway) != count:
        assert time.monotonic() < patience, "the turn of a client that went away was not stopped"
        time.sleep(0.05)


@pytest.mark.parametrize("version", ["openai", "openai-1", "llama-index"])
def test_openai_for_python(version: str, gateway: str) -> None:
    """Its first, an older and the current major version; LlamaIndex brings the second."""
    heard = _heard(python_of(version), CLIENTS / "openai_python.py", gateway, KEY, *EXPECTED)
    assert json.loads(heard) == EXPECTED


@pytest.mark.parametrize("version", ["openai", "openai-1"])
def test_openai_for_python_goes_away(version: str, gateway: str) -> None:
    before = _stopped(gateway)
    heard = _heard(python_of(version), CLIENTS / "openai_python.py", gateway, KEY, "disconnect")
    assert json.loads(heard)["disconnect"]
    _wait_until_stopped(gateway, before + 1)


def test_openai_for_node(gateway: str) -> None:
    program, place = node()
    heard = _heard(program, CLIENTS / "openai_node.mjs", gateway, KEY, *EXPECTED, cwd=place)
    assert json.loads(heard) == EXPECTED


def test_openai_for_node_goes_away(gateway: str) -> None:
    program, place = node()
    before = _stopped(gateway)
    heard = _heard(program, CLIENTS / "openai_node.mjs", gateway, KEY, "disconnect", cwd=place)
    assert json.loads(heard)["disconnect"]
    _wait_until_stopped(gateway, before + 1)


@pytest.mark.parametrize(
    ("options", "words", "expected"),
    [
        ([], "hello", "You said: hello"),
        (["--no-stream"], "hello", "You said: hello"),
        ([], "read", "I try. \n\nIt worked: read did x"),
    ],
)
def test_llm(options: list[str], words: str, expected: str, gateway: str, tmp_path: Path) -> None:
    told = (
        f"- model_id: hermes\n  model_name: hermes-agent\n  api_base: {gateway}/v1\n  api_key_name: hermes\n"
    )
    (tmp_path / "extra-openai-models.yaml").write_text(told)
    (tmp_path / "keys.json").write_text(json.dumps({"hermes": KEY}))
    program = python_of("llm").with_name("llm")
    heard = _heard(program, "-m", "hermes", *options, words, LLM_USER_PATH=str(tmp_path), HOME=str(tmp_path))
    assert heard == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("chat", "You said: hello"),
        ("stream", "You said: hello"),
        ("tools", ["get_weather", "It is sunny in Paris."]),
        ("own_tools", ["It worked: read did x", "I try. \n\nIt worked: read did x"]),
        ("responses", [["message", "mcp_call", "message"], *["I try. It worked: read did x"] * 2]),
        ("errors", 404),
    ],
)
def test_litellm(case: str, expected: object, gateway: str, tmp_path: Path) -> None:
    client = CLIENTS / "litellm_python.py"
    heard = _heard(python_of("litellm"), client, gateway, KEY, case, HOME=str(tmp_path))
    assert json.loads(heard.splitlines()[-1]) == expected


# --- agent frameworks ---


def _chat_and_responses(*, chat: dict[str, Any], responses: dict[str, Any], **both: Any) -> dict[str, Any]:
    shared = {**PLAIN, **FUNCTION, "stream": "You said: hello", **both}
    return {"responses": {**shared, **responses}, "chat": {**shared, **chat}}


FRAMEWORKS: dict[str, Any] = {
    "openai_agents": _chat_and_responses(
        responses={**OWN, "failure": "InternalServerError"},
        chat={**STREAMED_CHAT, "failure": "InternalServerError"},
        history="You said: again",
        **{
            "failing tool": "It failed: there is no such thing",
            "function, streamed": "It is sunny in Paris.",
            "forced": "You said: anything",
            "output type": PARIS,
        },
    ),
    "pydantic_ai": _chat_and_responses(
        responses={**OWN, "failure": "ModelHTTPError"},
        chat={**STREAMED_CHAT, "failure": "ModelHTTPError"},
        **{"output tool": PARIS, "native output": PARIS},
    ),
    "instructor": dict.fromkeys(["TOOLS", "TOOLS_STRICT", "JSON", "JSON_SCHEMA", "RESPONSES_TOOLS"], PARIS),
    "langchain": _chat_and_responses(
        responses={**ALL_WORDS, "failure": "OpenAIAPIError"},
        chat={**STREAMED_CHAT, "failure": "OpenAIAPIError"},
        steps=2,
        function_calling=PARIS,
        json_schema=PARIS,
    ),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_agent_frameworks_for_python(framework: str, gateway: str, tmp_path: Path) -> None:
    client = CLIENTS / "frameworks_python.py"
    heard = _heard(python_of("frameworks"), client, gateway, KEY, framework, HOME=str(tmp_path))
    assert json.loads(heard.splitlines()[-1]) == FRAMEWORKS[framework]


def _frameworks_for_node(framework: str, gateway: str) -> Any:
    program, place = node("frameworks-node", ROOT / "tests" / "foreign" / "frameworks")
    client = CLIENTS / "frameworks_node.mjs"
    heard = _heard(program, client, gateway, KEY, framework, cwd=place, AI_SDK_LOG_WARNINGS="false")
    return json.loads(heard.splitlines()[-1])


def test_openai_agents_for_node(gateway: str) -> None:
    expected = _chat_and_responses(
        responses={**OWN, "failure": "Error"},
        chat={**STREAMED_CHAT, "failure": "Error"},
        **{"function, streamed": "It is sunny in Paris.", "output type": PARIS},
    )
    assert _frameworks_for_node("agents", gateway) == expected


def test_the_ai_sdk_of_vercel(gateway: str) -> None:
    def streamed(text: str, *, called: bool = False) -> dict[str, Any]:
        return {"text": text, "errors": [], "called": called}

    shared = {
        **PLAIN,
        **FUNCTION,
        "history": "You said: again",
        "stream": streamed("You said: hello"),
        "function, streamed": "Let me see. It is sunny in Paris.",
        "forced": ["get_weather"],
        "object": PARIS,
        "failure": "AI_APICallError",
        "failure, streamed": True,
    }
    own = "I try. It worked: read did x"
    responses = {**shared, "own tool": own, "own tool, streamed": streamed(own, called=True)}
    chat = {**shared, **STREAMED_CHAT}
    chat["own tool, streamed"] = streamed(STREAMED_CHAT["own tool, streamed"])
    heard = _frameworks_for_node("vercel", gateway)
    assert heard["responses"] == heard["responses, not stored"] == responses
    assert heard["answered"] == ["It worked: blue"] * 3
    assert [each["acted"] for each in heard["repeated"]] == [1, 1, 1]
    assert heard["repeated"][1]["error"] == heard["repeated"][2]["error"] == "AI_RetryError"
    assert heard["approved"] == {"asked": "mcp.danger", "text": "It worked: danger did x"}
    assert heard["chat"] == heard["compatible"] == chat
    assert heard["denied"] == {"asked": "mcp.danger", "text": "It failed: Denied by the user."}


def test_llama_index(gateway: str, tmp_path: Path) -> None:
    client = CLIENTS / "frameworks_python.py"
    heard = _heard(python_of("llama-index"), client, gateway, KEY, "llama_index", HOME=str(tmp_path))
    assert json.loads(heard.splitlines()[-1]) == {
        "plain": "You said: hello",
        "stream": "You said: hello",
        **STREAMED_CHAT,
        "agent": "It is sunny in Paris.",
    }


def test_the_standard_of_open_responses(gateway: str) -> None:
    """Its compliance cases, judged by its own types."""
    heard = json.loads(_heard(python_of("frameworks"), CLIENTS / "open_responses.py", gateway, KEY))
    assert len(heard) == 7
    assert set(heard.values()) == {"ok"}, heard
