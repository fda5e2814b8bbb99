"""Many loaded secrets, told in many ways to the whole gateway, are in none of the places it writes to."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from hermes.admin.process.logs import logging_to
from hermes.domain.errors import FaultKind, ModelFault, UserError
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import Approval, Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import ToolFinished
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, last_words
from tests.secret_corpus import foreign_secrets, loaded_secrets

WAYS = {
    "said": lambda value: f"The key is {value} here.",
    "in JSON": lambda value: json.dumps({"key": value}),
    "in an address": lambda value: f"https://example.org/?k={quote(value, safe='')}&x=1",
    "in a file in base64": lambda value: base64.b64encode(f"A={value}\n".encode()).decode(),
}
OWN = (".env", "config.yaml", "SOUL.md")
"""Files that people write."""
log = logging.getLogger("hermes.app")


def forms(value: str) -> set[bytes]:
    """What must stand nowhere; a line of a key that has several is one."""
    parts = [part for part in value.splitlines() if "-----" not in part]
    spelled = {form for part in parts for form in (part, quote(part, safe=""), json.dumps(part)[1:-1])}
    inner = base64.b64encode(f"A={value}\n".encode())[4:-8]
    return {form.encode() for form in spelled} | {inner}


def telling(text: str, name: str, **more: object) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        for at in range(0, len(text), 700):
            context.output(text[at : at + 700])
        if name == "fail":
            raise UserError(f"That is no file: {text}")
        log.warning("tool.told %s", text)
        return ToolResult(text=text)

    given = {"effect": Effect.READ, **more}
    return Tool(name=name, description="Print a file.", parameters={}, run=run, **given)  # type: ignore[arg-type]


def speaking(text: str) -> ScriptedModel:
    """Calls each tool with the text, then says it in small pieces, then asks for what must be approved."""

    def reply(request: ModelRequest) -> Say:
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        words, arguments = last_words(request), json.dumps({"path": text})
        if len(results) < 2:
            return call(("tell", "fail")[len(results)])
        if words == "break it":
            return Say(error=ModelFault(f"it said: {text}", kind=FaultKind.BAD_REQUEST, quote=text))
        if words == "ask me":
            return call("asked", arguments if len(results) == 2 else "{}")
        return Say(text=text, thought=text, pieces=len(text) // 7)

    return ScriptedModel(reply)


def everything_written(home: Path, model: ScriptedModel, heard: list[bytes]) -> dict[str, bytes]:
    """What each place holds, by its name."""
    return {
        "replies": b"".join(heard),
        "prompts": repr(model.requests).encode(),
        "database": b"".join(path.read_bytes() for path in home.glob("gateway.db*")),
        "session logs": b"".join(path.read_bytes() for path in (home / "sessions").glob("*.jsonl")),
        "log": (home / "logs/gateway.log").read_bytes(),
        "hooks": b"".join(path.read_bytes() for path in home.glob("heard-*.json")),
        "other files": b"".join(
            path.read_bytes()
            for path in home.rglob("*")
            if path.is_file() and path.name not in OWN and "gateway.db" not in path.name
        ),
    }


HOOK = """
import json, pathlib, uuid
def handle(event, context):
    home = pathlib.Path(__file__).parents[2]
    (home / f"heard-{uuid.uuid4().hex}.json").write_text(json.dumps(context, default=str))
"""


async def tell_all(home: Path, text: str, environ: Mapping[str, str], config: str = "") -> dict[str, bytes]:
    """Let the gateway come upon a text in every way, and collect what it wrote."""
    (home / "hooks/ear").mkdir(parents=True)
    (home / "hooks/ear/HOOK.yaml").write_text("name: ear\nevents: [agent:start, agent:end]\n")
    (home / "hooks/ear/handler.py").write_text(HOOK)
    (home / "logs").mkdir()
    (home / "SOUL.md").write_text(f"You know this: {text}")
    model, heard = speaking(text), []
    tools = (telling(text, "tell"), telling(text, "fail"), telling(text, "asked", approval=Approval.ASK))
    world = ApiWorld(
        home=home,
        provider=model,
        tools=tools,
        environ=environ,
        config=f"{config}sessions: {{write_json: true}}\n",
    )
    async with world as api:
        with logging_to(home, api.app.loaded.secrets, "DEBUG"):
            log.error("it broke: %s", text, extra={"place": text})
            for number, words in enumerate((f"look at {text}", "break it", "ask me")):
                body = {"model": "hermes-agent", "messages": [{"role": "user", "content": words}]}
                for stream in (True, False):
                    headers = {"X-Hermes-Session-Id": f"talk-{number}-{stream}"}
                    answer = await api.post(
                        "/v1/chat/completions", {**body, "stream": stream}, headers=headers
                    )
                    heard.append(answer.data)
            for path in ("/health/detailed", "/metrics", "/api/sessions"):
                heard.append((await api.get(path)).data)
    return await asyncio.to_thread(everything_written, home, model, heard)


@pytest.mark.parametrize("way", WAYS)
async def test_no_loaded_secret_is_in_any_place(tmp_path: Path, way: str, full: bool) -> None:
    values = loaded_secrets(210 if full else 75)
    text = "\n".join(WAYS[way](value) for value in values.values())
    places = await tell_all(tmp_path / "home", text, values)
    for place, written in places.items():
        hidden = b"secret\\u203a" in written or "secret›".encode() in written
        assert hidden, f"nothing was told to the {place}"
        shown = {name for name, value in values.items() if any(form in written for form in forms(value))}
        assert not shown, (place, shown)


async def test_what_looks_like_a_secret_is_in_no_place_that_people_read(tmp_path: Path) -> None:
    cases = dict(foreign_secrets(1))
    places = await tell_all(tmp_path / "home", "\n".join(cases.values()), {})
    for place in ("log", "session logs"):
        shown = [secret for secret in cases if secret.encode() in places[place]]
        assert len(shown) <= len(cases) * 0.02, (place, shown)


async def test_the_secrets_of_one_agent_are_hidden_by_all(tmp_path: Path) -> None:
    home, value = tmp_path / "home", "the-key-of-another-agent-77"
    (home / "agents/work").mkdir(parents=True)
    (home / "agents/work/.env").write_text(f"WORK_API_KEY={value}\n")
    places = await tell_all(home, f"It is {value}.", {}, "agents: {work: {}}\n")
    assert not [place for place, told in places.items() if value.encode() in told]
