"""Hooks: who is told of what happens, who is asked before it does, and when a hook is left alone.

What is told is queued for each hook and told in order, one event after the other, while all else goes on.
What is asked is asked hook after hook, in the order of their names, and the first that does not allow
decides; one that gives no proper answer in time denies. Three failures in a row open a hook's breaker: it is
not called for a while (what it gates is denied meanwhile), and the operator is told. The runner decides
where hooks run; nothing here is ever awaited inside a transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial

from msgspec import Struct, field

from hermes.control.workers import Supervisor
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import Unreachable
from hermes.domain.safety.concealing import Conceal, concealed_data
from hermes.domain.system.hooks import EVENTS, SELECT_AGENT, Hook, HookAnswer, HookRunner
from hermes.domain.text import one_line, storable

log = logging.getLogger("hermes.hooks")
MOST_FAILURES = 3
OPEN_SECONDS = 60.0
MOST_WAITING = 1000
_LONGEST_MESSAGE = 4000
_LAST_SECONDS = 2.0
HookContext = Mapping[str, object]


class Decision(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    HANDLED = "handled"
    REWRITE = "rewrite"


class Ruling(Struct, frozen=True, kw_only=True):
    """What hooks say to something that is about to happen, and which of them said it."""

    decision: Decision = Decision.ALLOW
    message: str = ""
    by: str = ""
    answer: Mapping[str, object] = field(default_factory=dict)


ALLOWED = Ruling()


class _HookState(Struct, kw_only=True):
    """What is remembered of one hook: its breaker, and what it still has to be told."""

    hook: Hook
    runner: HookRunner
    failures: int = 0
    open_until: float | None = None
    why: str = ""
    waiting: deque[tuple[str, HookContext, Callable[[], None]]] = field(default_factory=deque)
    lost: int = 0
    telling: asyncio.Task[None] | None = None


class HookFacts(Struct, frozen=True, kw_only=True):
    """How a hook is, for the operator."""

    name: str
    events: tuple[str, ...]
    open: bool
    failures: int
    why: str = ""


class Hooks:
    """`groups` are hooks with the runner that calls them; asked in this order."""

    def __init__(
        self,
        groups: Sequence[tuple[Sequence[Hook], HookRunner]] = (),
        clock: Clock | None = None,
        changed: Callable[[], None] = lambda: None,
        loops: Supervisor | None = None,
        conceal: Conceal = str,
    ) -> None:
        """`conceal` takes secrets out of what hooks are told."""
        self._conceal = conceal
        self._clock = clock or SystemClock()
        self._loops = loops or Supervisor(clock)
        self._changed = changed
        self._runners = [runner for _, runner in groups]
        self._kept = [_HookState(hook=hook, runner=runner) for hooks, runner in groups for hook in hooks]
        self._closing = False
        self.followed = frozenset(event for event in EVENTS if self.follows(event))
        """The events that anybody follows, of those that have one name."""

    # --- what others may do ---

    def follows(self, event: str) -> bool:
        """Whether anybody follows this, such as one command; if not, no context needs to be made."""
        return any(kept.hook.follows(event) for kept in self._kept)

    def tell(self, event: str, context: HookContext, after: Callable[[], None] = lambda: None) -> None:
        """Something has happened. Returns at once; whoever follows it hears of it in time. `after` is called
        once all of them were."""
        if self._closing:
            return
        followers = [kept for kept in self._kept if kept.hook.follows(event)]
        left = len(followers)

        def heard() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                after()

        if not followers:
            after()
        for kept in followers:
            if len(kept.waiting) >= MOST_WAITING:
                kept.lost += 1
                if kept.lost == 1:
                    log.warning(
                        "hook.behind hook=%s: events are left out until it catches up", kept.hook.name
                    )
                heard()
                continue
            kept.waiting.append((event, context, heard))
            if kept.telling is None or kept.telling.done():
                kept.telling = self._loops.keep("hooks", partial(self._tell_all, kept), kept.hook.name)

    async def ask(self, event: str, context: HookContext) -> Ruling:
        """Something is about to happen: may it? The first that does not allow decides."""
        for kept in self._kept:
            if kept.hook.follows(event):
                ruling = await self._rule(kept, event, context)
                if ruling.decision is not Decision.ALLOW:
                    log.info("hook.ruled hook=%s event=%s decision=%s", ruling.by, event, ruling.decision)
                    return ruling
        return ALLOWED

    async def choose(self, context: HookContext) -> str | None:
        """The agent that the first hook with an opinion names. One that fails has none."""
        for kept in self._kept:
            if not kept.hook.follows(SELECT_AGENT) or self._is_open(kept):
                continue
            try:
                answer = (await self._call(kept, SELECT_AGENT, context)).answer
            except Unreachable:
                continue
            chosen = answer.get("agent") if isinstance(answer, Mapping) else answer
            if isinstance(chosen, str) and chosen.strip():
                return chosen.strip()
        return None

    async def close(self) -> None:
        """What happened last is still told, if that does not take long."""
        self._closing = True
        telling = [kept.telling for kept in self._kept if kept.telling is not None]
        if telling:
            await asyncio.wait(telling, timeout=_LAST_SECONDS)
        for task in telling:
            task.cancel()
        if telling:
            await asyncio.wait(telling)
        for runner in self._runners:
            await runner.close()

    def facts(self) -> list[HookFacts]:
        return [
            HookFacts(
                name=kept.hook.name,
                events=kept.hook.events,
                open=self._is_open(kept),
                failures=kept.failures,
                why=kept.why,
            )
            for kept in self._kept
        ]

    # --- one hook ---

    async def _tell_all(self, kept: _HookState) -> None:
        while kept.waiting:
            event, context, heard = kept.waiting.popleft()
            if not self._is_open(kept):
                with contextlib.suppress(Unreachable):
                    await self._call(kept, event, context)
            heard()
        if kept.lost:
            log.warning("hook.caught_up hook=%s left_out=%d", kept.hook.name, kept.lost)
            kept.lost = 0

    async def _rule(self, kept: _HookState, event: str, context: HookContext) -> Ruling:
        name = kept.hook.name
        if self._is_open(kept):
            return Ruling(decision=Decision.DENY, message=no_answer(name), by=name)
        try:
            return read_ruling(name, (await self._call(kept, event, context, read_ruling)).answer)
        except Unreachable:
            return Ruling(decision=Decision.DENY, message=no_answer(name), by=name)

    async def _call(
        self,
        kept: _HookState,
        event: str,
        context: HookContext,
        check: Callable[[str, object], object] = lambda name, answer: None,
    ) -> HookAnswer:
        """Call a hook; whether that went well is what its breaker counts."""
        try:
            quiet = {name: concealed_data(value, self._conceal) for name, value in context.items()}
            heard = await kept.runner.call(kept.hook, event, quiet)
            check(kept.hook.name, heard.answer)
        except Unreachable as error:
            self._failed(kept, event, str(error))
            raise
        if heard.output:
            log.debug("hook.printed hook=%s %s", kept.hook.name, one_line(heard.output, 400))
        if kept.failures:
            was_open = kept.failures >= MOST_FAILURES
            kept.failures, kept.open_until, kept.why = 0, None, ""
            if was_open:
                log.warning("hook.closed hook=%s: it works again", kept.hook.name)
                self._changed()
        return heard

    def _failed(self, kept: _HookState, event: str, why: str) -> None:
        kept.failures += 1
        kept.why = one_line(why, 200)
        log.warning("hook.failed hook=%s event=%s why=%s", kept.hook.name, event, kept.why)
        if kept.failures >= MOST_FAILURES:
            kept.open_until = self._clock.monotonic() + OPEN_SECONDS
            log.error(
                "hook.open hook=%s failures=%d: it is left alone for %d s; `hermes hooks test` tries it",
                kept.hook.name,
                kept.failures,
                OPEN_SECONDS,
            )
            self._changed()

    def _is_open(self, kept: _HookState) -> bool:
        """After its time the next call is a trial: it closes the breaker or opens it again."""
        return kept.open_until is not None and self._clock.monotonic() < kept.open_until


def read_ruling(name: str, answer: object) -> Ruling:
    """What a hook's answer means; nothing is consent, and nonsense is a failure."""
    if answer is None:
        return ALLOWED
    if not isinstance(answer, Mapping):
        raise Unreachable(f"it answered a {type(answer).__name__}, not a mapping with a decision")
    said = answer.get("decision", Decision.ALLOW.value)
    if said not in tuple(Decision):
        raise Unreachable(f"its decision “{one_line(str(said), 40)}” is none of {', '.join(Decision)}")
    message = answer.get("message", answer.get("reason", ""))
    if not isinstance(message, str):
        raise Unreachable("its message is not a text")
    return Ruling(
        decision=Decision(said), message=storable(message)[:_LONGEST_MESSAGE], by=name, answer=dict(answer)
    )


def no_answer(name: str) -> str:
    return f"The hook “{name}” gave no proper answer, so this was not done."
