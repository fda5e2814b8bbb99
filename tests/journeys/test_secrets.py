"""A loaded key that a tool comes upon reaches neither the model, nor the database, nor whoever asked."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.event import ToolFinished
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tool import Effect, Tool, ToolContext, ToolResult
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, say

KEY = "sk-live-0c91f3d2b7-nobody-guesses"
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----"


def read_it(request: ModelRequest) -> Say:
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    return say(f"It says: {results[-1].text}") if results else call("cat")


def leaking(text: str, *, fails: bool) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        context.output(text)
        if fails:
            raise UserError(f"That is no file: {text}")
        return ToolResult(text=f"found {text} here")

    return Tool(name="cat", description="Print a file.", parameters={}, run=run, effect=Effect.READ)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    "told",
    [
        KEY,
        base64.b64encode(f"{KEY}\n".encode()).decode(),
        KEY.encode().hex(),
        "MIIEvQIBADANBgkqhkiG9w0B",
    ],
)
async def test_a_key_in_a_result_is_taken_out(tmp_path: Path, told: str, fails: bool) -> None:
    model = ScriptedModel(read_it)
    environ = {"EXAMPLE_API_KEY": KEY, "SIGNING_KEY": PEM}
    tools = (leaking(told, fails=fails),)
    body = {"model": "hermes-agent", "messages": [{"role": "user", "content": "look"}], "stream": True}
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=tools, environ=environ) as api:
        heard = await api.post("/v1/chat/completions", body)
        assert heard.status == 200 and b"***" in heard.data
    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").glob("gateway.db*"))
    piece = told[:24].encode()
    assert piece not in heard.data + kept + repr(model.requests).encode() and b"***" in kept


async def test_a_key_that_was_made_at_the_start_is_taken_out_too(tmp_path: Path) -> None:
    environ = {"API_SERVER_KEY": "", "API_SERVER_ENABLED": "true"}
    async with ApiWorld(home=tmp_path / "home", environ=environ) as api:
        made = (tmp_path / "home/.env").read_text().partition("API_SERVER_KEY=")[2].strip()
        assert len(made) > 20 and api.app.loaded.secrets.redact(f"found {made}") == "found ***"
