"""Models at several providers: a session's model reaches the provider that it names, also after a restart;
a limit that an error states is remembered; status tells how providers are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import Submission
from hermes.domain.event import Entry, ModelSaid
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.turn import Guidance, TurnInput
from hermes.testing.model_script import RawReply, Reply
from hermes.testing.model_server import FakeModelServer
from tests.agent.test_routes import CLIENT

CONFIG = """
model: {{default: main-model, base_url: '{main}'}}
providers:
  house: {{base_url: '{house}', api_key: key-of-the-house, extra_headers: {{X-Team: blue}}, model: big}}
"""


@asynccontextmanager
async def gateway(home: Path, main: FakeModelServer, house: FakeModelServer) -> AsyncIterator[App]:
    (home / "config.yaml").write_text(CONFIG.format(main=main.base_url, house=house.base_url))
    app = App(home, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
    async with asyncio.timeout(60), app.running():
        yield app


async def say(app: App, text: str, model: str = "") -> str:
    given = TurnInput(text=text, guidance=Guidance(model=model))
    turn = await app.gateway.submit(Submission(agent=MAIN_AGENT, source=CLIENT, input=given))
    entries = [seen async for seen in app.gateway.watch(MAIN_AGENT, turn.id)]
    records = [entry.record for entry in entries if isinstance(entry, Entry)]
    return next((one.text for one in records if isinstance(one, ModelSaid)), str(records[-1]))


async def test_a_model_of_another_provider_reaches_that_provider(tmp_path: Path) -> None:
    async with (
        FakeModelServer([Reply(text="main")]) as main,
        FakeModelServer([Reply(text="house")] * 2) as house,
    ):
        async with gateway(tmp_path, main, house) as app:
            assert await say(app, "hello", "custom:house:big") == "house"
            assert await say(app, "hello") == "main"
        async with gateway(tmp_path, main, house) as app:
            assert await say(app, "hello", "custom:house:other:latest") == "house"
            assert "no provider is called “hose”" in await say(app, "hello", "custom:hose:big")
            assert "XAI_API_KEY is not set" in await say(app, "hello", "xai:grok-4")
    asked = [request for request in house.requests if request.method == "POST"]
    assert [request.model for request in asked] == ["big", "other:latest"]
    assert asked[0].headers["X-Team"] == "blue"
    assert asked[0].headers["Authorization"] == "Bearer key-of-the-house"
    assert all("Authorization" not in request.headers for request in main.requests)


async def test_a_limit_that_an_error_states_is_remembered(tmp_path: Path) -> None:
    words = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
    error = {"error": {"message": words, "code": "context_length_exceeded"}}
    async with (
        FakeModelServer([RawReply(status=400, body=json.dumps(error).encode())]) as main,
        FakeModelServer(models=("big",)) as house,
    ):
        async with gateway(tmp_path, main, house) as app:
            assert app._agents.models.window(MAIN_AGENT) is None
            assert "longer than this model can read" in await say(app, "hello")
            assert app._agents.models.window(MAIN_AGENT) == 8192
            (health,) = app._agents.models.places.health()
            assert "longer than this model can read" in health["call_fault"]
        async with gateway(tmp_path, main, house) as app:
            assert app._agents.models.window(MAIN_AGENT) == 8192
            assert app._agents.models.window(MAIN_AGENT, "gpt-4.1") is None, "it runs on this machine"
            assert app._agents.models.window(MAIN_AGENT, "openai:gpt-4.1") == 1_047_576


async def test_what_a_provider_lists_is_kept_with_how_it_is(tmp_path: Path) -> None:
    async with FakeModelServer(models=("main-model", "other")) as main, FakeModelServer() as house:
        async with gateway(tmp_path, main, house) as app:
            models = app._agents.models
            assert await models.refresh() == "2 models offered"
            (health,) = models.places.health()
            assert (health["models"], health["fault"]) == (2, "")
            assert list(models.offered(MAIN_AGENT)) == ["main-model", "other"]
