"""The gateway as it is put together for a home: its agent writes to other chats, with files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import ToolFinished
from hermes.testing.api import ApiWorld
from hermes.testing.harness import PATIENCE
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.platform import fake_platform
from hermes.testing.world import World

CONFIG = """
platforms: {fake: {allowed_users: [Bob], home_channel: home}}
agents: {other: {}}
"""


async def until_seen(world: World, chat: str, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if any(text in seen for seen in world.seen(chat)):
                return
            await asyncio.sleep(0.01)


async def test_a_report_goes_to_the_home_channel_with_its_chart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for path, data in (
        ("workspace/chart.png", "picture"),
        ("agents/other/workspace/notes.txt", "another agent's"),
        (".env", "KEY=secret"),
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(data)
    (home / ".env").chmod(0o600)
    paths = ("workspace/chart.png", "agents/other/workspace/notes.txt", ".env")
    text = "\n".join(["The report", *(f"MEDIA:{home / path}" for path in paths)])

    def script(request: ModelRequest) -> Say:
        results = [one.record for one in request.entries if isinstance(one.record, ToolFinished)]
        if results:
            return say(f"done: {results[-1].text}")
        return call("send_message", json.dumps({"target": "fake, fake:#team", "message": text}), id="c1")

    world = World()
    (home / "channel_aliases.json").write_text('{"fake": {"77": "team"}}')
    api = ApiWorld(
        home=home,
        config=CONFIG,
        provider=ScriptedModel(script),
        accounts={"fake": fake_platform("edits", world)},
    )
    async with api:
        world.write("report to fake:#team, please", chat="1", user="Bob")
        await until_seen(world, "1", "done: On its way to fake:home, fake:77.")
        for chat in ("home", "77"):
            await until_seen(world, chat, "📎 image: chart.png")
            [words, files] = world.seen(chat)
            assert words.startswith("The report") and files == "📎 image: chart.png"
            assert words.count("it is outside of the folders that files may be sent from") == 2
