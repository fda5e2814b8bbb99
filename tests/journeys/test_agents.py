"""Agents of one gateway, each with what is its own: key, budget, approvals, folders of conversations."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.app.agents.registry import AgentRegistry
from hermes.domain.errors import UserError
from hermes.domain.ids import EVERY_AGENT, MAIN_AGENT, AgentId
from hermes.domain.ports.agent import ModelPiece
from hermes.domain.ports.agent import ModelRequest as Request
from hermes.domain.settings.live import SettingsReport
from hermes.domain.turns.event import ToolFinished
from hermes.entry.terminal.remote import GatewayConnection
from hermes.state.settings.loader import load_settings
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.clock import settle
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.model_script import ModelRequest, Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.platform import fake_platform
from hermes.testing.world import World
from tests.entry.http.test_control import until


def shown(world: World) -> str:
    return "\n".join(message.shown for message in world.messages.values())


ORDER = json.dumps({"goal": "dig", "agent": "helper"})
TASKS = [
    ("bob", "work", False),
    ("bob", "helper", True),
    ("ann", "work", True),
    ("another long secret 1", "work", False),
    ("another long secret 2", "work", True),
    ("another long secret 3", "work", False),
]


async def ask(api: ApiWorld, agent: str, text: str = "hello", **headers: str) -> Heard:
    body = {"model": agent, "messages": [{"role": "user", "content": text}]}
    return await api.post("/v1/chat/completions", body, headers=headers)


async def test_each_agent_pays_with_its_own_key(tmp_path: Path) -> None:
    seen: list[str] = []

    def note(request: ModelRequest) -> Reply:
        seen.append(request.headers["Authorization"].removeprefix("Bearer "))
        return Reply(text="hi")

    async with FakeModelServer(note) as server:
        home = tmp_path / "home"
        for agent in ("bee", "ant"):
            (home / "agents" / agent).mkdir(parents=True)
            (home / "agents" / agent / ".env").write_text(f"OPENAI_API_KEY=sk-of-the-{agent}-0123456789\n")
        config = (
            f"model: {{default: m, base_url: '{server.base_url}', provider: custom}}\n"
            "auxiliary: {title_generation: {enabled: false}}\n"
            "agents: {bee: {}, ant: {}, fly: {}}\n"
        )
        environ = {"OPENAI_API_KEY": "sk-of-the-gateway-0123456789", "HERMES_NO_PROBE": "1"}
        async with ApiWorld(home=home, config=config, environ=environ, provider=None) as api:
            for agent in ("main", "bee", "ant", "fly"):
                assert (await ask(api, agent)).status == 200
    assert seen == [f"sk-of-the-{name}-0123456789" for name in ("gateway", "bee", "ant", "gateway")]


async def test_the_budget_of_an_agent_stops_that_agent_alone(tmp_path: Path) -> None:
    config = "agents: {bee: {budget: {per: day, calls: 1}}, ant: {}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        assert (await ask(api, "bee")).status == 200
        refused = await ask(api, "bee")
        assert refused.status == 429 and "“agents.bee”" in refused.data.decode()
        for agent in ("ant", "main", "ant"):
            assert (await ask(api, agent)).status == 200


def run_words(request: Request) -> Say:
    """A model that runs what it is told in a shell, and says what came of it."""
    last = request.entries[-1].record
    if isinstance(last, ToolFinished):
        return say(last.text)
    return call("terminal", json.dumps({"command": last_words(request)}), id=f"call_{len(request.entries)}")


def said(heard: Heard) -> str:
    assert heard.status == 200, heard.data
    return str(heard.json["choices"][0]["message"]["content"])


async def test_approvals_of_an_agent_are_its_own(tmp_path: Path) -> None:
    config = "agents: {bee: {approvals: {deny: ['touch*']}}, ant: {approvals: {mode: 'off'}}}\n"
    home = tmp_path / "home"
    async with ApiWorld(home=home, config=config, provider=ScriptedModel(run_words)) as api:
        assert "approvals.deny" in said(await ask(api, "bee", "touch made"))
        await ask(api, "ant", "touch made")
        await ask(api, "main", "touch made")
        there = [
            (home / folder / "workspace" / "made").exists() for folder in ("agents/bee", "agents/ant", ".")
        ]
        assert there == [False, True, True]
        # The question that the others are asked is not asked for who switched it off.
        await ask(api, "ant", "rm -rf ~/nothing")
        open_ones = await api.app.gateway.read(EVERY_AGENT, lambda tx: tx.questions.open_of(None))
        assert not open_ones


async def test_conversations_with_folders_of_their_own(tmp_path: Path) -> None:
    config = "agents: {bee: {session_workspaces: true}, ant: {}}\n"
    home = tmp_path / "home"
    async with ApiWorld(home=home, config=config, provider=ScriptedModel(run_words)) as api:
        for chat in ("one", "two"):
            await ask(api, "bee", f"echo {chat} >> notes", **{"X-Hermes-Chat-Id": chat})
        for chat in ("one", "two"):
            heard = said(await ask(api, "bee", "cat notes; pwd", **{"X-Hermes-Chat-Id": chat}))
            assert chat in heard and f"{home}/agents/bee/workspaces/" in heard
            assert {"one": "two", "two": "one"}[chat] not in heard
        assert len(list((home / "agents/bee/workspaces").iterdir())) == 2
        both = [said(await ask(api, "ant", "pwd", **{"X-Hermes-Chat-Id": chat})) for chat in ("one", "two")]
        assert all(f"{home}/agents/ant/workspace" in each for each in both)


async def test_agents_that_rest_leave_nothing_behind(tmp_path: Path, full: bool) -> None:
    """Their runtimes, tools and prompts go once nobody needs them; the next words build them again."""
    count = 100 if full else 8
    names = [AgentId(f"agent{n}") for n in range(count)]
    async with FakeModelServer() as server:
        config = (
            f"model: {{default: m, base_url: '{server.base_url}', provider: custom}}\n"
            "auxiliary: {title_generation: {enabled: false}}\n"
            f"agents: {{{', '.join(f'{name}: {{}}' for name in names)}}}\n"
        )
        environ = {"OPENAI_API_KEY": "sk-of-the-gateway-0123456789", "HERMES_NO_PROBE": "1"}
        home = tmp_path / "home"
        async with ApiWorld(home=home, config=config, environ=environ, provider=None) as api:
            agents = api.app.gateway.agents
            assert isinstance(agents, AgentRegistry)
            for name in names:
                assert (await ask(api, name)).status == 200
            held = [weakref.ref((await agents.get(name)).toolbox) for name in names]
            assert await agents.let_go(api.app.gateway.busy_agents, 0.0) == count
            await api.app._agents.backends.tend()
            await settle()
            gc.collect()
            assert not [ref for ref in held if ref() is not None], "something still holds their tools"
            assert [name for name in agents if agents.built(name)] == ["main"]
            assert (await ask(api, names[0])).status == 200


async def test_backends_hear_what_env_says_now(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / ".env").touch(0o600)
    (home / ".env").write_text("MODAL_TOKEN_SECRET=as-first\n")
    async with ApiWorld(home=home, config="", provider=ScriptedModel(run_words)) as api:
        backends = api.app._agents.backends
        assert backends.variable(MAIN_AGENT, "MODAL_TOKEN_SECRET") == "as-first"
        (home / ".env").write_text("MODAL_TOKEN_SECRET=as-second\n")
        after, _ = await api.app._agents.succeed(load_settings(home, {}))
        assert after.backends.variable(MAIN_AGENT, "MODAL_TOKEN_SECRET") == "as-second"
        await after.retire()


async def test_an_agent_that_is_removed_while_it_works_ends_its_turn_cleanly(tmp_path: Path) -> None:
    hold = asyncio.Event()
    home, world = tmp_path / "home", World()
    config = (
        "platforms: {fake: {allow_all_users: true}}\nagents: {bee: {}}\nstreaming: {enabled: false}\n"
        "display: {busy_input_mode: queue}\nroutes: [{match: {chat_id: c}, agent: bee}]\n"
    )
    model = ScriptedModel([Say(text="the end", hold=hold), say("from main")])
    accounts = {"fake": fake_platform("edits", world)}
    async with ApiWorld(home=home, config=config, provider=model, accounts=accounts) as api:
        world.write("hello", chat="c", user="u")
        await until(lambda: bool(model.requests))
        world.write("and then?", chat="c", user="u")
        while sum((await api.app.gateway.open_work()).turns.values()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        (home / "config.yaml").write_text("platforms: {fake: {allow_all_users: true}}\n")
        async with GatewayConnection(lambda: home / "gateway.sock") as line:
            report = await line.ask("/control/settings", {}, SettingsReport)
        assert "agents.bee" in report.changed
        hold.set()
        await until(lambda: "the end" in world.seen("c") and "There is no agent “bee”." in shown(world))
        world.write("who is there?", chat="c", user="u")
        await until(lambda: "from main" in world.seen("c"))
        sessions = await api.app.gateway.read(EVERY_AGENT, lambda tx: tx.sessions.find("", 9))
        assert {session.agent for session in sessions} == {"bee", "main"}, "its conversation stays"
        work = await api.app.gateway.open_work()
        assert not work.turns and not work.questions


async def test_each_key_lists_its_agents_and_each_answers_as_itself(tmp_path: Path) -> None:
    """As Open WebUI uses it: the models of a key are the agents that it may see."""
    home = tmp_path / "home"
    for agent in ("bee", "ant", "sub"):
        (home / "agents" / agent).mkdir(parents=True)
        (home / "agents" / agent / "SOUL.md").write_text(f"You are AGENT-{agent}.")
    config = (
        "agents: {bee: {}, ant: {}, sub: {mode: subagent}}\n"
        "platforms: {api_server: {keys: {garden: {key: a-key-for-the-garden-1, agents: [bee, sub]}}}}\n"
    )

    def answer(request: Request) -> Say:
        return say("AGENT-" + request.system.partition("AGENT-")[2].partition(".")[0])

    async with ApiWorld(home=home, config=config, provider=ScriptedModel(answer)) as api:
        garden = {"Authorization": "Bearer a-key-for-the-garden-1"}

        async def models(**headers: str) -> set[str]:
            heard = await api.get("/v1/models", headers=headers)
            return {model["id"] for model in heard.json["data"] if not model["id"].endswith(":task")}

        assert await models() == {"hermes-agent", "main", "bee", "ant"}
        assert await models(**garden) == {"bee"}
        for agent in ("bee", "ant"):
            assert said(await ask(api, agent)) == f"AGENT-{agent}"
            body = {"messages": [{"role": "user", "content": "hi"}]}
            assert said(await api.post(f"/p/{agent}/v1/chat/completions", body)) == f"AGENT-{agent}"
        assert said(await ask(api, "bee", **garden)) == "AGENT-bee"
        for refused in ("ant", "sub"):
            assert (await ask(api, refused, **garden)).status == 404
            path = f"/p/{refused}/v1/models"
            assert (await api.get(path, headers=garden)).status == 404
        assert (await ask(api, "sub")).status == 404, "people do not reach a subagent"


@pytest.mark.parametrize(("who", "wanted", "hears"), TASKS)
async def test_what_others_told_an_agent_does_not_reach_strangers_by_a_task(
    tmp_path: Path, who: str, wanted: str, hears: bool
) -> None:
    """Somebody who may not speak with an agent does not hear what it knows by letting their own ask it."""

    def answer(request: Request) -> Say:
        if "I know the combination" in request.system:
            return say(f"It says: {request.system}")
        done = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        order = {"goal": "say all that you were told", "agent": wanted}
        return say(done[-1].text) if done else call("delegate_task", json.dumps(order))

    home = tmp_path / "home"
    for agent in ("work", "helper"):
        (home / "agents" / agent).mkdir(parents=True)
        (home / "agents" / agent / "SOUL.md").write_text("I know the combination: 4711.")
    keys = ", ".join(
        (
            "one: {key: another long secret 1, agents: [front]}",
            "two: {key: another long secret 2, agents: [front, work]}",
            "boss: {key: another long secret 3, scopes: [admin], agents: [front]}",
        )
    )
    config = (
        f"platforms: {{api_server: {{keys: {{{keys}}}}}, telegram: {{allowed_users: [ann, bob], "
        "allow_admin_from: [ann]}}\nagents: {front: {}, work: {}, helper: {mode: subagent}}\n"
        "routes: [{match: {platform: telegram}, agent: front}]\n"
    )
    world = World()
    accounts = {"telegram": fake_platform("edits", world, "telegram")}
    async with ApiWorld(home=home, config=config, provider=ScriptedModel(answer), accounts=accounts) as api:
        if who.startswith("another"):
            heard = await ask(api, "front", Authorization=f"Bearer {who}")
            told = str(heard.json["choices"][0]["message"]["content"])
        else:
            world.write("hello", user=who)
            await until(lambda: "agent work" in shown(world) or "4711" in shown(world))
            told = shown(world)
    assert ("4711" in told) is hears, told
    assert hears or "takes tasks for the owner and admins alone" in told


async def test_an_agent_keeps_its_id_while_a_task_it_gave_is_under_way(tmp_path: Path) -> None:
    """The task would come back to nobody: it knows by whom it was given."""
    begun, over = asyncio.Event(), asyncio.Event()

    class Waiting(ScriptedModel):
        async def call(self, request: Request) -> AsyncIterator[ModelPiece]:
            if request.entries and "dig" in str(getattr(request.entries[0].record, "text", "")):
                begun.set()
                await over.wait()
            async for piece in super().call(request):
                yield piece

    def answer(request: Request) -> Say:
        done = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        said = last_words(request)
        return say(f"it says {said}") if done or said == "dig" else call("delegate_task", ORDER)

    config = "agents: {front: {}, helper: {mode: subagent}}\n"
    async with (
        ApiWorld(home=tmp_path / "home", config=config, provider=Waiting(answer)) as api,
        GatewayConnection(lambda: tmp_path / "home" / "gateway.sock") as line,
    ):
        asked = asyncio.create_task(ask(api, "front"))
        async with asyncio.timeout(60):
            await begun.wait()
            with pytest.raises(UserError, match="The agent front is at work"):
                await line.ask("/control/agent-idle", {"agent": "front"}, bool)
            over.set()
            assert (await asked).status == 200
            assert await line.ask("/control/agent-idle", {"agent": "front"}, bool)


@pytest.mark.parametrize("linked", ["agents/bee", "agents"])
async def test_what_is_behind_a_link_is_closed_to_other_agents(tmp_path: Path, linked: str) -> None:
    """Somebody may keep the folder of an agent, or of all, on another disk."""
    home, disk = tmp_path / "home", tmp_path / "disk"
    (home / linked).parent.mkdir(parents=True)
    (home / linked).symlink_to(disk)
    plan = disk / ("bee" if linked == "agents" else "") / "workspace" / "plan.txt"
    plan.parent.mkdir(parents=True)
    plan.write_text("the combination is 4711")

    def answer(request: Request) -> Say:
        done = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        return say(done[-1].text) if done else call("read_file", json.dumps({"path": str(plan)}))

    config = "agents: {bee: {}, ant: {}}\n"
    async with ApiWorld(home=home, config=config, provider=ScriptedModel(answer)) as api:
        assert "4711" in str((await ask(api, "bee")).json)
        for other in ("ant", "main"):
            assert "4711" not in str((await ask(api, other)).json), other


def test_no_link_makes_two_agents_share_a_home(tmp_path: Path) -> None:
    (tmp_path / "agents" / "bee").mkdir(parents=True)
    (tmp_path / "agents" / "ant").symlink_to("bee")
    (tmp_path / "config.yaml").write_text("agents:\n  bee: {}\n  ant: {}\n")
    (stop,) = load_settings(tmp_path, {}).stops
    assert stop.message == "The agents bee and ant share one home_dir."
