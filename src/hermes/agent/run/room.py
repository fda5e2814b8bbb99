"""Room in the model's window: what a run does before a call that would not fit, after a model said that it is
too long, and when a person asks for compression.

Each step is a record that the run yields before it looks at the transcript again, so a crash changes nothing,
and records are all that is counted: three in a row without a reply end it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from hermes.agent.context.compress import Compressor, WindowLimits, Wish
from hermes.agent.context.cuts import Tail
from hermes.agent.context.shown import shown
from hermes.agent.context.tokens import fixed_tokens, prompt_tokens
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ports.agent import CompressionResult, ModelRequest, Run
from hermes.domain.turns.event import (
    AgentEvent,
    Cleared,
    Entry,
    Failed,
    FaultCause,
    Finished,
    Notice,
    Summarised,
)
from hermes.domain.word import replace

COMPRESSING = "The conversation is being compressed to fit into the model's window."
MOST_PASSES = 3
_TRIED = "compression.tried"
_PAUSE = 12
"""So many records later it is tried again, where a try failed and the call may work all the same."""
OFTEN = "it was compressed several times already"
_LOWEST = 0.6
_HOPELESS = 0.75
"""Our count may be too high by so much; what is still too large is not sent."""
TOO_LONG = (
    "The conversation is longer than {model} can read ({figures}), and {why}. Nothing was removed. Begin "
    "anew with /new, or choose a bigger model with /model."
)
FIXED_TOO_LONG = (
    "The instructions and tools alone take about {fixed:,} tokens, and {model} reads {window:,}. Choose a "
    "bigger model with /model, or switch toolsets off."
)
PREVIEW = "/compress would tell {messages} messages in a summary: about {before:,} → {after:,} tokens{share}."
NOTHING_YET = "There is nothing to compress yet: about {before:,} tokens{share}. The latest messages stay."
DONE = (
    "Compressed: {messages} messages are told by a summary now, about {before:,} → {after:,} tokens. "
    "/compress undo brings them back."
)
NO_COMPRESSION = "Conversations are not compressed here. Begin anew with /new."
NOT_DONE = "Not compressed: {why}. Nothing was removed."


class ContextRoom:
    """The room of one request of a run."""

    def __init__(self, compressor: Compressor, run: Run, request: ModelRequest) -> None:
        self._compressor = compressor
        self._run = run
        self._request = request
        self._limits = compressor.limits(request.model)
        self._fixed = -1

    def fixed(self) -> int:
        if self._fixed < 0:
            self._fixed = fixed_tokens(self._request.system, self._request.tools)
        return self._fixed

    @property
    def size(self) -> int:
        return prompt_tokens(self._run.transcript, self._run.memory, self.fixed)

    # --- when it does not fit ---

    @property
    def is_tight(self) -> bool:
        """Whether the request would not fit, by what is known of the model."""
        limits, tried = self._limits, self._run.memory.get(_TRIED)
        if limits is None or not self._compressor.settings.enabled or self.size <= limits.hard:
            return False
        return not isinstance(tried, int) or len(self._run.transcript) >= tried + _PAUSE

    async def make(self) -> Summarised | Cleared | Failed | None:
        """What makes room before a call. None if the call may go on all the same."""
        limits = self._limits
        assert limits is not None
        if self.fixed() * _HOPELESS > limits.window:
            return self._failed(FIXED_TOO_LONG, limits, "")
        result = await self._shorter(limits.hard)
        if result.record is not None:
            return result.record
        if self.size * _HOPELESS <= limits.window:
            self._run.memory[_TRIED] = len(self._run.transcript)
            return None
        return self._failed(TOO_LONG, limits, result.why)

    async def make_after(self, fault: ModelFault) -> Summarised | Cleared | Failed | None:
        """What makes room after the model said that the request is too long; None to leave it at that."""
        if not self._compressor.settings.enabled or fault.model not in ("", self._request.model):
            return None
        self._compressor.learn(self._request.model, fault)
        limits = self._limits = self._compressor.limits(self._request.model)
        if limits is not None and self.fixed() * _HOPELESS > limits.window:
            return self._failed(FIXED_TOO_LONG, limits, "")
        most = self.size // 2 if limits is None else min(limits.hard, self.size * 3 // 4)
        result = await self._shorter(most)
        return result.record or self._failed(TOO_LONG, limits, result.why)

    async def _shorter(self, most: int) -> CompressionResult:
        passes = _passes(self._run.transcript)
        if passes >= MOST_PASSES:
            return CompressionResult(before=self.size, after=self.size, why=OFTEN)
        tail = self._compressor.tail(most)
        for _ in range(passes):
            tail = tail.halved
        return await self._compress(self.wish(tail, goal=int(most * _LOWEST)))

    async def _compress(self, wish: Wish) -> CompressionResult:
        result = await self._compressor.compress(wish)
        if result.usage is not None:
            await self._run.wasted(result.usage)
        return result

    def _failed(self, sentence: str, limits: WindowLimits | None, why: str) -> Failed:
        size, model = self.size, self._request.model or "this model"
        window = 0 if limits is None else limits.window
        figures = f"about {size:,} of {window:,} tokens" if window else f"about {size:,} tokens"
        reason = sentence.format(model=model, figures=figures, why=why, fixed=self.fixed(), window=window)
        return Failed(reason=reason, cause=FaultCause(kind=FaultKind.TOO_LONG))

    def wish(self, tail: Tail, *, goal: int = 0, focus: str = "") -> Wish:
        return Wish(
            session=self._run.session,
            entries=list(shown(self._run.transcript, self._run.memory).entries),
            model=self._request.model,
            size=self.size,
            fixed=self.fixed(),
            tail=tail,
            goal=goal,
            focus=focus,
        )

    # --- when a person asks for it ---

    async def on_request(self) -> AsyncIterator[AgentEvent]:
        """The steps of a turn that compresses, or shows what that would do."""
        given, size = self._run.turn.input, self.size
        tail = replace(self._compressor.tail(size), turns=given.count if given.command == "here" else None)
        wish = self.wish(replace(tail, messages=min(tail.messages, 8)), focus=given.text)
        messages, after = self._compressor.expect(wish)
        window = "" if self._limits is None else f" ({size * 100 // self._limits.window} % of the window)"
        if not messages or given.command == "preview":
            words = PREVIEW if messages else NOTHING_YET
            yield (Finished(note=words.format(messages=messages, before=size, after=after, share=window)),)
            return
        yield Notice(text=COMPRESSING)
        result = await self._compress(wish)
        if result.record is None:
            yield (Finished(note=NOT_DONE.format(why=result.why)),)
            return
        note = DONE.format(messages=result.messages, before=result.before, after=result.after)
        yield result.record, Finished(note=note)


def _passes(transcript: Sequence[Entry]) -> int:
    """How often was compressed since anything else happened."""
    count = 0
    for entry in reversed(transcript):
        if not isinstance(entry.record, Summarised | Cleared):
            break
        count += 1
    return count
