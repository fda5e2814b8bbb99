"""One reply of the model, heard to its end: deltas as they come, retries, and going on where a stream broke.

The stream is read by a task in the run's scope; this side only waits for what it hands over, so it can stand
still at a yield for as long as it likes. Words that were heard are never taken back: a call that breaks after
its first word is continued, one that breaks before it is made again.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace

from hermes.agent.handover import Handover
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.event import Ending, Live, ModelSaid, Retrying, TextDelta, ThoughtDelta
from hermes.domain.ports import ModelEnd, ModelPiece, ModelRequest, Provider, Scope

_FIRST_DELAY = 1.0
_LONGEST_DELAY = 60.0


class Speech:
    def __init__(self, *, provider: Provider, clock: Clock, retries: int) -> None:
        self._provider = provider
        self._clock = clock
        self._retries = retries
        self._text: list[str] = []
        self._thought: list[str] = []
        self.said: ModelSaid | None = None
        self.problem = ""

    async def hear(self, request: ModelRequest, scope: Scope) -> AsyncIterator[Live]:
        tries = 0
        while True:
            pieces: Handover[ModelPiece | HermesError] = Handover()
            heard = replace(request, said="".join(self._text))
            scope.spawn(self._listen(heard, pieces), "model call", lambda why: pieces.put(Refused(why)))
            error: HermesError | None = None
            async for piece in pieces:
                if isinstance(piece, HermesError):
                    error = piece
                    break
                if isinstance(piece, ModelEnd):
                    self.said = self._whole(piece)
                    break
                yield self._note_down(piece)
            if self.said is not None:
                return
            tries += 1
            if not isinstance(error, Unreachable) or tries > self._retries:
                self.problem = _sentence(error)
                return
            after = _delay(tries, error.after)
            yield Retrying(reason=str(error), after=after)
            await self._clock.sleep(after)

    async def _listen(self, request: ModelRequest, pieces: Handover[ModelPiece | HermesError]) -> None:
        try:
            async for piece in self._provider.call(request):
                pieces.put(piece)
            pieces.put(Unreachable("the model's answer broke off"))
        except HermesError as error:
            pieces.put(error)

    def _note_down(self, piece: TextDelta | ThoughtDelta) -> Live:
        if isinstance(piece, TextDelta):
            self._text.append(piece.text)
        else:
            self._thought.append(piece.text)
        return piece

    def _whole(self, end: ModelEnd) -> ModelSaid:
        return ModelSaid(
            text="".join(self._text),
            calls=end.calls,
            thought="".join(self._thought),
            model=end.model,
            ending=Ending.CALLS if end.calls else end.ending,
            usage=end.usage,
        )


def _delay(tries: int, told: float | None) -> float:
    if told is not None:
        return min(told, _LONGEST_DELAY)
    full: float = min(_FIRST_DELAY * 2 ** (tries - 1), _LONGEST_DELAY)
    return full * (0.5 + random.random() / 2)


def _sentence(error: HermesError | None) -> str:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, NeedsLogin):
        return f"The model's service refused our credentials: {error}."
    if isinstance(error, Refused):
        return f"The model's service refused the request: {error}."
    return f"The model could not be reached: {error}. Try again, or check `hermes status`."
