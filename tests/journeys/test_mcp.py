"""MCP servers in a whole gateway: their tools are found and called, strangers have none, questions wait,
settings count at once, and a crash repeats nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from hermes.agent.models.formats.chat_completions.request import encode_request
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, AgentId, CallId
from hermes.domain.models.credential import Credential, CredentialKind, OAuthClient
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Asked, Entry, ToolFinished, UserSaid, Verdict
from hermes.domain.turns.turn import Answer, TurnInput
from hermes.state.home.credentials import CredentialFile
from hermes.testing.backends import local_backend
from hermes.testing.harness import PATIENCE, Journey
from hermes.testing.login_server import FakeLoginServer
from hermes.testing.model import Say, ScriptedModel, echo
from hermes.testing.model import say as says
from tests.agent.test_demo_tools import follow, living, say
from tests.control.test_settings_apply import Running
from tests.journeys.test_deferred_tools import ENDPOINT
from tests.mcp.bed import HERE, make_source, plain_server
from tests.mcp.test_web import listening

ME = Source(address=Address(platform=LOCAL_DOOR, chat="local"), kind=SourceKind.PRIVATE, user="local")
STRANGER = Source(address=Address(platform="webhook", chat="x"), kind=SourceKind.WEBHOOK)
MOST = 8 * 1024


def config(home: Path, servers: dict[str, Any], **more: Any) -> None:
    home.mkdir(exist_ok=True)
    tree = {"mcp_servers": servers, "terminal": {"backend": "local"}, **more}
    (home / "config.yaml").write_text(json.dumps(tree))


def plain(how: str = "", **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", str(HERE / "plain_server.py"), how], **more}


def calling(name: str, **arguments: object):
    """A model that calls a tool through the bridge or itself, and tells its result."""

    def script(request: ModelRequest) -> Say:
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        if results:
            return says(results[-1].text)
        named = {tool.name for tool in request.tools}
        call = (name, arguments) if name in named else ("tool_call", {"name": name, "arguments": arguments})
        return Say(calls=(ToolCall(id=CallId("c"), name=call[0], arguments=json.dumps(call[1])),))

    return script


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def finished(app: Any, source: Source = ME) -> ToolFinished:
    records = await say(app, "go", source=source)
    return next(one for one in records if isinstance(one, ToolFinished))


async def test_200_tools_leave_the_first_prompt_small_and_can_be_called(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": [str(HERE / "servers.py")], "env": {"BEHAVE": "many 200"}}
    config(tmp_path / "home", {"lab": server})
    model = ScriptedModel(calling("mcp__lab__tool_150", text="hello"))
    async with living(tmp_path / "home", AppOverrides(provider=model, platforms={})) as app:
        runtime = await app.gateway.agents.get(MAIN_AGENT)
        await until(lambda: "mcp__lab__tool_199" in runtime.toolbox.all)
        done = await finished(app)
    assert done.text.strip('"') == "hello" and done.outside
    size = len(encode_request(model.requests[0], ENDPOINT))
    assert size <= MOST, f"{size} bytes"


async def test_strangers_have_no_server_unless_it_is_open_to_them(tmp_path: Path) -> None:
    servers = {"mine": plain(), "open": plain(strangers=True), "bees": plain(agents=["bee"])}
    config(tmp_path / "home", servers, agents={"bee": {}})
    model = ScriptedModel(echo)
    async with living(tmp_path / "home", AppOverrides(provider=model, platforms={})) as app:
        toolbox = (await app.gateway.agents.get(MAIN_AGENT)).toolbox
        await until(lambda: {"mcp__mine__echo", "mcp__open__echo"} <= toolbox.usable_for(ME).keys())
        theirs = toolbox.usable_for(STRANGER)
        assert "mcp__open__echo" in theirs and "mcp__mine__echo" not in theirs
        toolbox.check_names(["mine", "mcp-mine"])
        bee = (await app.gateway.agents.get(AgentId("bee"))).toolbox
        await until(lambda: "mcp__bees__echo" in bee.all and "mcp__mine__echo" in bee.all)
        assert "mcp__bees__echo" not in toolbox.all


async def test_settings_count_at_once_and_servers_are_started_when_needed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    config(home, {"one": plain()})
    model = ScriptedModel(calling("mcp__one__echo", text="hi"))
    async with living(home, AppOverrides(provider=model, platforms={})) as app:
        toolbox = (await app.gateway.agents.get(MAIN_AGENT)).toolbox
        await until(lambda: "mcp__one__echo" in toolbox.all)
        assert (await finished(app)).text == "hi"
    app = Running(
        home, {"PATH": os.environ["PATH"]}, AppOverrides(provider=ScriptedModel(echo), platforms={})
    )
    async with app.running():
        toolbox = (await app.gateway.agents.get(MAIN_AGENT)).toolbox
        assert "mcp__one__echo" in toolbox.all
        assert not [one for one in _commands() if str(home) in one], "nobody needed it"
        config(home, {"one": plain(enabled=False), "two": plain()})
        await app.generations.apply()
        toolbox = (await app.gateway.agents.get(MAIN_AGENT)).toolbox
        await until(lambda: "mcp__two__echo" in toolbox.all)
        assert "mcp__one__echo" not in toolbox.all


async def test_a_stop_loses_no_login_that_is_being_renewed(tmp_path: Path) -> None:
    """The old refresh token is worth nothing as soon as the service has it."""
    home, model = tmp_path / "home", ScriptedModel(calling("mcp__shop__echo", text="hi"))

    async def wants_another(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=401)

    async with FakeLoginServer(slow=2.0) as logins, listening(wants_another) as url:
        config(home, {"shop": {"url": url, "auth": "oauth"}})
        tokens = logins.tokens()
        CredentialFile(home).add(
            Credential(
                id="mcp-shop",
                provider="mcp-shop",
                label="shop",
                kind=CredentialKind.OAUTH,
                source="authorization_code",
                key=Secret(tokens["access_token"]),
                refresh=Secret(tokens["refresh_token"]),
                base_url=url,
                client=OAuthClient(token_url=f"{logins.url}/token", client_id="client-1"),
            )
        )
        async with living(home, AppOverrides(provider=model, platforms={})) as app:
            toolbox = (await app.gateway.agents.get(MAIN_AGENT)).toolbox
            await until(lambda: "mcp__shop__echo" in toolbox.all)
            turn = await app.gateway.submit(
                Submission(agent=MAIN_AGENT, source=ME, input=TurnInput(text="go"))
            )
            await until(logins.refreshing.is_set)
            await app.gateway.stop_turn(MAIN_AGENT, turn.id, "stopped")
        (stored,) = CredentialFile(home).read().credentials
        assert stored.refresh.reveal() == "refresh-2"


def _commands() -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
            if b"plain_server.py" in words:
                found.append(os.readlink(place / "cwd"))
        except OSError:
            continue
    return found


async def test_a_call_that_a_crash_cut_off_is_not_made_again(tmp_path: Path) -> None:
    """The server has done it and was not heard; in the next life it is said to be unknown."""
    notes, home = tmp_path / "notes", tmp_path / "home"
    (home / "work").mkdir(parents=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    backend = local_backend(home=home, workspace=home / "work", environ=environ)
    await backend.open()
    server = plain_server("notes", env={"NOTES": str(notes), "NAP": "60"})
    source = make_source(home, server, backend)
    await source.open()
    script, tools = calling("mcp__t__echo", text="paid"), await source.tools()
    chat = Journey(folder=tmp_path, script=script, tools=tools)
    await chat.__aenter__()
    turn = await chat.gateway.submit(Submission(agent=MAIN_AGENT, source=ME, input=TurnInput(text="go")))
    await until(notes.exists)
    await chat.abandon()
    await source.close()
    source = make_source(home, server, backend)
    await source.open()
    async with Journey(folder=tmp_path, script=script, tools=await source.tools()) as after:
        async with asyncio.timeout(PATIENCE):
            seen = [item async for item in after.gateway.watch(MAIN_AGENT, turn.id)]
    await source.close()
    await backend.close()
    (done,) = [one.record for one in seen if isinstance(one, Entry) and isinstance(one.record, ToolFinished)]
    assert done.unknown and notes.read_text() == "paid\n"


async def test_a_servers_question_is_put_to_the_person_and_outlives_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    config(home, {"shop": {"command": sys.executable, "args": [str(HERE / "servers.py")]}})
    script = calling("mcp__shop__order", what="tea")
    async with living(home, AppOverrides(provider=ScriptedModel(script), platforms={})) as app:
        toolbox = (await app.gateway.agents.get(MAIN_AGENT)).toolbox
        await until(lambda: "mcp__shop__order" in toolbox.all)
        turn = await app.gateway.submit(Submission(agent=MAIN_AGENT, source=ME, input=TurnInput(text="go")))
        asked = await _asked(app, turn.id)
        assert "shop asks: How many of tea?" in asked.text
    async with living(home, AppOverrides(provider=ScriptedModel(script), platforms={})) as app:
        given = Answer(question=asked.question, verdict=Verdict.REPLY, text="many", by="local")
        await app.gateway.answer(MAIN_AGENT, given)
        again = await _asked(app, turn.id, but=asked)
        assert "must be of the type integer" in again.text
        given = Answer(question=again.question, verdict=Verdict.REPLY, text="3", by="local")
        await app.gateway.answer(MAIN_AGENT, given)
        async with asyncio.timeout(PATIENCE):
            seen = [item async for item in app.gateway.watch(MAIN_AGENT, turn.id)]
    results = [one.record for one in seen if isinstance(one, Entry) and isinstance(one.record, ToolFinished)]
    assert [one.text for one in results] == ["3 of tea ordered"]


async def _asked(app: Any, turn: Any, but: Asked | None = None) -> Asked:
    async with asyncio.timeout(PATIENCE):
        async for seen in app.gateway.watch(MAIN_AGENT, turn):
            if isinstance(seen, Entry) and isinstance(seen.record, Asked) and seen.record != but:
                return seen.record
    raise AssertionError("nobody was asked")


async def test_a_tool_that_came_later_reaches_an_open_session_through_the_bridge(tmp_path: Path) -> None:
    home = tmp_path / "home"
    config(home, {"lab": {"command": sys.executable, "args": [str(HERE / "servers.py")]}})

    def script(request: ModelRequest) -> Say:
        words = [entry.record.text for entry in request.entries if isinstance(entry.record, UserSaid)][-1]
        last = request.entries[-1].record
        if isinstance(last, ToolFinished):
            return says(last.text)
        call = {"name": f"mcp__lab__{words.rpartition(' ')[2]}", "arguments": {}}
        return Say(calls=(ToolCall(id=CallId(words), name="tool_call", arguments=json.dumps(call)),))

    model = ScriptedModel(script)
    async with living(home, AppOverrides(provider=model, platforms={})) as app:
        toolbox = (await app.gateway.agents.get(MAIN_AGENT)).toolbox
        await until(lambda: "mcp__lab__grow" in toolbox.all)
        first = await app.gateway.submit(
            Submission(agent=MAIN_AGENT, source=ME, input=TurnInput(text="grow"))
        )
        await follow(app, first.id)
        await until(lambda: "mcp__lab__grown" in toolbox.all)
        then = await app.gateway.submit(
            Submission(agent=MAIN_AGENT, source=ME, input=TurnInput(text="grown"))
        )
        asked = await _asked(app, then.id)
        given = Answer(question=asked.question, verdict=Verdict.ONCE, by="local")
        await app.gateway.answer(MAIN_AGENT, given)
        async with asyncio.timeout(PATIENCE):
            seen = [one async for one in app.gateway.watch(MAIN_AGENT, then.id) if isinstance(one, Entry)]
        records = [one.record for one in seen]
        (done,) = [one for one in records if isinstance(one, ToolFinished)]
    assert done.text == "grown" and first.session == then.session
    told = [[(tool.name, tool.description) for tool in request.tools] for request in model.requests]
    assert told[0] == told[-1], "what the session was told of stays the same"
