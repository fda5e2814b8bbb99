"""One reply of the model, heard to its end: deltas as they come, retries, and going on where a stream broke.

The stream is read by a task in the run's scope; this side only waits for what it hands over, so it can stand
still at a yield for as long as it likes. Words that were heard are never taken back: a call that breaks after
its first word is continued, one that breaks before it is made again.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec import Struct

from hermes.agent.run.delta_queue import DeltaQueue
from hermes.agent.run.links import LinkFilter
from hermes.domain.clock import Clock
from hermes.domain.errors import FaultKind, HermesError, ModelFault, as_model_fault
from hermes.domain.models.usage import Usage, sum_usage
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider, Scope, nobody_hears
from hermes.domain.turns.event import Ending, Live, ModelSaid, Notice, Retrying, TextDelta, ThoughtDelta
from hermes.domain.word import replace

_SHORTEST_RESTART = 4
_MOST_MOVES = 20
BACKGROUND_SECONDS = 600.0
"""How long a call is waited for that nobody watches."""


class RetryBackoff(Struct, frozen=True, kw_only=True):
    """How long one waits before a call is made again: full jitter below a delay that doubles up to `longest`
    seconds, or what the other side told. Where it told of more than `bearable`, one does not ask again."""

    first: float = 2.0
    longest: float = 60.0
    bearable: float = 60.0

    def bears(self, retry_after: float | None) -> bool:
        return retry_after is None or retry_after <= self.bearable

    def delay(self, tries: int, retry_after: float | None) -> float:
        if retry_after is not None:
            return max(retry_after, 0.0)
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


class StopFilter:
    """Words up to the first of some texts at which a reply is to end. Services that know such texts end there
    themselves; for the others it is done here. What may be the beginning of one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""
        self.hit = False

    def take(self, text: str, *, last: bool = False) -> str:
        if self.hit:
            return ""
        text, self._held = self._held + text, ""
        ends = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if ends:
            self.hit = True
            return text[: min(ends)]
        longest = max(len(stop) for stop in self._stops) - 1
        for start in range(max(0, len(text) - longest), len(text) if not last else 0):
            if any(stop.startswith(text[start:]) for stop in self._stops):
                text, self._held = text[:start], text[start:]
                break
        return text


class ReplyStream:
    """`reply` is the reply, `cut` if it reached a limit of its length; without one `fault` is why, and
    `said` is what was said before. `links` makes what its words pass on their way to people; `estimate` tells
    what a call took whose end nobody heard."""

    def __init__(
        self,
        *,
        provider: Provider,
        clock: Clock,
        retries: int,
        patience: RetryBackoff,
        links: Callable[[], LinkFilter] | None = None,
        late: Callable[[Live], None] = nobody_hears,
        estimate: Callable[[int], Usage] = lambda heard: Usage(),
    ) -> None:
        self._estimate = estimate
        self._lost: list[Usage] = []
        self._provider = provider
        self._late = late
        self._seam = OverlapFilter("")
        self._clock = clock
        self._retries = retries
        self._patience = patience
        # Grown in place: a list of words takes ten times what they say.
        self._text = io.StringIO()
        self._thought = io.StringIO()
        self._links = None if links is None else links()
        self._thought_links = None if links is None else links()
        self._shown = self._text if links is None else io.StringIO()
        self._thought_late = 0
        self.reply: ModelSaid | None = None
        self.fault = _broken_off()
        self.cut = False
        self._stops: StopFilter | None = None

    @property
    def heard(self) -> str:
        """What the model said so far, as it said it."""
        return self._text.getvalue()

    @property
    def said(self) -> str:
        """What of it may be shown and kept, when nothing more comes."""
        if self._links is not None:
            self._shown.write(self._links.take("", last=True))
        return self._shown.getvalue()

    @property
    def broken(self) -> ModelSaid:
        """What was heard of a reply that broke off."""
        if self._thought_links is not None:
            self._think(self._thought_links.take("", last=True))
        return ModelSaid(
            text=self.said,
            thought=self._thought.getvalue(),
            thought_late=self._thought_late,
            partial=True,
            ending=Ending.BROKEN,
            links_cut=self._links is not None and self._links.cut,
        )

    async def hear(self, request: ModelRequest, scope: Scope) -> AsyncIterator[Live]:
        tries = moves = 0
        while True:
            heard = self.heard
            pieces = self._begin(replace(request, spoken=heard, retries_left=self._retries - tries), scope)
            seam = self._seam = OverlapFilter(heard)
            self._stops = StopFilter(request.options.stop) if request.options.stop else None
            fault: ModelFault | None = None
            async for piece in pieces:
                if isinstance(piece, ModelFault):
                    fault = piece
                    break
                for live in self._live(piece, seam):
                    yield live
                if self._stops is not None and self._stops.hit and not isinstance(piece, ModelEnd):
                    # What comes after it is not wanted: the call ends with its run, and is billed.
                    piece = ModelEnd(usage=self._estimate(len(self.heard)), model=request.model)
                if isinstance(piece, ModelEnd):
                    for live in self._flushed():
                        yield live
                    self.reply = self._whole(piece)
                    return
            if fault is not None and fault.elsewhere and moves < _MOST_MOVES:
                tries, moves = 0, moves + 1
                continue
            if len(self.heard) > len(heard):
                self._lost.append(self._estimate(len(self.heard) - len(heard)))
            tries += 1
            if fault is None or not self._may_pass(fault) or tries > self._retries:
                self.fault = fault or self.fault
                return
            after = self._patience.delay(tries, fault.after)
            yield Retrying(reason=str(fault), after=after)
            await self._clock.sleep(after)

    def _may_pass(self, fault: ModelFault) -> bool:
        return fault.is_passing and self._patience.bears(fault.after)

    def _begin(self, request: ModelRequest, scope: Scope) -> DeltaQueue[ModelPiece | ModelFault]:
        pieces: DeltaQueue[ModelPiece | ModelFault] = DeltaQueue()

        def broke(why: str) -> None:
            pieces.put(ModelFault(why, kind=FaultKind.BAD_REQUEST))

        scope.spawn(self._listen(request, pieces), "model call", broke)
        return pieces

    async def _listen(self, request: ModelRequest, pieces: DeltaQueue[ModelPiece | ModelFault]) -> None:
        try:
            async for piece in self._provider.call(request):
                pieces.put(piece)
            pieces.put(_broken_off())
        except asyncio.CancelledError:
            self._tell_late(pieces)
            raise
        except HermesError as error:
            pieces.put(as_model_fault(error))

    def _tell_late(self, pieces: DeltaQueue[ModelPiece | ModelFault]) -> None:
        """Whoever waited for the reply was stopped: what came since and what was held back is told beside."""
        if self.reply is not None:
            return
        for piece in pieces.drain():
            if isinstance(piece, TextDelta | ThoughtDelta):
                for live in self._live(piece, self._seam):
                    self._late(live)
        for live in self._flushed():
            self._late(live)

    def _live(self, piece: ModelPiece, seam: OverlapFilter) -> list[Live]:
        """What is shown of a piece, noted down."""
        if isinstance(piece, ThoughtDelta):
            thought = piece.text if self._thought_links is None else self._thought_links.take(piece.text)
            return self._think(thought)
        if isinstance(piece, Notice):
            return [piece]
        if isinstance(piece, TextDelta):
            words = seam.join(piece.text)
            if self._stops is not None:
                words = self._stops.take(words)
            if words == piece.text and self._links is None:
                self._text.write(words)
                return [piece]
        else:
            words = seam.close()
            if self._stops is not None:
                words = self._stops.take(words, last=True)
        if not words:
            return []
        self._text.write(words)
        if self._links is not None:
            words = self._links.take(words)
            self._shown.write(words)
        return [TextDelta(text=words)] if words else []

    def _flushed(self) -> list[Live]:
        """Words that were held back for what might have followed."""
        if self._links is None or self._thought_links is None:
            return []
        thought, words = self._thought_links.take("", last=True), self._links.take("", last=True)
        lives = self._think(thought)
        self._shown.write(words)
        return [*lives, *([TextDelta(text=words)] if words else [])]

    def _think(self, thought: str) -> list[Live]:
        self._thought.write(thought)
        self._thought_late += len(thought) if self._shown.tell() else 0
        return [ThoughtDelta(text=thought)] if thought else []

    def _whole(self, end: ModelEnd) -> ModelSaid:
        if self._stops is not None and self._stops.hit:
            end = replace(end, calls=(), ending=Ending.STOP)
        self.cut = end.ending is Ending.LENGTH
        return ModelSaid(
            text=self.said,
            calls=end.calls,
            thought=self._thought.getvalue(),
            thought_late=self._thought_late,
            model=end.model,
            ending=Ending.CALLS if end.calls else end.ending,
            usage=sum_usage((*self._lost, end.usage)) if self._lost else end.usage,
            kept=end.kept,
            links_cut=self._links is not None and self._links.cut,
            via=end.via,
            cache_miss=end.cache_miss,
        )


def _broken_off() -> ModelFault:
    return ModelFault("the model's answer broke off", kind=FaultKind.BROKEN)


def fault_sentence(fault: ModelFault) -> str:
    """A fault that ends a turn, for the person who began it."""
    if fault.is_passing:
        return f"The model could not be reached: {fault}. Try again, or check `hermes status`."
    if fault.kind is FaultKind.BAD_KEY:
        return f"The model's service did not accept our credentials: {fault}"
    if fault.kind is FaultKind.NO_MODEL:
        return str(fault)
    return f"The model gave no answer: {fault}"
