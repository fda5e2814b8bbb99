"""Titles and descriptions of pictures through a whole gateway, with models of their own behind HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.turns.turn import TurnInput
from hermes.testing.harness import PATIENCE
from hermes.testing.model_script import Reply
from hermes.testing.model_server import FakeModelServer

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
ANN = Source(address=Address(platform=LOCAL_DOOR, chat="a"), kind=SourceKind.PRIVATE, user="ann")


async def titled(app: App) -> str | None:
    async with asyncio.timeout(PATIENCE):
        while True:
            (session,) = await app.gateway.read(MAIN_AGENT, lambda tx: tx.sessions.find(""))
            if session.title is not None:
                return session.title
            await asyncio.sleep(0.01)


async def talk(app: App, *pictures: bytes) -> None:
    files = tuple([await app.gateway.keep_media(MAIN_AGENT, data, "image/png") for data in pictures])
    words = TurnInput(text="What a house!", attachments=files)
    turn = await app.gateway.submit(
        Submission(agent=MAIN_AGENT, source=ANN, input=words, place=SessionTarget(bind=True))
    )
    async with asyncio.timeout(PATIENCE):
        [_ async for _ in app.gateway.watch(MAIN_AGENT, turn.id)]


async def test_a_title_and_a_description_by_their_own_models(tmp_path: Path) -> None:
    async with (
        FakeModelServer([Reply(text="It is red.")]) as main,
        FakeModelServer([Reply(text='"House in Red".')]) as titles,
        FakeModelServer([Reply(text="A red house.")]) as eyes,
    ):
        (tmp_path / "config.yaml").write_text(
            f"model: {{default: main-model, base_url: '{main.base_url}'}}\n"
            "models: {main-model: {images: false}}\n"
            "auxiliary:\n"
            f"  title_generation: {{model: tiny, base_url: '{titles.base_url}'}}\n"
            f"  vision: {{model: sees, base_url: '{eyes.base_url}'}}\n"
        )
        app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
        async with asyncio.timeout(2 * PATIENCE), app.running():
            await talk(app, PNG)
            assert await titled(app) == "House in Red"
            (session,) = await app.gateway.read(MAIN_AGENT, lambda tx: tx.sessions.find(""))
            groups = await app.gateway.read(MAIN_AGENT, lambda tx: tx.usage.of_session(session.id))
    assert {group.key for group in groups} == {
        ("main-model", "main"),
        ("tiny", "title"),
        ("sees", "vision"),
    }
    assert "A red house." in str(main.requests[0].messages) and "image_url" not in str(
        main.requests[0].messages
    )
    assert "image_url" in str(eyes.requests[0].messages)


@pytest.mark.parametrize(
    ("config", "title"),
    [("model: demo\n", "help"), ("model: demo\nauxiliary: {title_generation: {enabled: false}}\n", None)],
)
async def test_the_demo_model_makes_no_titles(tmp_path: Path, config: str, title: str | None) -> None:
    (tmp_path / "config.yaml").write_text(config)
    app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
    async with asyncio.timeout(2 * PATIENCE), app.running():
        turn = await app.gateway.submit(
            Submission(
                agent=MAIN_AGENT, source=ANN, input=TurnInput(text="help"), place=SessionTarget(bind=True)
            )
        )
        [_ async for _ in app.gateway.watch(MAIN_AGENT, turn.id)]
        if title is None:
            runtime = await app.gateway.agents.get(MAIN_AGENT)
            assert runtime.title is None
        else:
            assert await titled(app) == title
