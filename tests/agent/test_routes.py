"""Names for models: a turn that asks for one is answered by the model behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hermes.agent.models.registry import ModelRoute, RoutedProvider
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.turns.event import Entry, ModelSaid
from hermes.domain.turns.turn import Guidance, TurnInput
from hermes.domain.word import replace
from hermes.testing.model import ScriptedModel, say
from hermes.testing.model_script import Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import ask

CLIENT = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="key:ann")


async def test_a_name_leads_to_its_model_and_everything_else_stays() -> None:
    own, other = ScriptedModel([say("own")]), ScriptedModel([say("other")])
    provider = RoutedProvider(own, {"fast": ModelRoute(provider=other, model="small-model")})
    for model in ("fake-model", "fast"):
        async for _ in provider.call(replace(ask("go"), model=model)):
            pass
    assert [one.model for one in own.requests] == ["fake-model"]
    assert [one.model for one in other.requests] == ["small-model"]


async def said_by(app: App, model: str) -> str:
    given = TurnInput(text="hello", guidance=Guidance(model=model))
    turn = await app.gateway.submit(Submission(agent=MAIN_AGENT, source=CLIENT, input=given))
    seen = [one async for one in app.gateway.watch(MAIN_AGENT, turn.id) if isinstance(one, Entry)]
    return next(one.record.text for one in seen if isinstance(one.record, ModelSaid))


async def test_a_whole_gateway_asks_the_place_that_a_name_stands_for(tmp_path: Path) -> None:
    async with FakeModelServer(lambda request: Reply(text=f"main: {request.model}")) as main:
        async with FakeModelServer(lambda request: Reply(text=f"far: {request.model}"), key="far-key") as far:
            (tmp_path / "config.yaml").write_text(
                f"model: {{default: main-model, base_url: '{main.base_url}'}}\n"
                "platforms:\n  api_server:\n    model_routes:\n"
                f"      far-1.5: {{model: far-model, base_url: '{far.base_url}', api_key: far-key}}\n"
                "      small: {model: small-model}\n"
            )
            app = App(tmp_path, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
            async with asyncio.timeout(60), app.running():
                assert await said_by(app, "far-1.5") == "far: far-model"
                assert await said_by(app, "small") == "main: small-model"
                assert await said_by(app, "") == "main: main-model"
                assert app.gateway.aliases == {"far-1.5": "far-model", "small": "small-model"}
