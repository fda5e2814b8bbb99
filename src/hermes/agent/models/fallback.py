"""The fallback chain: other models that answer when an agent's own cannot.

Who answers is decided anew in every turn: the agent's own model first, unless it failed in the last minute.
Within a turn it stays with whoever answered last. The change is said once in an answer, and noted with the
reply; the prompt stays as it is. A call that had said words before it broke is gone on with by whoever hears
them: its fault says that another model is ready."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import cast

from msgspec import Struct

from hermes.agent.models.pool import Pieces
from hermes.agent.models.remedies import Remedy, calls_for
from hermes.domain.clock import Clock
from hermes.domain.errors import FaultKind, HermesError, ModelFault, as_model_fault
from hermes.domain.ids import TurnId
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.text import one_line
from hermes.domain.turns.event import Notice
from hermes.domain.word import replace

log = logging.getLogger("hermes.models")
COOLDOWN = timedelta(seconds=60)
_MEMORY = "fallback"


class FallbackModel(Struct, frozen=True, kw_only=True):
    """A model of the chain. `name` is its provider, as people call it."""

    provider: Provider
    model: str
    name: str


class _TurnModel(Struct, frozen=True, kw_only=True):
    """Who answers in a turn that has left the agent's own model: kept in the session's memory."""

    turn: TurnId
    place: int
    announced: bool = False
    why: str = ""


class FallbackProvider:
    """The agent's own provider, and the chain behind it."""

    def __init__(self, own: Provider, chain: Sequence[FallbackModel], clock: Clock) -> None:
        self._own = own
        self._chain = chain
        self._clock = clock
        self._failed: dict[tuple[int, str], datetime] = {}
        """When the cooldown of a model ends, by its place in the chain and its name."""

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        turn = request.entries[-1].turn if request.entries else TurnId("")
        kept = request.memory.get(_MEMORY)
        begun = kept if isinstance(kept, _TurnModel) and kept.turn == turn else None
        begun = begun or _TurnModel(turn=turn, place=self._first(request, -1) or 0)
        place, announced, why = begun.place, begun.announced, begun.why
        while True:
            if place:
                if not announced:
                    yield Notice(text=self._said(request, place, why))
                announced = True
                request.memory[_MEMORY] = _TurnModel(turn=turn, place=place, announced=True)
            began = False
            try:
                async with aclosing(self._pieces(request, place)) as pieces:
                    async for piece in pieces:
                        began = True
                        yield piece
                return
            except HermesError as error:
                fault = as_model_fault(error)
                following = self._following(request, place, fault)
                if following is None:
                    raise self._of_model(fault, request, place) from error
                place, announced, why = following, False, fault.message
                request.memory[_MEMORY] = _TurnModel(turn=turn, place=place, why=why)
                if began:
                    fault.elsewhere = True
                    raise fault from error

    def _pieces(self, request: ModelRequest, place: int) -> Pieces:
        return self._others(request, place) if place else cast(Pieces, self._own.call(request))

    async def _others(self, request: ModelRequest, place: int) -> Pieces:
        model = self._chain[place - 1]
        pieces = cast(Pieces, model.provider.call(replace(request, model=model.model)))
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, ModelEnd):
                    piece = replace(piece, via=f"{model.name}{piece.via}", model=piece.model or model.model)
                yield piece

    def _following(self, request: ModelRequest, place: int, fault: ModelFault) -> int | None:
        """Who goes on after this fault; None if it is for somebody else to deal with, or nobody is left."""
        if place and fault.kind is FaultKind.TOO_LONG:
            # The agent's own model may read all of it, and so may the next one.
            return self._first(request, place)
        if fault.elsewhere or not calls_for(fault, Remedy.NEXT_MODEL, request.retries_left):
            return None
        self._failed[self._key(request, place)] = self._clock.now() + COOLDOWN
        following = self._first(request, place)
        name = "none" if following is None else self._chain[following - 1].model
        log.warning("model.fallback kind=%s from=%s to=%s", fault.kind, self._name(request, place), name)
        return following

    def _of_model(self, fault: ModelFault, request: ModelRequest, place: int) -> ModelFault:
        """A model of the chain that reads too little says nothing about the agent's own."""
        if place:
            fault.model = self._name(request, place)
            if fault.kind is FaultKind.TOO_LONG:
                own, other = one_line(request.model, 60), one_line(fault.model, 60)
                fault.message = f"{own} cannot answer now, and the conversation is too long for {other}."
        return fault

    def _first(self, request: ModelRequest, after: int) -> int | None:
        """The first model behind that place that did not fail just now."""
        now = self._clock.now()
        self._failed = {key: until for key, until in self._failed.items() if until > now}
        places = range(after + 1, len(self._chain) + 1)
        return next((place for place in places if self._key(request, place) not in self._failed), None)

    def _key(self, request: ModelRequest, place: int) -> tuple[int, str]:
        return place, self._name(request, place)

    def _name(self, request: ModelRequest, place: int) -> str:
        return self._chain[place - 1].model if place else request.model

    def _said(self, request: ModelRequest, place: int, why: str) -> str:
        reason = f" ({one_line(why, 120).rstrip('.')})" if why else ""
        model = self._chain[place - 1]
        return f"{one_line(request.model, 60)} cannot answer now{reason}: {model.model} by {model.name} does."
