"""The agent's own files, and what new sessions are told of memories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from hermes.app.agents.prompt import SystemPrompt
from hermes.domain.chats.address import Source
from hermes.domain.clock import SystemClock
from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import Memory
from hermes.domain.ports.world import World
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.tools.toolbox import Toolbox
from hermes.state.memory.files import read_soul, write_first_soul


def test_a_link_is_followed_and_bad_bytes_are_read(tmp_path: Path) -> None:
    assert read_soul(tmp_path) == ""
    (tmp_path / "elsewhere.md").write_bytes(b"caf\xe9")
    (tmp_path / "SOUL.md").symlink_to(tmp_path / "elsewhere.md")
    assert read_soul(tmp_path) == "caf\ufffd"


async def test_memories_are_asked_side_by_side_and_told_in_their_order(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class First:
        async def notes(self) -> Mapping[str, str]:
            await asked.wait()
            return {"First": "one"}

    class Second:
        async def notes(self) -> Mapping[str, str]:
            asked.set()
            return {"Second": "two"}

    prompt = _prompt(tmp_path, {"first": First(), "second": Second()})
    async with asyncio.timeout(30):
        text = (await prompt.freeze(None, None)).context or ""
    assert 0 <= text.index("# First\none") < text.index("# Second\ntwo")


async def test_a_crowd_of_new_sessions_reads_the_prompt_once(tmp_path: Path) -> None:
    asked, answer = 0, asyncio.Event()

    class Slow:
        async def notes(self) -> Mapping[str, str]:
            nonlocal asked
            asked += 1
            await answer.wait()
            return {"Notes": "one"}

    prompt = _prompt(tmp_path, {"slow": Slow()})
    crowd = [asyncio.ensure_future(prompt.freeze(None, None)) for _ in range(20)]
    crowd.append(asyncio.ensure_future(prompt.freeze(None, None)))
    await asyncio.sleep(0)
    crowd.pop(0).cancel()  # whoever goes away takes nobody with them
    answer.set()
    async with asyncio.timeout(30):
        frozen = await asyncio.gather(*crowd)
    assert {"# Notes\none" in (each.context or "") for each in frozen} == {True}
    assert asked <= 2


def _prompt(home: Path, memories: Mapping[str, Memory]) -> SystemPrompt:
    async def no_world(source: Source | None, folder: str | None, session: str) -> World:
        raise Unreachable("nowhere")

    return SystemPrompt(
        profile=Profile(agent=MAIN_AGENT, home=home, settings=Settings()),
        toolbox=Toolbox(()),
        place=no_world,
        files=lambda source, folder, session: None,
        model="m",
        clock=SystemClock(),
        memories=memories,
    )


def test_a_new_agent_gets_a_soul_to_change_and_keeps_its_own(tmp_path: Path) -> None:
    write_first_soul(tmp_path, "You are new.")
    assert read_soul(tmp_path) == "You are new.\n"
    write_first_soul(tmp_path, "You are newer.")
    assert read_soul(tmp_path) == "You are new.\n"
