"""The border to a provider of a plugin. Whatever it does (raises, hangs, yields what is no piece of a reply),
the loop sees a `ModelFault` with one sentence. It is made with its first call, so that one that cannot be
made stops nobody's start."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

from hermes.domain.errors import FaultKind, HermesError, ModelFault, as_model_fault
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.system.border import Border, contain, describe
from hermes.domain.text import one_line
from hermes.domain.turns.event import Notice, TextDelta, ThoughtDelta
from hermes.domain.word import check_word

log = logging.getLogger("hermes.models")
MAKING_SECONDS = 10.0
SILENT_SECONDS = 600.0
CLOSING_SECONDS = 5.0
_SILENT = "it said nothing for {seconds:g} seconds"
T = TypeVar("T")


class ForeignProvider:
    """The provider port, kept by a plugin called `name`."""

    def __init__(
        self,
        name: str,
        make: Callable[[ModelSettings], Provider],
        settings: ModelSettings,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._name = name
        self._redact = redact
        self._make = make
        self._settings = settings
        self._provider: Provider | None = None

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        provider = self._provider = self._provider or await self._made()

        async def begin() -> AsyncIterator[ModelPiece]:
            return aiter(provider.call(request))

        pieces = await self._guard(begin, SILENT_SECONDS, _SILENT)
        try:
            ended = False
            while not ended:
                piece = self._checked(await self._guard(pieces.__anext__, SILENT_SECONDS, _SILENT))
                ended = isinstance(piece, ModelEnd)
                yield piece
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await contain(close())

    async def _made(self) -> Provider:
        make = partial(asyncio.to_thread, self._make, self._settings)
        made = await self._guard(make, MAKING_SECONDS, "it was not ready after {seconds:g} seconds")
        if not callable(getattr(made, "call", None)):
            raise self._fault(f"a {type(made).__name__} is no provider", FaultKind.NO_MODEL)
        return made

    async def _guard(self, work: Callable[[], Awaitable[T]], seconds: float, late: str) -> T:
        try:
            async with asyncio.timeout(seconds):
                with Border():
                    return await work()
        except HermesError as error:
            raise self._quiet(error) from None
        except TimeoutError:
            raise self._fault(late.format(seconds=seconds)) from None
        except StopAsyncIteration:
            raise self._fault("its answer broke off") from None
        except Exception as error:  # foreign code may raise anything
            log.warning("provider.broken name=%s", self._name, exc_info=error)
            raise self._fault(one_line(self._redact(describe(error)), 160)) from error

    def _checked(self, piece: ModelPiece) -> ModelPiece:
        if isinstance(piece, TextDelta | ThoughtDelta | Notice) and isinstance(piece.text, str):
            return piece
        why = ""
        if isinstance(piece, ModelEnd):
            try:
                return check_word(piece, ModelEnd)
            except ValueError as error:
                why = f": {one_line(str(error), 160)}"
        raise self._fault(f"a {type(piece).__name__} is no piece of an answer{why}")

    async def close(self) -> None:
        """Let it put away what it holds open, if it was made and can; one that fails or hangs is left."""
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                close = getattr(self._provider, "close", None)
                closing = None if close is None else close()
                if inspect.isawaitable(closing):
                    await closing
        except Exception as error:  # foreign code may raise anything
            log.warning("provider.not_closed name=%s", self._name, exc_info=error)

    def _quiet(self, error: HermesError) -> HermesError:
        """What it raised on purpose, with no secret in its words: they are shown and stored."""
        if self._redact(str(error)) == str(error):
            return error
        fault = as_model_fault(error)
        fault.message, fault.hint = self._redact(fault.message), self._redact(fault.hint)
        return fault

    def _fault(self, why: str, kind: FaultKind = FaultKind.BROKEN) -> ModelFault:
        words = f"provider {self._name} failed ({why})"
        return ModelFault(f"The {words}." if kind is FaultKind.NO_MODEL else f"the {words}", kind=kind)
