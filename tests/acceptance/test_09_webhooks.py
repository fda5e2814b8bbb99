"""An event from outside wakes the agent once, whichever way it is signed and however often it is sent; the
answer goes where the route says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel
from hermes.testing.platform import fake_platform
from hermes.testing.world import World
from tests.acceptance.cut_api import cut_everywhere
from tests.acceptance.telling import comes, counted
from tests.entry.http.test_webhooks import CONFIG, EVENT, send

WORLDS: dict[Path, World] = {}


def make(folder: Path) -> ApiWorld:
    world = WORLDS.setdefault(folder, World())
    accounts = {"fake": fake_platform("edits", world)}
    return ApiWorld(home=folder / "home", config=CONFIG, provider=ScriptedModel(), accounts=accounts)


async def talk(api: ApiWorld) -> None:
    """One event for the agent, one that is only passed on; the sender tries again as senders do."""
    world = WORLDS[api.home.parent]
    for route, payload in (("chat", EVENT), ("relay", {**EVENT, "room": "77"})):
        for _ in range(3):
            assert (await send(api, route, payload, delivery=f"d-{route}")).status in (200, 202)

    async def over() -> bool:
        told = any("You said:" in text for text in world.seen("77")) and "Build t" in world.seen("77")
        return told and not (await api.app.gateway.open_work()).turns

    await comes(over)
    assert counted(world, "You said:", "77") == 1 and counted(world, "Build t", "77") == 1
    assert not any("▉" in text for text in world.seen())
    sessions = await api.app.store.read(lambda tx: tx.sessions.find(""))
    assert [one.place for one in sessions if "chat" in (one.place or "")] == ["webhook:chat:d-chat"]


async def test_an_event_and_its_repeats(tmp_path: Path) -> None:
    async with make(tmp_path) as api:
        await talk(api)
        refused = await api.ask("POST", "/webhooks/chat", data=json.dumps(EVENT).encode())
        assert refused.status == 401
        assert counted(WORLDS[tmp_path], "You said:", "77") == 1


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, make, talk, after=after, full=full)
