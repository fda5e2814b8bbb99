"""`hermes --agent` and `/agent`: whom a terminal speaks with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.live import SettingsReport
from hermes.entry.terminal.door import SessionChoice, TerminalState
from hermes.entry.terminal.remote import GatewayConnection, enter_remote
from hermes.testing.api import ApiWorld
from tests.cli.command import PATIENCE, hermes
from tests.cli.test_chat import chat

BEE = AgentId("bee")
AGENTS = "agents: {bee: {description: the garden}, ant: {mode: subagent}}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(AGENTS)
    return home


def agents_of(home: Path) -> list[str]:
    return [each["agent"] for each in json.loads(hermes(home, "sessions", "list", "--json").out)]


def test_a_terminal_speaks_with_the_agent_it_names(home: Path) -> None:
    assert chat(home, "--agent", "bee", "-z", "hello").out == "You said: hello\n"
    assert agents_of(home) == ["bee"]
    assert chat(home, "-z", "hello").out == "You said: hello\n"
    assert agents_of(home) == ["main", "bee"]


def test_the_default_agent_is_the_terminals_too(home: Path) -> None:
    (home / "config.yaml").write_text(AGENTS + "default_agent: bee\n")
    chat(home, "-z", "hello")
    assert agents_of(home) == ["bee"]


@pytest.mark.parametrize("name", ["wasp", "ant"])
def test_an_agent_that_nobody_speaks_with_is_refused(home: Path, name: str) -> None:
    said = chat(home, "--agent", name, "-q", "hello")
    assert said.code == 1 and said.err == f"hermes: There is no agent “{name}”. Known: bee, main.\n"


async def test_a_terminal_switches_to_another_agent_and_back(home: Path) -> None:
    async with (
        ApiWorld(home=home),
        GatewayConnection(lambda: home / "gateway.sock") as line,
    ):
        visit = await enter_remote(line, SessionChoice())
        door = visit.door
        assert visit.agent == "main"
        first = await door.say("hello", "1")
        listed = (await door.command("/agent")).text
        assert listed == "Agent main\n- main\n- bee: the garden"
        assert "Did you mean bee?" in (await door.command("/agent be")).text
        assert "There is no agent “ant”" in (await door.command("/agent ant")).text
        switched = await door.command("/agent bee")
        assert switched.agent == BEE and "bee now" in switched.text
        second = await door.say("hello", "2")
        assert (first.agent, second.agent) == ("main", BEE) and first.session != second.session
        assert [seen async for seen in door.watch(second.id, 0)], "it is watched"
        assert (await door.command("/agent")).text.startswith("Agent bee\n")
        back = await enter_remote(line, SessionChoice(named=second.session))
        assert back.agent == BEE and back.session is not None, "its session says whose it is"
        with pytest.raises(UserError, match="There is no session"):
            wish = SessionChoice(named=second.session, terminal=TerminalState(agent=AgentId("main")))
            await enter_remote(line, wish)


async def test_a_watcher_comes_to_the_end_although_the_agent_is_removed(home: Path) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        ApiWorld(home=home),
        GatewayConnection(lambda: home / "gateway.sock") as line,
    ):
        visit = await enter_remote(line, SessionChoice(terminal=TerminalState(agent=BEE)))
        turn = await visit.door.say("hello", "1")
        assert [seen async for seen in visit.door.watch(turn.id, 0)]
        (home / "config.yaml").write_text(AGENTS.replace("bee: {description: the garden}, ", ""))
        await line.ask("/control/settings", {}, SettingsReport)
        assert [seen async for seen in visit.door.watch(turn.id, 0)]
