"""Conversations that nobody used for long: found, and deleted by a chore where the settings want that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from hermes.control.chores import DAILY, Chore
from hermes.domain.clock import Clock
from hermes.domain.ids import EVERY_AGENT, AgentId, SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.live import LiveSettings
from hermes.domain.turns.session import Session, SessionFilter

_AT_ONCE = 200


def unused_sessions(tx: Tx, since: datetime, limit: int = _AT_ONCE) -> list[Session]:
    """Sessions that were last used before then and in which nothing is unfinished."""
    return tx.sessions.find("", limit, SessionFilter(unused_since=since))


def pruning(
    store: Store, live: LiveSettings, clock: Clock, delete: Callable[[AgentId, SessionId], Awaitable[None]]
) -> Chore:
    async def prune() -> str:
        settings, gone = live.now.sessions, 0
        if not settings.auto_prune:
            return "switched off (sessions.auto_prune)"
        since = clock.now() - timedelta(days=settings.retention_days)
        everybody = store.scoped(EVERY_AGENT)
        while unused := await everybody.read(lambda tx: unused_sessions(tx, since)):
            for session in unused:
                await delete(session.agent, session.id)
            gone += len(unused)
        return f"{gone} sessions deleted"

    return Chore(name="sessions", every=DAILY, run=prune, first=600.0)
