"""`hermes config apply` inside a running gateway: what it tries again, whom it asks afterwards, and what it
does when a plugin breaks on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.app.app import App
from hermes.app.generations import SettingsGenerations
from hermes.app.overrides import AppOverrides
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.testing.model_server import FakeModelServer

BEE = AgentId("bee")


class Running(App):
    """Lets a test apply the settings."""

    generations: SettingsGenerations

    def _generations(self, *parts: Any) -> SettingsGenerations:
        self.generations = super()._generations(*parts)
        return self.generations


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[Running]:
    app = Running(home, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
    async with asyncio.timeout(40), app.running():
        yield app


async def test_an_agent_that_was_put_right_outside_the_settings_is_there_again(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agents: {bee: {}}\n")
    secrets = tmp_path / "agents" / "bee" / ".env"
    secrets.parent.mkdir(parents=True, mode=0o700)
    secrets.write_text("TELEGRAM_BOT_TOKEN=123:abc\n")
    async with running(tmp_path) as app:
        with pytest.raises(UserError, match="then: hermes config apply"):
            await app.gateway.agents.get(BEE)
        secrets.unlink()
        with pytest.raises(UserError, match="then: hermes config apply"):
            await app.gateway.agents.get(BEE)
        assert (await app.generations.apply()).changed == ("agents.bee .env",)
        assert (await app.gateway.agents.get(BEE)).profile.agent == BEE


async def test_what_a_connection_or_port_is_made_from_waits_for_a_restart(tmp_path: Path) -> None:
    app = Running(tmp_path, {"HERMES_NO_PROBE": "1"})
    async with asyncio.timeout(40), app.running():
        (tmp_path / ".env").write_text("WEBHOOK_PORT=28644\nTELEGRAM_BOT_TOKEN=1:abc\n")
        report = await app.generations.apply()
        assert report.waits == ("TELEGRAM_BOT_TOKEN", "WEBHOOK_PORT") and {*report.waits} <= {*report.changed}
        again = await app.generations.apply()
        assert again.changed == () and again.waits == report.waits, "it is told until the restart"
        (tmp_path / ".env").write_text("WEBHOOK_PORT=28644\nOTHER=2\nTELEGRAM_BOT_TOKEN__WORK=1:def\n")
        assert (await app.generations.apply()).waits == ("TELEGRAM_BOT_TOKEN__WORK", "WEBHOOK_PORT")


async def test_the_models_of_the_server_of_now_are_offered(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    async with FakeModelServer([], models=["old"]) as old, FakeModelServer([], models=["new"]) as new:
        config.write_text(f"model: {{default: m, base_url: '{old.base_url}'}}\n")
        async with running(tmp_path) as app:
            chores, models = app.gateway.chores, lambda: app._agents.models
            await chores.run("model list")
            before = models().offered(MAIN_AGENT)
            config.write_text(f"model: {{default: m, base_url: '{new.base_url}'}}\n")
            await app.generations.apply()
            if app._retiring._tasks:
                await asyncio.wait(app._retiring._tasks)
            after = models().offered(MAIN_AGENT)
            await chores.run("model list")
            assert chores.states["model list"].ok
            assert [*before, *after, *models().offered(MAIN_AGENT)] == ["old", "new", "new"]


async def test_a_plugin_that_breaks_refuses_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as app:
        before = await app.gateway.agents.get(MAIN_AGENT)

        def broken(*given: object) -> None:
            raise ValueError("no licence")

        monkeypatch.setattr("hermes.app.agents.factory.AgentFactory._toolbox", broken)
        (tmp_path / "config.yaml").write_text("agents: {bee: {}}\n")
        with pytest.raises(UserError, match=r"^ValueError: no licence\. The settings from before count\.$"):
            await app.generations.apply()
        assert await app.gateway.agents.get(MAIN_AGENT) is before and BEE not in app.gateway.agents
        monkeypatch.undo()
        assert (await app.generations.apply()).changed == ("agents.bee",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: {provider: nowhere}", r"model\.provider: the provider “nowhere” is not known"),
        ("model: {base_url: 'http://127.0.0.1:9/v1', api_mode: smoke}", r"model\.api_mode: the wire format"),
        ("agents: {bee: {provider: nowhere}}", r"agents\.bee\.provider: the provider “nowhere” is not known"),
    ],
)
async def test_a_provider_that_does_not_exist_is_refused(tmp_path: Path, text: str, words: str) -> None:
    async with running(tmp_path) as app:
        before = app.choice
        (tmp_path / "config.yaml").write_text(f"{text}\n")
        with pytest.raises(UserError, match=words):
            await app.generations.apply()
        assert app.choice == before and app._live.generation == 1


async def test_sources_that_are_slow_to_close_do_not_wait_for_each_other(tmp_path: Path) -> None:
    app = Running(tmp_path, {}, AppOverrides(platforms={}, tools=()))
    together = asyncio.Barrier(3)

    class Slow:
        async def close(self) -> None:
            await together.wait()

    app._agents._sources = {AgentId(str(number)): Slow() for number in range(3)}  # type: ignore[misc]
    async with asyncio.timeout(10):
        await app._agents.retire()
