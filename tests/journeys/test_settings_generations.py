"""What another generation of settings changes for whom: a turn that runs keeps what it began with, access and
everything else count as they are now, and no secret of either generation is told."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from hermes.agent.danger.judge import judge_command
from hermes.app.agents.registry import AgentRegistry
from hermes.app.agents.world_scopes import WorldScopes, locks_of
from hermes.app.generations import differences
from hermes.control.core import Runtime
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import SettingsError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.store import Tx
from hermes.domain.ports.world import World
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import ApprovalSettings, DisplaySettings, HostedAgent, Profile, Settings
from hermes.domain.turns.session import FrozenPrompt, Session, begin_session, make_turn, session_key
from hermes.domain.turns.turn import Cause, TurnInput
from hermes.domain.word import replace
from hermes.state.settings.loader import check_agent_secrets, load_settings
from hermes.state.settings.secrets import Secrets
from hermes.state.store.writer import SqliteStore
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, ScriptedModel
from hermes.testing.store_suite.samples import NOW


async def test_a_turn_keeps_what_it_began_with_and_access_counts_now(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with Journey(folder=tmp_path, kind="plain", script=[Say(text="old", hold=hold)]) as chat:
        core = chat.gateway._parts
        before = await core.agents.get(MAIN_AGENT)
        chat.world.write("first")
        await chat.until(lambda: len(chat.model.requests) == 1)
        built = await _renewed(chat, before)
        chat.world.write("second")
        await chat.until_taken()
        core.live.adopt(replace(core.live.now, platforms={"fake": PlatformSettings(dm_policy="disabled")}))
        chat.world.write("third, from somebody who is let in no more")
        await chat.until_taken()
        hold.set()
        await chat.until_seen("old", "new: second")
        await chat.until_idle()
        assert built.asked == 1, "the running turn was moved, or the closed door was open"


async def test_who_comes_through_a_door_meanwhile_gets_the_agent_of_now(tmp_path: Path) -> None:
    """A door has the runtime before its turn is at work, and nobody waits for a door before retiring it."""
    freezing, hold = asyncio.Event(), asyncio.Event()
    async with Journey(folder=tmp_path, kind="plain", script=[Say(text="old")]) as chat:
        before = await chat.gateway.agents.get(MAIN_AGENT)

        async def freeze(session: Session | None, source: Source | None) -> FrozenPrompt:
            freezing.set()
            await hold.wait()
            return FrozenPrompt(text="old", tool_list="[]")  # its sources were closed

        agents = cast(AgentRegistry, chat.gateway.agents)
        agents._built[MAIN_AGENT] = replace(before, prompt=freeze)
        source = Source(address=Address(platform="api", chat="c"), kind=SourceKind.API, user="u")
        words = Submission(agent=MAIN_AGENT, source=source, input=TurnInput(text="hello"))
        asking = asyncio.create_task(chat.gateway.submit(words))
        await freezing.wait()
        built = await _renewed(chat, before)
        hold.set()
        turn = await asking
        await chat.until_idle()
        session = await before.store.read(lambda tx: tx.sessions.get(turn.session))
        assert built.asked == 1, "the agent that answered was retired"
        assert session is not None and session.tool_list not in (None, "[]"), "it keeps what was retired"


class _Renewed:
    asked = 0


async def _renewed(chat: Journey, before: Runtime) -> _Renewed:
    """Put another main agent in place, as adopting settings does."""
    counted = _Renewed()

    def answer(request: object) -> Say:
        counted.asked += 1
        return Say(text="new: second")

    chat.script = answer  # type: ignore[assignment]
    chat.model = ScriptedModel(answer)  # type: ignore[arg-type]
    after = await chat._runtime(MAIN_AGENT)

    async def release(agent: object) -> bool:
        return True

    agents = chat.gateway.agents
    agents.renew((MAIN_AGENT,), chat._runtime, release, after)  # type: ignore[attr-defined]
    return counted


def test_what_changed_is_named_by_its_keys() -> None:
    old = open_settings(agents={"bee": HostedAgent()})
    new = replace(old, agents={"ant": HostedAgent()}, display=DisplaySettings(), timezone="Europe/Vienna")
    changed = differences(old, new)
    assert {"agents.bee", "agents.ant", "timezone"} <= set(changed)
    assert differences(new, new) == [] and differences(Settings(), Settings()) == []


def test_secrets_of_both_generations_are_hidden() -> None:
    old, new = Secrets({"A_KEY": "old-secret-value-1"}), Secrets({"A_KEY": "new-secret-value-2"})
    new.join(old)
    for secrets in (old, new):
        text = secrets.redact("x old-secret-value-1 y new-secret-value-2 z")
        assert text == "x ‹secret› y ‹secret› z"
    assert new.values() == {"A_KEY": "new-secret-value-2"}


def test_every_generation_hides_the_secrets_of_all() -> None:
    first, second, third = (Secrets({"A_KEY": f"secret-of-the-{name}"}) for name in ("one", "two", "three"))
    second.join(first)
    third.join(first)  # as a gateway does: it holds the one it started with
    third.learn("made-later-by-somebody")
    told = "secret-of-the-one secret-of-the-two secret-of-the-three made-later-by-somebody"
    told += " c2VjcmV0LW9mLXRoZS10aHJlZQ=="  # the third, in base64
    for secrets in (first, second, third):
        assert "secret-" not in secrets.redact(told) and "made" not in secrets.redact(told)
        assert "c2VjcmV0" not in secrets.redact(told), "an encoded one was told"
    assert [one.values()["A_KEY"][-3:] for one in (first, second, third)] == ["one", "two", "ree"]


def test_a_platforms_token_does_not_belong_to_an_agent(tmp_path: Path) -> None:
    check_agent_secrets(tmp_path)  # no file, no problem
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-1234567890abcdef\nTELEGRAM_BOT_TOKEN=123:abc\n")
    with pytest.raises(SettingsError, match=r"\.env:2: TELEGRAM_BOT_TOKEN does not belong to an agent"):
        check_agent_secrets(tmp_path)


async def test_approvals_count_as_they_are_now(tmp_path: Path) -> None:
    live = LiveSettings(Settings())
    profile = Profile(agent=MAIN_AGENT, home=tmp_path, settings=Settings())
    scopes = WorldScopes(profile, (), lambda: locks_of(live.now))
    place = str(tmp_path)
    world = World(workspace=place, home=place, system="Linux", shell="sh", host_files=True)
    assert not (await scopes.of(world)).deny
    live.adopt(Settings(approvals=ApprovalSettings(deny=("rm *",))))
    assert (await scopes.of(world)).deny == ("rm *",)
    config = "approvals: {mode: off}\nagents: {helper: {approvals: {mode: off}}}\ncommand_allowlist: [ls]\n"
    (tmp_path / "config.yaml").write_text(config)
    for told, asked in (({"HERMES_EXEC_ASK": "1"}, True), ({"HERMES_EXEC_ASK": "maybe"}, True), ({}, False)):
        live.adopt(load_settings(tmp_path, told).settings.of(AgentId("helper")))
        assert judge_command("ls", await scopes.of(world)).locked is asked, told


async def test_turns_of_agents_that_are_gone_hide_no_others(tmp_path: Path) -> None:
    gone = AgentId("gone")
    async with SqliteStore(tmp_path / "state.db") as store:
        for number, agent in enumerate([*[gone] * 300, MAIN_AGENT]):
            await store.scoped(agent).write(partial(_left_turn, agent, number))
    async with Journey(folder=tmp_path, kind="plain") as chat:
        await chat.until(lambda: len(chat.model.requests) == 1)


def _left_turn(agent: AgentId, number: int, tx: Tx) -> None:
    source = Source(address=Address(platform="fake", chat=f"c{number}"), kind=SourceKind.PRIVATE, user="u")
    session = begin_session(session_key(source, agent), source, NOW)
    tx.sessions.add(session)
    tx.turns.add(make_turn(session, Cause.MESSAGE, TurnInput(text="left behind"), NOW))
