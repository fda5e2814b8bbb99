"""What the services of models say they offer, asked anew now and then."""

from __future__ import annotations

import pytest

from hermes.agent.models import servers
from hermes.agent.models.choose import ModelAccess, ModelChoice
from hermes.agent.models.registry import Models
from hermes.agent.models.servers import ModelListing, OfferedModel
from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT, AgentId


async def test_the_list_is_kept_while_a_service_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"http://a/v1": ("small", "large"), "http://b/v1": ("other",)}

    async def ask(choice: ModelChoice, seconds: float = 1.0) -> ModelListing:
        return ModelListing(models=tuple(OfferedModel(name=name) for name in told[choice.base_url]))

    monkeypatch.setattr(servers, "list_models", ask)
    known = Models(probe=False)
    choices = {
        MAIN_AGENT: ModelChoice(
            way=ModelAccess.HTTP, provider="a", model="small", base_url="http://a/v1", why="set"
        ),
        AgentId("b"): ModelChoice(
            way=ModelAccess.HTTP, provider="b", model="other", base_url="http://b/v1", why="set"
        ),
        AgentId("demo"): ModelChoice.given("demo"),
    }
    assert await known.refresh(choices) == "3 models offered"
    assert known.offered == {MAIN_AGENT: ("small", "large"), "b": ("other",)}
    told |= {"http://a/v1": (), "http://b/v1": ("other", "new")}
    with pytest.raises(Unreachable, match=r"no list of models from http://a/v1$"):
        await known.refresh(choices)
    assert known.offered == {MAIN_AGENT: ("small", "large"), "b": ("other", "new")}
