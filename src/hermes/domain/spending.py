"""For whom a turn spends: its agent, a person, and a job."""

from __future__ import annotations

from msgspec import Struct

from hermes.domain.address import Source, SourceKind
from hermes.domain.ids import AgentId
from hermes.domain.session import owner_of
from hermes.domain.turn import Turn
from hermes.domain.word import replace


class Spender(Struct, frozen=True, kw_only=True):
    """`person` and `job` are empty where there is none."""

    agent: AgentId
    person: str = ""
    job: str = ""


def spender_of(agent: AgentId, source: Source | None, origin: Source | None = None) -> Spender:
    """A job spends for whoever had it made (`origin`). An API key is one person, whomever it names: else who
    makes up names could spend without end."""
    if source is None:
        return Spender(agent=agent)
    job = source.address.chat if source.kind is SourceKind.JOB else ""
    if job:
        return replace(spender_of(agent, origin), job=job)
    if source.kind in (SourceKind.API, SourceKind.WEBHOOK):
        return Spender(agent=agent, person=source.address.credential)
    return Spender(agent=agent, person=owner_of(source) or source.address.credential)


def turn_spender(turn: Turn) -> Spender:
    return spender_of(turn.agent, turn.source, turn.input.guidance.origin)
