"""A provider of which it is noted how its calls end: the last fault, and that there is none any more."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import cast

from hermes.domain.errors import HermesError, ModelFault, as_model_fault
from hermes.domain.ports.agent import ModelPiece, ModelRequest, Provider

TellOutcome = Callable[[str, str, ModelFault | None], Awaitable[None]]
"""Hears of each call the address, the model and what went wrong."""


class WatchedProvider:
    def __init__(self, provider: Provider, base_url: str, tell: TellOutcome) -> None:
        self._provider = provider
        self._base_url = base_url
        self._tell = tell

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        pieces = cast(AsyncGenerator[ModelPiece], self._provider.call(request))
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except HermesError as error:
            await self._tell(self._base_url, request.model, as_model_fault(error))
            raise
        await self._tell(self._base_url, request.model, None)

    async def close(self) -> None:
        close = getattr(self._provider, "close", None)
        if close is not None:
            await close()
