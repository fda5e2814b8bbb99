"""`hermes status`: which model answers and why, and never a key."""

from __future__ import annotations

import io
import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from hermes.admin.command import perform
from hermes.admin.gateway import GATEWAY, STATE_FILE, hold_home, tell_problems
from hermes.admin.output import Console
from hermes.state.settings import load_settings

KEY = "sk-test-0123456789abcdef"


def told(home: Path, *, as_json: bool = False, **environ: str) -> str:
    out = io.StringIO()
    console = Console(out=out, err=io.StringIO())
    words = ["--json"] if as_json else []
    assert perform("status", words, home, {"HERMES_NO_PROBE": "1", **environ}, console) == 0
    return out.getvalue()


def facts(home: Path, **environ: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(home, as_json=True, **environ))
    return found


def test_without_anything_it_is_the_demo_model(tmp_path: Path) -> None:
    text = told(tmp_path)
    assert "the offline demo model, not an AI" in text and "no key and no address is set" in text
    assert facts(tmp_path)["provider"] == "demo"


@pytest.mark.parametrize(
    ("environ", "model", "provider"),
    [
        ({"OPENAI_API_KEY": KEY}, "gpt-4.1-mini", "openai"),
        ({"OPENROUTER_API_KEY": KEY}, "openrouter/auto", "openrouter"),
        ({"OPENAI_API_KEY": KEY, "HERMES_MODEL": "o9"}, "o9", "openai"),
        ({"OPENAI_BASE_URL": f"http://me:{KEY}@127.0.0.1:9/v1", "HERMES_MODEL": "m"}, "m", "custom"),
        ({"HERMES_INFERENCE_PROVIDER": "openrouter"}, "", "openrouter"),
        ({"HERMES_INFERENCE_PROVIDER": "nobody"}, "", "nobody"),
    ],
)
def test_model_provider_and_why(tmp_path: Path, environ: dict[str, str], model: str, provider: str) -> None:
    found = facts(tmp_path, **environ)
    assert (found["model"], found["provider"]) == (model, provider) and found["model_why"]
    assert KEY not in told(tmp_path, **environ) + json.dumps(found)


def test_a_running_gateway_says_it_itself(tmp_path: Path) -> None:
    said = {
        "gateway_state": "running",
        "agents": ["main"],
        "model": "qwen3 by Ollama",
        "model_name": "qwen3",
        "model_provider": "ollama",
        "model_why": "it runs here",
    }
    (tmp_path / STATE_FILE).write_text(json.dumps(said))
    with hold_home(tmp_path, GATEWAY):
        text = told(tmp_path)
        assert "qwen3" in text and "ollama" in text and "it runs here" in text
        assert facts(tmp_path)["model_line"] == "qwen3 by Ollama"


def test_the_sandbox_is_named(tmp_path: Path) -> None:
    assert f"none; commands run as {pwd.getpwuid(os.getuid()).pw_name} on this machine" in told(tmp_path)
    assert facts(tmp_path)["sandbox"] == "none"


@pytest.mark.parametrize(
    ("file", "text"), [(".env", "SOME_API_KEY=abcdefgh\n"), ("config.yaml", "model: {api_key: abcdefgh}\n")]
)
def test_files_that_others_can_read_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str, text: str
) -> None:
    path = tmp_path / file
    path.write_text(text)
    tmp_path.chmod(0o755)
    path.chmod(0o644)
    [line] = facts(tmp_path)["exposed"]
    assert line == f"{path}: Others on this machine can read it. Make it yours alone: chmod 600 {path}"
    tell_problems(load_settings(tmp_path, {}))
    assert f"settings.exposed {line}" in caplog.text
    tmp_path.chmod(0o700)
    assert facts(tmp_path)["exposed"] == []
    tmp_path.chmod(0o755)
    path.chmod(0o600)
    assert facts(tmp_path)["exposed"] == []
    (tmp_path / "config.yaml").write_text("timezone: UTC\n")
    (tmp_path / "config.yaml").chmod(0o644)
    assert facts(tmp_path)["exposed"] == []
