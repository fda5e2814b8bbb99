"""Ending sessions that are over: a job that looks now and then for what the reset policies ended meanwhile.

What a session leaves behind (its memory) is brought home first, by `flush`; then it is marked as ended, and
the next message of its chat begins another. A flush that fails is tried again, three times in all. A message
that comes first decides for itself, so nothing depends on this job running. Hooks hear of the end either way,
once: from whoever wrote it down."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from hermes.control.chores import Chore
from hermes.control.hooks.context import session_lapsed
from hermes.control.hooks.dispatch import Hooks
from hermes.control.runtime import Runtime
from hermes.control.sessions.resets import last_used, over_since, policy_of, why_over, zone_of
from hermes.domain.address import Source
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.session import Session, SessionKey
from hermes.domain.settings.settings import Settings

log = logging.getLogger("hermes.expiry")
EVERY = 600.0
_PAGE = 200
_TRIES = 3
Flush = Callable[[AgentId, SessionId], Awaitable[None]]


async def flush_nothing(agent: AgentId, session: SessionId) -> None:
    """Stands where sessions leave nothing behind."""


class SessionExpiry:
    def __init__(
        self,
        *,
        runtimes: Mapping[AgentId, Runtime],
        settings: Settings,
        clock: Clock,
        flush: Flush = flush_nothing,
        hooks: Hooks | None = None,
    ) -> None:
        self._runtimes = runtimes
        self._settings = settings
        self._clock = clock
        self._flush = flush
        self._hooks = hooks or Hooks()
        self._failures: Counter[SessionId] = Counter()

    @property
    def chore(self) -> Chore:
        async def expire() -> str:
            return f"{await self.sweep()} sessions ended"

        return Chore(name="session expiry", every=EVERY, run=expire)

    async def sweep(self) -> int:
        """End what is over; how many that were."""
        since = self._latest()
        if since is None:
            return 0
        ended = 0
        for runtime in self._runtimes.values():
            async for session, key, source in _unused(runtime, since):
                if await self._end(runtime, session, source):
                    ended += 1
                    self._hooks.tell_all(session_lapsed(source, session, key))
        return ended

    def _latest(self) -> datetime | None:
        """What was used after this moment is over by no policy; None if nothing ever is."""
        settings, now = self._settings, self._clock.now()
        policies = (
            settings.session_reset,
            *settings.reset_by_type.values(),
            *settings.reset_by_platform.values(),
        )
        moments = [
            moment for policy in policies for moment in over_since(policy, now, zone_of(settings)).values()
        ]
        return max(moments, default=None)

    async def _end(self, runtime: Runtime, session: Session, source: Source) -> bool:
        policy = policy_of(source, self._settings)
        now, zone = self._clock.now(), zone_of(self._settings)
        if why_over(session.updated_at, policy, now, zone) is None:
            return False
        views = [] if runtime.processes is None else await runtime.processes(session.id)
        if any(view.running and view.seconds < policy.bg_process_max_age_hours * 3600 for view in views):
            return False

        def why(tx: Tx) -> str | None:
            busy = bool(tx.turns.open_of(session.id, 1))
            return None if busy else why_over(last_used(tx, session), policy, now, zone)

        reason = await runtime.store.read(why)
        if reason is None or not await self._flushed(session.agent, session.id):
            return False
        ended = await runtime.store.write(partial(_mark_ended, session, reason))
        if ended:
            log.info("session.ended session=%s why=%s", session.id, reason)
        return ended

    async def _flushed(self, agent: AgentId, session: SessionId) -> bool:
        try:
            await self._flush(agent, session)
        except HermesError as error:
            self._failures[session] += 1
            log.warning(
                "session.flush_failed session=%s try=%d why=%s", session, self._failures[session], error
            )
            if self._failures[session] < _TRIES:
                return False
        del self._failures[session]
        return True


async def _unused(runtime: Runtime, since: datetime) -> AsyncIterator[tuple[Session, SessionKey, Source]]:
    """All of them, a page at a time: those that no policy ends must not hide the others."""
    last: Session | None = None
    while page := await runtime.store.read(partial(_page, since, last)):
        for row in page:
            yield row
        last = page[-1][0]


def _page(since: datetime, last: Session | None, tx: Tx) -> list[tuple[Session, SessionKey, Source]]:
    return tx.bindings.unused(since, _PAGE, last)


def _mark_ended(session: Session, reason: str, tx: Tx) -> bool:
    """Unless somebody has spoken in it meanwhile."""
    known = tx.sessions.get(session.id)
    if known != session or tx.turns.open_of(session.id, 1):
        return False
    tx.sessions.save(replace(session, ended=reason))
    return True
