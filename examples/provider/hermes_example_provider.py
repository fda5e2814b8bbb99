"""A provider plugin: a model that repeats what it hears. Choose it with `model: {provider: parrot}`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.turns.event import TextDelta, UserSaid

HERMES_API = 1


class ParrotProvider:
    def __init__(self, call: str) -> None:
        self._call = call

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        """Words as they come, then one `ModelEnd`."""
        words = [entry.record.text for entry in request.entries if isinstance(entry.record, UserSaid)]
        for word in f"{self._call} {words[-1] if words else ''}".split():
            yield TextDelta(text=f"{word} ")
        yield ModelEnd(model="parrot")


def make_provider(settings: ModelSettings) -> Provider:
    return ParrotProvider(settings.default or "Squawk!")
