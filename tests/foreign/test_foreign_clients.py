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
    "models": ["hermes-agent", "main"],
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
}


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


@pytest.mark.parametrize("version", ["openai", "openai-1"])
@pytest.mark.parametrize("case", EXPECTED)
def test_openai_for_python(case: str, version: str, gateway: str) -> None:
    heard = _heard(python_of(version), CLIENTS / "openai_python.py", gateway, KEY, case)
    assert json.loads(heard) == EXPECTED[case]


@pytest.mark.parametrize("version", ["openai", "openai-1"])
def test_openai_for_python_goes_away(version: str, gateway: str) -> None:
    before = _stopped(gateway)
    heard = _heard(python_of(version), CLIENTS / "openai_python.py", gateway, KEY, "disconnect")
    assert json.loads(heard)
    _wait_until_stopped(gateway, before + 1)


@pytest.mark.parametrize("case", EXPECTED)
def test_openai_for_node(case: str, gateway: str) -> None:
    program, place = node()
    heard = _heard(program, CLIENTS / "openai_node.mjs", gateway, KEY, case, cwd=place)
    assert json.loads(heard) == EXPECTED[case]


def test_openai_for_node_goes_away(gateway: str) -> None:
    program, place = node()
    before = _stopped(gateway)
    assert _heard(program, CLIENTS / "openai_node.mjs", gateway, KEY, "disconnect", cwd=place)
    _wait_until_stopped(gateway, before + 1)


@pytest.mark.parametrize("options", [[], ["--no-stream"]])
def test_llm(options: list[str], gateway: str, tmp_path: Path) -> None:
    told = (
        f"- model_id: hermes\n  model_name: hermes-agent\n  api_base: {gateway}/v1\n  api_key_name: hermes\n"
    )
    (tmp_path / "extra-openai-models.yaml").write_text(told)
    (tmp_path / "keys.json").write_text(json.dumps({"hermes": KEY}))
    program = python_of("llm").with_name("llm")
    heard = _heard(
        program, "-m", "hermes", *options, "hello", LLM_USER_PATH=str(tmp_path), HOME=str(tmp_path)
    )
    assert heard == "You said: hello"


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("chat", "You said: hello"),
        ("stream", "You said: hello"),
        ("tools", ["get_weather", "It is sunny in Paris."]),
        ("errors", 404),
    ],
)
def test_litellm(case: str, expected: object, gateway: str, tmp_path: Path) -> None:
    client = CLIENTS / "litellm_python.py"
    heard = _heard(python_of("litellm"), client, gateway, KEY, case, HOME=str(tmp_path))
    assert json.loads(heard.splitlines()[-1]) == expected
