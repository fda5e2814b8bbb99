"""One reply of the model, heard to its end: deltas as they come, retries, and going on where a stream broke.

The stream is read by a task in the run's scope; this side only waits for what it hands over, so it can stand
still at a yield for as long as it likes. Words that were heard are never taken back: a call that breaks after
its first word is continued, one that breaks before it is made again.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from hermes.agent.run.delta_queue import DeltaQueue
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.event import Ending, Live, ModelSaid, Retrying, TextDelta, ThoughtDelta
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider, Scope

_SHORTEST_RESTART = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBackoff:
    """How long one waits before a call is made again: full jitter below a delay that doubles, or what the
    other side told, neither above `longest` seconds."""

    first: float = 2.0
    longest: float = 60.0

    def delay(self, tries: int, retry_after: float | None) -> float:
        if retry_after is not None:
            return min(max(retry_after, 0.0), self.longest)
        return random.uniform(0.0, min(self.first * 2.0 ** (tries - 1), self.longest))


class OverlapFilter:
    """Where a continued reply joins what was heard. A model that starts over instead of going on repeats the
    words that were heard; they are left out."""

    def __init__(self, heard: str) -> None:
        self._heard = heard if len(heard) >= _SHORTEST_RESTART else ""
        self._held = ""

    def join(self, text: str) -> str:
        """What of these words is new; words that may be a repetition are held back."""
        if not self._heard:
            return text
        self._held += text
        if self._held.startswith(self._heard):
            return self._open(len(self._heard))
        return "" if self._heard.startswith(self._held) else self._open(0)

    def close(self) -> str:
        """What is still held back when the reply is complete."""
        return self._open(0)

    def _open(self, skip: int) -> str:
        new, self._held, self._heard = self._held[skip:], "", ""
        return new


class ReplyStream:
    """`reply` is the reply; without one `problem` tells why, and `heard` is what was said before."""

    def __init__(self, *, provider: Provider, clock: Clock, retries: int, patience: RetryBackoff) -> None:
        self._provider = provider
        self._clock = clock
        self._retries = retries
        self._patience = patience
        self._text: list[str] = []
        self._thought: list[str] = []
        self.reply: ModelSaid | None = None
        self.problem = ""

    @property
    def heard(self) -> str:
        return "".join(self._text)

    async def hear(self, request: ModelRequest, scope: Scope) -> AsyncIterator[Live]:
        tries = 0
        while True:
            heard = self.heard
            self._thought = []
            pieces = self._begin(replace(request, spoken=heard), scope)
            seam = OverlapFilter(heard)
            error: HermesError | None = None
            async for piece in pieces:
                if isinstance(piece, HermesError):
                    error = piece
                    break
                for live in self._live(piece, seam):
                    yield live
                if isinstance(piece, ModelEnd):
                    self.reply = self._whole(piece)
                    return
            tries += 1
            if not isinstance(error, Unreachable) or tries > self._retries:
                self.problem = _sentence(error)
                return
            after = self._patience.delay(tries, error.after)
            yield Retrying(reason=str(error), after=after)
            await self._clock.sleep(after)

    def _begin(self, request: ModelRequest, scope: Scope) -> DeltaQueue[ModelPiece | HermesError]:
        pieces: DeltaQueue[ModelPiece | HermesError] = DeltaQueue()
        scope.spawn(self._listen(request, pieces), "model call", lambda why: pieces.put(Refused(why)))
        return pieces

    async def _listen(self, request: ModelRequest, pieces: DeltaQueue[ModelPiece | HermesError]) -> None:
        try:
            async for piece in self._provider.call(request):
                pieces.put(piece)
            pieces.put(Unreachable("the model's answer broke off"))
        except HermesError as error:
            pieces.put(error)

    def _live(self, piece: ModelPiece, seam: OverlapFilter) -> list[Live]:
        """What is shown of a piece, noted down."""
        if isinstance(piece, ThoughtDelta):
            self._thought.append(piece.text)
            return [piece]
        if isinstance(piece, TextDelta):
            words = seam.join(piece.text)
            if words == piece.text:
                self._text.append(words)
                return [piece]
        else:
            words = seam.close()
        if not words:
            return []
        self._text.append(words)
        return [TextDelta(text=words)]

    def _whole(self, end: ModelEnd) -> ModelSaid:
        return ModelSaid(
            text=self.heard,
            calls=end.calls,
            thought="".join(self._thought),
            model=end.model,
            ending=Ending.CALLS if end.calls else end.ending,
            usage=end.usage,
        )


def _sentence(error: HermesError | None) -> str:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, NeedsLogin):
        return f"The model's service did not accept our credentials: {error}"
    if isinstance(error, Refused):
        return f"The model gave no answer: {error}"
    return f"The model could not be reached: {error}. Try again, or check `hermes status`."
