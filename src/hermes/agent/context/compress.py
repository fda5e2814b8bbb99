"""Compression: how a conversation is told shorter when it fills the model's window.

Old results of tools are cleared in one step; where that is not enough, old messages are told by a summary.
Without a summary nothing is removed. Here records are made; whoever runs the turn adds them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from hermes.agent.context import digest as text
from hermes.agent.context.cuts import Tail, clearing_gain, cuttable, find_cut, without_marks
from hermes.agent.context.tokens import fixed_tokens, prompt_tokens, record_tokens, tokens_of, with_new
from hermes.domain.errors import FaultKind, HermesError, ModelFault, as_model_fault
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage, sum_usage
from hermes.domain.ports.agent import CompressionResult
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.settings.compression import CompressionSettings
from hermes.domain.system.border import Border, describe
from hermes.domain.text import one_line
from hermes.domain.tools.toolbox import read_tool_list
from hermes.domain.turns.event import Cleared, Entry, Restored, Summarised
from hermes.domain.turns.session import Session
from hermes.domain.turns.transcript import visible
from hermes.domain.word import replace

log = logging.getLogger("hermes.compress")
NOTHING = "there is nothing left to compress"
USELESS = "compressing it twice gained almost nothing"
NO_SUMMARY = "no summary of it could be made ({why})"
SUMMARY_SECONDS = 300.0
BEFORE_SECONDS = 8.0
_LEAST_GAIN = 0.1
_LOWEST = 0.6
"""How much of what it may take a conversation takes after results were cleared, at most; else it is
summarised at once, so that its beginning changes once."""
_SUMMARY_SHARE = 0.2
_SUMMARY_TOKENS = (1000, 10_000)
_READS = 0.6
"""How much of the window of the model that summarises is filled."""
_UNKNOWN_WINDOW = 64_000
_MOST_READ = 1600
"""Tokens of a record that the digest keeps at most."""
_CHARS = 4
_WORDS_PER_TOKEN = 0.6
_STATED = (
    late_pattern(r">\s*(\d[\d,_]{2,9})"),  # Anthropic: what is asked for, and behind it what there is
    late_pattern(r"(?:maximum|max|limit|window|context (?:length|size)|n_ctx)\D{0,40}?(\d[\d,_]{2,9})", re.I),
    late_pattern(r"(\d[\d,_]{2,9})\s*(?:tokens?\s*)?(?:maximum|limit)", re.I),
)


class Summariser(Struct, frozen=True, kw_only=True):
    """The model that summarises: its answer to a text under a system prompt, and what that took."""

    ask: Callable[[str, str], Awaitable[tuple[str, Usage]]]
    window: int | None = None


BeforeCompress = Callable[[Session, Sequence[Entry]], Awaitable[str]]
"""Is told which records are about to be summarised; what it returns goes into the summary."""


class WindowLimits(Struct, frozen=True, kw_only=True):
    """`window` is what the model reads and writes together, `hard` what a prompt may take of it, and
    `trigger` where compression begins."""

    window: int
    hard: int
    trigger: int


class Wish(Struct, frozen=True, kw_only=True):
    """What is to be compressed: a session's visible `entries`. A prompt of them takes `size` tokens, `fixed`
    of them for the system prompt and the tools. With a `goal`, clearing is enough if it leads there."""

    session: Session
    entries: Sequence[Entry]
    model: str
    size: int
    fixed: int
    tail: Tail
    goal: int = 0
    focus: str = ""

    @property
    def scale(self) -> float:
        """How many tokens of the model's one of ours is."""
        return self.size / max(self.fixed + tokens_of(self.entries), 1)


class Compressor:
    """`model` is the agent's own. `choose` gives the model that summarises for a session with this model: the
    one of the settings, else this very model, never a third."""

    def __init__(
        self,
        *,
        model: str,
        settings: Callable[[], CompressionSettings],
        facts: Callable[[str], ModelFacts],
        choose: Callable[[str], Awaitable[Summariser]],
        before: BeforeCompress | None = None,
    ) -> None:
        self._model = model
        self._settings = settings
        self._facts = facts
        self._choose = choose
        self._before = before
        self._stated: dict[str, tuple[int, int | None]] = {}
        """What models said, and what else was known of their windows then: once that changes, it counts."""

    @property
    def settings(self) -> CompressionSettings:
        return self._settings()

    # --- how full a window is ---

    def limits(self, model: str) -> WindowLimits | None:
        facts = self._facts(model)
        stated, before = self._stated.get(model, (None, None))
        known = [window for window in (facts.window, stated if before == facts.window else None) if window]
        if not known:
            return None
        window = min(known)
        hard = window - min(facts.max_output or window, window // 4, 16_384)
        return WindowLimits(window=window, hard=hard, trigger=int(hard * self.settings.threshold))

    def learn(self, model: str, fault: ModelFault) -> None:
        """A model that says "too long" may say how much it reads: that is known from then on."""
        for pattern in _STATED if "per minute" not in fault.quote else ():
            stated = pattern.search(fault.quote)
            if stated is not None:
                window = int(stated[1].replace(",", "").replace("_", ""))
                self._stated[model] = (window, self._facts(model).window)
                return

    def tail(self, tokens: int) -> Tail:
        """What stays of a conversation that may take so many tokens."""
        settings = self.settings
        return Tail(tokens=int(tokens * settings.target_ratio), messages=settings.protect_last_n)

    # --- in the background ---

    def is_due(
        self,
        session: Session,
        transcript: Sequence[Entry],
        new: Sequence[Entry],
        memory: dict[str, object],
    ) -> bool:
        """Whether a session is to be compressed beside the conversation. What a person has just restored is
        left alone until it does not fit any more."""
        settings, limits = self.settings, self.limits(session.model or self._model)
        if not (settings.enabled and settings.background) or limits is None:
            return False
        size = prompt_tokens(transcript, memory, lambda: _fixed(session))
        if with_new(size, new) < limits.trigger:
            return False
        marks = (entry.record for entry in reversed(transcript))
        last = next((mark for mark in marks if isinstance(mark, Summarised | Cleared | Restored)), None)
        return not isinstance(last, Restored)

    async def prepare(self, session: Session, transcript: Sequence[Entry]) -> CompressionResult:
        model, fixed = session.model or self._model, _fixed(session)
        limits = self.limits(model)
        size = prompt_tokens(transcript, {}, lambda: fixed)
        if limits is None:
            return CompressionResult(before=size, after=size, why=NOTHING)
        wish = Wish(
            session=session,
            entries=visible(transcript),
            model=model,
            size=size,
            fixed=fixed,
            tail=self.tail(limits.trigger),
            goal=int(limits.trigger * _LOWEST),
        )
        return await self.compress(wish)

    # --- the work ---

    async def compress(self, wish: Wish) -> CompressionResult:
        """What makes the conversation shorter, or why nothing does. Two tries that gain nearly nothing end
        it; the second keeps less."""
        cut = find_cut(wish.entries, wish.tail) or find_cut(wish.entries, wish.tail.halved)
        cut = self._tight_cut(wish) if cut is None else cut
        if cut is None:
            return CompressionResult(before=wish.size, after=wish.size, why=NOTHING)
        if wish.goal:
            upto = wish.entries[cut - 1].seq
            after = wish.size - int(clearing_gain(wish.entries, upto) * wish.scale)
            if after <= wish.goal:
                return CompressionResult(before=wish.size, after=after, record=Cleared(upto=upto))
        used = list[Usage]()
        result = await self._summarised(wish, cut, used)
        if result.record is None and result.why == USELESS:
            shorter = find_cut(wish.entries, wish.tail.halved.halved)
            result = result if shorter is None else await self._summarised(wish, shorter, used)
        if isinstance(result.record, Summarised):
            return replace(result, record=replace(result.record, usage=sum_usage(used)))
        return replace(result, usage=sum_usage(used) if used else None)

    def expect(self, wish: Wish) -> tuple[int, int]:
        """How many messages a summary would tell of, and about how many tokens were left. Asks nobody."""
        cut = find_cut(wish.entries, wish.tail)
        cut = self._tight_cut(wish) if cut is None else cut
        if cut is None:
            return 0, wish.size
        hidden = without_marks(wish.entries[:cut])
        gone = tokens_of(wish.entries[:cut])
        after = wish.size - int((gone - _summary_tokens(gone)) * wish.scale)
        return _messages(hidden), min(after, wish.size)

    def _tight_cut(self, wish: Wish) -> int | None:
        """Where the messages that should stay fill the window: a cut that keeps fewer, down to the last one,
        if it gains enough."""
        tail, limits = wish.tail, self.limits(wish.model)
        if tail.turns is not None or not (wish.goal or (limits and wish.size > limits.trigger)):
            return None
        while tail.messages > 1:
            tail = tail.halved
            cut = find_cut(wish.entries, tail)
            gone = 0 if cut is None else tokens_of(wish.entries[:cut])
            if (gone - _summary_tokens(gone)) * wish.scale > wish.size * _LEAST_GAIN:
                return cut
        return None

    async def _summarised(self, wish: Wish, cut: int, used: list[Usage]) -> CompressionResult:
        try:
            async with asyncio.timeout(SUMMARY_SECONDS):
                summary = await self._summary(wish, cut, used)
        except (HermesError, TimeoutError) as error:
            why = str(error) if isinstance(error, HermesError) else f"not within {SUMMARY_SECONDS:g} s"
            log.warning("compress.no_summary session=%s why=%s", wish.session.id, one_line(why, 200))
            return CompressionResult(
                before=wish.size, after=wish.size, why=NO_SUMMARY.format(why=one_line(why, 300).rstrip("."))
            )
        earlier = _last(wish.entries)
        hidden = [entry for entry in wish.entries if entry.seq <= summary.upto or entry is earlier]
        gain = tokens_of(hidden) - record_tokens(summary)
        after = wish.size - int(gain * wish.scale)
        if after > wish.size * (1 - _LEAST_GAIN):
            return CompressionResult(before=wish.size, after=wish.size, why=USELESS)
        return CompressionResult(
            before=wish.size, after=after, record=summary, messages=_messages(without_marks(hidden))
        )

    async def _summary(self, wish: Wish, cut: int, used: list[Usage]) -> Summarised:
        model = await self._choose(wish.model)
        limits = self.limits(wish.model)
        window = model.window or (limits.window if limits is not None else _UNKNOWN_WINDOW)
        room = int(window * _READS)
        while True:
            place = _fitting(wish.entries, cut, room)
            try:
                return await self._ask(model, wish, place, room, used)
            except HermesError as error:
                fault = as_model_fault(error)
                if fault.kind is not FaultKind.TOO_LONG or room < window * _READS / 8:
                    raise
                room //= 2

    async def _ask(self, model: Summariser, wish: Wish, cut: int, room: int, used: list[Usage]) -> Summarised:
        entries, settings = wish.entries, self.settings
        hidden = without_marks(entries[:cut])
        before = _last(entries)
        earlier = Summarised(upto=0, text="") if before is None else before.record
        assert isinstance(earlier, Summarised)
        words = text.digest(
            hidden,
            None if before is None else earlier,
            focus=wish.focus,
            added=await self._added(wish.session, hidden),
        )
        most = wish.tail.tokens * _CHARS // 2
        target = _summary_tokens(tokens_of(hidden))
        system = text.instructions(int(target * _WORDS_PER_TOKEN))
        said, usage = await model.ask(system, text.shorten(words, room * _CHARS))
        used.append(usage)
        if not said.strip():
            raise ModelFault("the model said nothing", kind=FaultKind.BROKEN)
        return Summarised(
            upto=hidden[-1].seq,
            text=said.strip(),
            opening=earlier.opening or text.opening_of(hidden, settings.protect_first_n, most),
            request=text.unanswered(
                hidden, entries, earlier.request, most + 4000, shared=wish.session.owner is None
            ),
            plan=text.open_plan(without_marks(entries), earlier.plan),
            files=text.all_changed_files(hidden, earlier.files),
            results=text.child_results(hidden, earlier.results),
        )

    async def _added(self, session: Session, hidden: Sequence[Entry]) -> str:
        """What somebody wants to keep before it is summarised. Who fails or takes long is left out."""
        if self._before is None:
            return ""
        try:
            async with asyncio.timeout(BEFORE_SECONDS):
                with Border():
                    return await self._before(session, hidden)
        except Exception as error:  # the border to foreign code
            log.warning("compress.before_broke session=%s why=%s", session.id, describe(error))
            return ""


def _fixed(session: Session) -> int:
    tools = read_tool_list(session.tool_list)[0] if session.tool_list else ()
    return fixed_tokens(f"{session.system_prompt or ''}{session.place_prompt or ''}", tools)


def _last(entries: Sequence[Entry]) -> Entry | None:
    """The summary that stands in front, if there is one."""
    return next((entry for entry in entries[:2] if isinstance(entry.record, Summarised)), None)


def _messages(entries: Sequence[Entry]) -> int:
    return sum(record_tokens(entry.record) > 0 for entry in entries)


def _summary_tokens(tokens: int) -> int:
    low, high = _SUMMARY_TOKENS
    return min(max(int(tokens * _SUMMARY_SHARE), low), high)


def _fitting(entries: Sequence[Entry], cut: int, room: int) -> int:
    """The last place up to the cut before which everything can be read at once; what is behind it is for the
    next time."""
    whole, tokens, place = cuttable(entries), 0, 0
    for at in range(cut):
        record = entries[at].record
        most = room if isinstance(record, Summarised) else _MOST_READ
        tokens += min(record_tokens(record), most)
        if tokens > room and place and without_marks(entries[:place]):
            return place
        if whole[at]:
            place = at + 1
    return cut
