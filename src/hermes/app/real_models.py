"""The real model that each agent had, kept in the store: after a lost key or an empty config.yaml the demo
model must not answer people who were talking to it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes.agent.models.choose import ModelAccess, ModelChoice, stand_in
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import ModelSettings

_FACT = "model.real."
_KEPT = ("way", "model", "provider", "title", "base_url")


async def keep_real_models(
    store: Store, choices: Mapping[AgentId, ModelChoice], settings: Mapping[AgentId, ModelSettings]
) -> dict[AgentId, ModelChoice]:
    """The choices without a demo model where a real one answered before; what is real now is remembered."""
    kept = await store.read(lambda tx: {agent: tx.facts.get(_FACT + agent) for agent in choices})
    made = {
        agent: stand_in(choice, settings[agent], _read(kept[agent]) or _read(kept.get(MAIN_AGENT)))
        for agent, choice in choices.items()
    }
    real = {
        agent: _spell(one) for agent, one in made.items() if one.way in (ModelAccess.HTTP, ModelAccess.PLUGIN)
    }
    changed = {agent: text for agent, text in real.items() if text != kept[agent]}

    def write(tx: Tx) -> None:
        for agent, text in changed.items():
            tx.facts.put(_FACT + agent, text)

    if changed:
        await store.write(write)
    return made


def _spell(choice: ModelChoice) -> str:
    """Without its key."""
    return json.dumps({name: getattr(choice, name) for name in _KEPT})


def _read(text: str | None) -> ModelChoice | None:
    try:
        told = json.loads(text or "null")
        return ModelChoice(**{**told, "way": ModelAccess(told["way"])})
    except (ValueError, TypeError, LookupError):
        return None
