"""Models at several providers: a session's model reaches the provider that it names, also after a restart;
a limit that an error states is remembered; status tells how providers are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.agent.models.choose import ModelChoice
from hermes.agent.models.servers import ModelListing, OfferedModel
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.callers import Caller
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.usage import Usage
from hermes.domain.settings.settings import ModelFactSettings
from hermes.domain.turns.event import Entry, ModelSaid
from hermes.domain.turns.turn import Guidance, TurnInput
from hermes.domain.word import replace
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
        FakeModelServer(lambda request: Reply(text="main")) as main,
        FakeModelServer(lambda request: Reply(text="house")) as house,
    ):
        async with gateway(tmp_path, main, house) as app:
            assert await say(app, "hello", "custom:house:big") == "house"
            assert await say(app, "hello") == "main"
        async with gateway(tmp_path, main, house) as app:
            assert await say(app, "hello", "house:other:latest") == "house"
            assert "no provider is called “hose”" in await say(app, "hello", "custom:hose:big")
            assert "XAI_API_KEY is not set" in await say(app, "hello", "xai:grok-4")
    asked = [request for request in house.requests if request.method == "POST"]
    assert list(dict.fromkeys(request.model for request in asked)) == ["big", "other:latest"]
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
            assert "The conversation is longer than main-model can read" in await say(app, "hello")
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


async def test_a_window_that_an_error_stated_holds_until_the_server_lists_another(tmp_path: Path) -> None:
    async with by("main") as main, by("house") as house, gateway(tmp_path, main, house) as app:
        places = app._agents.models.places
        here = app._agents.models.choice
        far = replace(here, base_url="https://far.example/v1")
        words = "the request exceeds the available context size (4096 tokens), try increasing it"
        fault = ModelFault("too long", kind=FaultKind.TOO_LONG, quote=words)
        listing = ModelListing(models=(OfferedModel(name="main-model", window=32_768),), status=200)

        def window(choice: ModelChoice) -> int | None:
            return places.facts(choice, replace(app.loaded.settings.model, default="main-model")).window

        for choice in (here, far):
            await places.tell_listing(choice, listing)
            await places.tell_call(choice.base_url, "main-model", fault)
            assert window(choice) == 4096
            await places.tell_listing(choice, listing)
        assert window(here) == 32_768, "a server here lists how it was started"
        assert window(far) == 4096, "it listed as much before, and did not read it"
        newer = ModelListing(models=(OfferedModel(name="main-model", window=16_384),), status=200)
        await places.tell_listing(far, newer)
        assert window(far) == 16_384


async def test_what_the_settings_know_of_a_model_reaches_its_service(tmp_path: Path) -> None:
    text = (
        "model: {{default: claude-new, base_url: '{url}', api_mode: anthropic_messages}}\n"
        "models: {{claude-new: {{max_output: 64000}}}}\n"
    )
    async with FakeModelServer(lambda request: Reply(text="hi")) as server:
        (tmp_path / "config.yaml").write_text(text.format(url=server.base_url.removesuffix("/v1")))
        app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
        async with asyncio.timeout(60), app.running():
            assert await say(app, "hello") == "hi"
        asked = [request.wire for request in server.requests if request.method == "POST"]
        assert asked[0]["max_tokens"] == 64_000


# --- /model

DESK = Source(address=Address(platform=LOCAL_DOOR, chat="cli"), kind=SourceKind.PRIVATE, user="owner")


async def type_in(app: App, text: str, source: Source = DESK) -> str:
    return (await app.gateway.command(Caller(agent=MAIN_AGENT, source=source), text)).text


async def say_here(app: App, text: str) -> str:
    given = TurnInput(text=text)
    turn = await app.gateway.submit(Submission(agent=MAIN_AGENT, source=DESK, input=given))
    seen = [one async for one in app.gateway.watch(MAIN_AGENT, turn.id) if isinstance(one, Entry)]
    return next(one.record.text for one in seen if isinstance(one.record, ModelSaid))


def by(name: str) -> FakeModelServer:
    models = ("main-model", "other") if name == "main" else ("big-model-70b", "big-model-8b", "tiny")
    used = Usage(prompt=90_000, completion=10)
    return FakeModelServer(lambda request: Reply(text=f"{name}: {request.model}", usage=used), models=models)


async def test_a_session_keeps_its_model_and_provider_over_a_restart(tmp_path: Path) -> None:
    async with by("main") as main, by("house") as house:
        async with gateway(tmp_path, main, house) as app:
            assert "Model: main-model (an OpenAI-compatible service)" in await type_in(app, "/model")
            assert "Also at: custom:house" in await type_in(app, "/model")
            assert await say_here(app, "hello") == "main: main-model"
            chosen = await type_in(app, "/model tiny --provider house")
            assert chosen.startswith("This session answers with custom:house:tiny from now on.")
            assert await say_here(app, "hello") == "house: tiny"
        async with gateway(tmp_path, main, house) as app:
            assert await say_here(app, "hello") == "house: tiny"
            asked = [request for request in house.requests if request.method == "POST"][-1]
            assert [one["content"] for one in asked.messages if one["role"] == "user"].count("hello") == 3
            assert "custom:house:big-model-70b" in await type_in(app, "/model custom:house:70B")
            assert "the default again: main-model" in await type_in(app, "/model default")
            assert await say_here(app, "hello") == "main: main-model"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/model model --provider house", "“model” fits 2 models: big-model-8b, big-model-70b."),
        ("/model tinny --provider house", "There is no model “tinny” here. Did you mean tiny?"),
        ("/model othr --refresh", "There is no model “othr” here. Did you mean other?"),
        ("/model x --provider hosue", "The provider “hosue” is not known. Did you mean custom:house?"),
        ("/model x --provider xai", "XAI_API_KEY is not set. hermes config set XAI_API_KEY …"),
        ("/model --local", "/model does not understand --local."),
        ("/model --provider", "/model does not understand --provider."),
        ("/model other --global --session", "for this session or for all, not for both."),
    ],
)
async def test_what_is_meant_is_asked_with_its_remedy(tmp_path: Path, line: str, words: str) -> None:
    async with by("main") as main, by("house") as house, gateway(tmp_path, main, house) as app:
        assert words in await type_in(app, line)


async def test_a_model_for_everybody_is_written_down(tmp_path: Path) -> None:
    async with by("main") as main, by("house") as house:
        async with gateway(tmp_path, main, house) as app:
            stranger = replace(CLIENT, address=Address(platform="api", chat="s2"))
            assert "Only an admin" in await type_in(app, "/model tiny --provider house --global", stranger)
            assert "The default model is now custom:house:tiny" in await type_in(
                app, "/model tiny --provider house --global"
            )
            assert await say_here(app, "hello") == "house: tiny"
        text = (tmp_path / "config.yaml").read_text()
        assert "custom:house:tiny" in text
        app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
        async with asyncio.timeout(60), app.running():
            assert await say_here(app, "hello") == "house: tiny"
            assert app.choice.provider == "custom:house"
            assert "is now custom:house:big-model-8b" in await type_in(app, "/model big-model-8b --global")


async def test_a_session_elsewhere_gets_its_title_there(tmp_path: Path) -> None:
    async with by("main") as main, by("house") as house, gateway(tmp_path, main, house) as app:
        source = replace(DESK, address=Address(platform="scripted", chat="1"))
        named = TurnInput(text="hello", guidance=Guidance(model="custom:house:tiny"))
        turn = await app.gateway.submit(Submission(agent=MAIN_AGENT, source=source, input=named))
        async with asyncio.timeout(30):
            while True:
                session = await app.store.read(lambda tx: tx.sessions.get(turn.session))
                if session is not None and session.title:
                    break
                await asyncio.sleep(0.01)
    assert not [request for request in main.requests if request.method == "POST"], "nobody named it"
    assert [request.model for request in house.requests if request.method == "POST"] == ["tiny", "tiny"]


async def test_a_history_that_no_longer_fits_is_said(tmp_path: Path) -> None:
    async with by("main") as main, by("house") as house, gateway(tmp_path, main, house) as app:
        await say_here(app, "hello")
        app.loaded.settings.models["other"] = ModelFactSettings(context_length=8000, tools=False)
        words = await type_in(app, "/model other")
        assert "has about 90,010 tokens, more than it reads (8,000)" in words and "no tools" in words
