"""A home that had a real model and lost it: people hear that nothing answers, never the demo model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.testing.api import ApiWorld
from hermes.testing.model_server import FakeModelServer
from hermes.testing.platform import fake_platform
from hermes.testing.world import World
from tests.cli.command import hermes
from tests.journeys.test_whole_gateway import until_seen

OPEN = "platforms: {fake: {allow_all_users: true}}\n"
QUIET = {"HERMES_NO_PROBE": "1"}
HI = {"model": "hermes-agent", "messages": [{"role": "user", "content": "hi"}]}


def living(home: Path, world: World, config: str, **environ: str) -> ApiWorld:
    accounts = {"fake": fake_platform("edits", world)}
    return ApiWorld(home=home, config=config, provider=None, accounts=accounts, environ=QUIET | environ)


async def had_a_real_one(home: Path, world: World) -> None:
    async with FakeModelServer() as server:
        config = f"{OPEN}model: {{default: fake-model, base_url: '{server.base_url}'}}\n"
        async with living(home, world, config):
            world.write("first", chat="1", user="Bob")
            await until_seen(world, "1", "first")


async def test_a_fresh_home_has_the_demo_model(tmp_path: Path) -> None:
    world = World()
    for _ in range(2):
        async with living(tmp_path / "home", world, OPEN) as api:
            assert "demo" in str((await api.post("/v1/chat/completions", HI)).json)


async def test_a_lost_model_is_not_replaced_by_the_demo_model(tmp_path: Path) -> None:
    home, world = tmp_path / "home", World()
    await had_a_real_one(home, world)
    for life in ("second", "third"):
        async with living(home, world, OPEN + "agents: {bee: {}}\n") as api:
            assert "fake-model by an OpenAI-compatible service answered here before" in api.app.choice.line
            world.write(f"{life}: help", chat="1", user="Bob")
            await until_seen(world, "1", "No model answers: fake-model by")
            for model in ("hermes-agent", "bee"):
                heard = await api.post("/v1/chat/completions", {**HI, "model": model})
                assert heard.status >= 400 and "No model answers" in str(heard.json)
        assert not [text for text in world.seen("1") if "demo model, not an AI" in text]
    async with living(home, world, OPEN + "model: demo\n"):
        world.write("fourth: help", chat="1", user="Bob")
        await until_seen(world, "1", "Offline demo model, not an AI")


async def test_an_address_that_is_back_answers_again(tmp_path: Path) -> None:
    home, world = tmp_path / "home", World()
    await had_a_real_one(home, world)
    async with living(home, world, OPEN):
        pass
    async with FakeModelServer() as server, living(home, world, OPEN, OPENAI_BASE_URL=server.base_url):
        world.write("back", chat="1", user="Bob")
        await until_seen(world, "1", "back")


@pytest.mark.parametrize("config", ["", "# nothing\n", "logging: {level: INFO}\n"])
def test_status_and_check_say_that_the_model_is_gone(tmp_path: Path, config: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(config)
    fresh = hermes(home, "config", "check", **QUIET)
    assert fresh.code == 0 and fresh.out.endswith("config ok\n")
    assert fresh.out.count("config.yaml is empty") == ("logging" not in config)
    state = {"gateway_state": "stopped", "model_name": "gpt-9", "model_provider": "openai"}
    (home / "gateway_state.json").write_text(json.dumps(state))
    checked = hermes(home, "config", "check", **QUIET)
    assert checked.code == 1 and "No model answers: gpt-9 by OpenAI answered here before" in checked.out
    shown = hermes(home, "status", **QUIET).out
    assert "gpt-9 by OpenAI answered here before" in shown and "offline demo model" not in shown
