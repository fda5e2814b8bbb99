"""The compressor of an agent, with the models it asks: that of `auxiliary.compression`, else the very model
of the session, as the session reaches it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hermes.agent.context.compress import BeforeCompress, Compressor, Summariser
from hermes.agent.models.roles import ChosenModel
from hermes.app.agents.models import AgentModels
from hermes.domain.clock import Clock
from hermes.domain.ids import AgentId
from hermes.domain.models.model_facts import ModelRole
from hermes.domain.models.usage import Usage
from hermes.domain.settings.compression import CompressionSettings
from hermes.domain.word import replace


def make_compressor(
    agent: AgentId,
    models: AgentModels,
    settings: Callable[[], CompressionSettings],
    clock: Clock,
    before: BeforeCompress | None = None,
) -> Compressor:
    facts = partial(models.facts_of, agent)

    async def choose(model: str) -> Summariser:
        return summariser(await models.beside(agent, ModelRole.SUMMARY, model), clock)

    return Compressor(model=models.name(agent), settings=settings, facts=facts, choose=choose, before=before)


def summariser(chosen: ChosenModel, clock: Clock) -> Summariser:
    async def ask(system: str, text: str) -> tuple[str, Usage]:
        words, usage = await chosen.ask(text, system=system, whole=True, sleep=clock.sleep)
        return words, replace(usage, role=ModelRole.SUMMARY.value)

    return Summariser(ask=ask, window=chosen.facts.window)
