"""A loaded key that a tool comes upon reaches neither the model, nor the database, nor whoever asked."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.agent.run.toolbox import WITHHELD
from hermes.app.agents.redaction import HIDDEN
from hermes.domain.errors import UserError
from hermes.domain.ids import CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.safety.concealing import concealed, withheld
from hermes.domain.settings.declaring import STAND_IN
from hermes.domain.tools.tool import Approval, Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.turns.event import Kept, ModelSaid, ToolFinished
from hermes.domain.word import replace
from hermes.state.settings.secrets import Secrets
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


async def test_a_script_is_given_no_key_and_passes_none_on(tmp_path: Path) -> None:
    """Neither in the data of a result nor in the record of a call; and a tool is not called with one."""
    got: list[object] = []

    async def cat(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="found", data={"lines": [KEY, {"n": KEY}], "count": 2})

    async def outer(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        got.append((await context.call("cat", {})).data)
        got.append((await context.call("cat", {"path": [f"x{KEY}"]})).text)
        return ToolResult(text="done")

    tools = [Tool(name=run.__name__, description="", parameters={}, run=run) for run in (cat, outer)]
    tools[1] = replace(tools[1], name="cat_twice")

    def model(request: ModelRequest) -> Say:
        done = any(isinstance(entry.record, ToolFinished) for entry in request.entries)
        return say("ok") if done else call("cat_twice")

    body = {"model": "hermes-agent", "messages": [{"role": "user", "content": "look"}]}
    made = ApiWorld(
        home=tmp_path / "home", provider=ScriptedModel(model), tools=tools, environ={"EXAMPLE_API_KEY": KEY}
    )
    async with made as api:
        assert (await api.post("/v1/chat/completions", body)).status == 200
    assert got == [{"lines": ["‹secret›", {"n": "‹secret›"}], "count": 2}, WITHHELD]
    assert KEY.encode() not in b"".join(path.read_bytes() for path in (tmp_path / "home").glob("gateway.db*"))


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
        assert heard.status == 200 and b"\\u203a" in heard.data
    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").glob("gateway.db*"))
    piece = told[:24].encode()
    assert piece not in heard.data + kept + repr(model.requests).encode() and "‹secret›".encode() in kept


async def test_a_key_that_was_made_at_the_start_is_taken_out_too(tmp_path: Path) -> None:
    environ = {"API_SERVER_KEY": "", "API_SERVER_ENABLED": "true"}
    async with ApiWorld(home=tmp_path / "home", environ=environ) as api:
        made = (tmp_path / "home/.env").read_text().partition("API_SERVER_KEY=")[2].strip()
        assert len(made) > 20 and api.app.loaded.secrets.redact(f"found {made}") == "found ‹secret›"


WORD = "kiwi-42-marmalade"
HELD = {
    "in a command": json.dumps({"command": f"rm -r {WORD}"}),
    "deep inside": json.dumps({"a": [{"b": f"x/{WORD}"}]}),
    "escaped": '{"command": "rm -r \\u006biwi-42-marmalade"}',
    "in base64": json.dumps({"command": base64.b64encode(WORD.encode()).decode()}),
    "as a name": json.dumps({WORD: "x"}),
    "twice": json.dumps({"command": "ls"})[:-1] + f', "command": "{WORD}", "command": "ls"}}',
    "broken off": f'{{"command": "rm -r {WORD}',
}


@pytest.mark.parametrize("arguments", HELD.values(), ids=HELD)
async def test_a_call_that_holds_a_loaded_value_is_not_run_at_all(tmp_path: Path, arguments: str) -> None:
    ran: list[Mapping[str, object]] = []

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        ran.append(arguments)
        return ToolResult(text="done")

    def reply(request: ModelRequest) -> Say:
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        return say(results[-1].text) if results else call("act", arguments)

    tool = Tool(name="act", description="Act.", parameters={}, run=run, approval=Approval.ASK)
    body = {"model": "hermes-agent", "messages": [{"role": "user", "content": "go"}]}
    environ = {"EXAMPLE_API_KEY": WORD}
    model = ScriptedModel(reply)
    async with ApiWorld(home=tmp_path / "home", provider=model, tools=(tool,), environ=environ) as api:
        heard = await api.post("/v1/chat/completions", body)
        assert "Not run: its arguments hold a secret" in heard.json["choices"][0]["message"]["content"]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").glob("gateway.db*"))
    assert not ran and WORD.encode() not in kept and b"withheld" in kept


async def test_arguments_stay_json_where_a_value_is_taken_out() -> None:
    secrets = Secrets({"PIN": "12345678", "ODD": "command"})
    kept = ToolCall(id=CallId("c"), name="act", arguments='{"command":"seq 3","n":1234567}')
    assert withheld(kept, secrets.conceal) is kept
    told = withheld(replace(kept, arguments='{"command":"the command","n":12345678}'), secrets.conceal)
    assert told.withheld and json.loads(told.arguments) == {"command": "the ‹secret›", "n": "‹secret›"}


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_no_shell_makes_something_else_of_what_stands_for_a_secret(tmp_path: Path, shell: str) -> None:
    (tmp_path / "secret").write_text("x")
    told = subprocess.run(
        [shell, "-c", f"echo {STAND_IN} x={STAND_IN}"], cwd=tmp_path, capture_output=True, check=True
    )
    assert told.stdout.decode() == f"{STAND_IN} x={STAND_IN}\n"
    assert json.dumps(STAND_IN, ensure_ascii=False) == f'"{STAND_IN}"'
    assert not set(STAND_IN) & set("*?[]{}~$")


@pytest.mark.parametrize(
    "words", ["It is in /usr/local/lib/python3.11/site-packages", "密码 is kept in key=abcdefgh_x"]
)
async def test_what_was_held_back_is_kept_when_a_run_is_stopped(tmp_path: Path, words: str) -> None:
    told, said, never = 0, asyncio.Event(), asyncio.Event()

    async def beat() -> None:
        nonlocal told
        told += 1
        if told >= len(words):
            said.set()
            await never.wait()

    text = f"{words} and this is never said"
    model = ScriptedModel(lambda request: Say(text=text, pieces=len(text), beat=beat))
    home = tmp_path / "home"
    async with ApiWorld(home=home, provider=model, environ={"EXAMPLE_API_KEY": WORD}) as api:
        run = (await api.post("/v1/runs", {"input": "go"})).json["run_id"]
        await said.wait()
        await api.post(f"/v1/runs/{run}/stop")
        for _ in range(2000):
            if (await api.get(f"/v1/runs/{run}")).json["status"] == "cancelled":
                break
            await asyncio.sleep(0.01)
    kept = b"".join(path.read_bytes() for path in home.glob("gateway.db*"))
    assert words[:-3].encode() in kept


async def test_of_a_value_that_was_cut_off_nothing_is_told() -> None:
    secrets = Secrets({"KEY": KEY}, patterns=True)
    stream = secrets.stream()
    assert stream.take(f"The key is {KEY[:-2]}") + stream.close(cut=True) == "The key is "
    stream = secrets.stream()
    assert stream.take("It is in /usr/local/lib/x") + stream.close(cut=True) == "It is in /usr/local/lib/x"


async def test_what_a_service_signed_goes_back_as_it_came_or_not_at_all() -> None:
    secrets = Secrets({"KEY": KEY})
    clean = Kept(format="f", model="m", text='{"signature": "x", "thinking": "hm"}')
    said = ModelSaid(text="a", thought=f"it is {KEY}", kept=clean)
    assert concealed(said, secrets.conceal).kept is clean
    assert (
        concealed(replace(said, kept=replace(clean, text=f'{{"t": "{KEY}"}}')), secrets.conceal).kept is None
    )


async def test_what_was_hidden_in_a_file_is_not_lost_when_it_is_written_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    own = f"user = ann\npassword = '{KEY}'\nport = 1\n"
    shown_as = own.replace(KEY, STAND_IN)
    change = {"path": "a.conf", "old": f"'{STAND_IN}'\nport = 1", "new": "port = 2"}
    steps = [
        call("read_file", json.dumps({"path": "a.conf"})),
        call("write_file", json.dumps({"path": "a.conf", "content": shown_as})),
        call("patch", json.dumps(change)),
        call("patch", json.dumps({"path": "a.conf", "old": "user = ann", "new": f"user = {STAND_IN}"})),
        call("patch", json.dumps({"path": "a.conf", "old": "port = 1", "new": "port = 2"})),
        call("write_file", json.dumps({"path": "new.conf", "content": shown_as})),
    ]
    results: list[str] = []

    def reply(request: ModelRequest) -> Say:
        done = [entry.record.text for entry in request.entries if isinstance(entry.record, ToolFinished)]
        results[:] = done
        return replace(steps[len(done)]) if len(done) < len(steps) else say("done")

    async with ApiWorld(home=home, provider=ScriptedModel(reply)) as api:
        (home / "workspace").mkdir(exist_ok=True)
        (home / "workspace/a.conf").write_text(own)
        body = {"model": "hermes-agent", "messages": [{"role": "user", "content": "go"}]}
        await api.post("/v1/chat/completions", body)
    assert STAND_IN in results[0] and results[0].endswith(HIDDEN) and results[0].count(HIDDEN) == 1
    assert results[1].startswith("Not written: a.conf has something else") and "hidden from you" in results[2]
    assert results[3].startswith("Not written") and results[4].startswith("Patched")
    assert results[5].startswith("Wrote")
    assert (home / "workspace/a.conf").read_text() == own.replace("port = 1", "port = 2")
