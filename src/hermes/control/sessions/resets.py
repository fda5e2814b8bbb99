"""Reset policies: when a chat's session is over by itself, and beginning the next one.

Decided when the next message arrives, from what is stored, so it needs no timer and survives any crash. A
session in which something goes on is never over. A chore ends what is over before anybody writes. What lasts
of a session is noted afterwards (`flush.py`): the end and the wish for that are one commit. Hooks hear of the
end once, from whoever wrote it down."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import partial

from msgspec import Struct

from hermes.control.chores import Chore
from hermes.control.core import GatewayCore, Runtime
from hermes.control.hooks.endings import note_ends
from hermes.control.turn.claim import next_session
from hermes.domain.chats.address import Source
from hermes.domain.clock import zone_named
from hermes.domain.ids import EVERY_AGENT, SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import ResetMode, ResetSettings, Settings
from hermes.domain.system.hooks import SESSION_END
from hermes.domain.turns.gateway_event import GatewayEvent, session_lapsed
from hermes.domain.turns.session import Session, SessionKey
from hermes.domain.word import replace

log = logging.getLogger("hermes.expiry")
EVERY = 600.0
_PAGE = 200
IDLE, DAILY = "idle", "daily"
"""How a session has ended that was over by itself."""
NOTE = (
    "[A new conversation began just now because {why}. What was said before is not in it; do not pretend to "
    "remember it.]"
)


def policy_of(source: Source, settings: Settings) -> ResetSettings:
    """An account's rule beats its platform's, then come that of the sort of place and the general one."""
    rules, address = settings.reset_by_platform, source.address
    by_platform = rules.get(address.credential) or rules.get(address.platform)
    return by_platform or settings.reset_by_type.get(source.kind.value) or settings.session_reset


def zone_of(settings: Settings) -> tzinfo | None:
    """The zone of the settings; None is the machine's own."""
    return zone_named(settings.timezone) if settings.timezone else None


def over_since(policy: ResetSettings, now: datetime, zone: tzinfo | None) -> dict[str, datetime]:
    """The moments, by reason: a session that was last used before one of them is over."""
    moments: dict[str, datetime] = {}
    if policy.mode in (ResetMode.IDLE, ResetMode.BOTH):
        moments[IDLE] = now - timedelta(minutes=policy.idle_minutes)
    if policy.mode in (ResetMode.DAILY, ResetMode.BOTH):
        moments[DAILY] = _last_passage(policy.at_hour, now, zone)
    return moments


def why_over(last: datetime, policy: ResetSettings, now: datetime, zone: tzinfo | None) -> str | None:
    """Why a session that was last used then is over now; None if it is not."""
    moments = over_since(policy, now, zone)
    return next((why for why, moment in moments.items() if last < moment), None)


def _last_passage(hour: int, now: datetime, zone: tzinfo | None) -> datetime:
    """When the clock of the zone last showed this hour. An hour that a change of the clock skips comes as
    late as the clock was put forward; one that it repeats counts the first time."""
    local = now.astimezone(zone)
    for back in (0, 1, 2):
        day = local.date() - timedelta(days=back)
        passed = datetime.combine(day, time(hour), tzinfo=zone).astimezone(UTC)
        if passed <= now:
            return passed
    raise AssertionError("an hour of the day comes at least every two days")


class RenewedSession(Struct, frozen=True, kw_only=True):
    """The session that goes on, and what is said about it: to the person, and to the model for one turn."""

    session: Session
    notice: str = ""
    note: str = ""


def renew_session(
    tx: Tx, session: Session, key: SessionKey, source: Source, settings: Settings, now: datetime
) -> RenewedSession | None:
    """For a message that is to be said in a session: if that is over, the next one, begun here; else None."""
    policy = policy_of(source, settings)
    why = (
        session.ended if session.ended in (IDLE, DAILY) else _why_over_now(tx, session, policy, now, settings)
    )
    if why is None:
        return None
    tx.sessions.save(replace(session, ended=why))
    fresh = next_session(tx, key, source, now)
    reason = _reason(why, policy)
    notifies = policy.notify and source.address.platform not in policy.notify_exclude_platforms
    used = bool(tx.journal.read(session.id, most=1))
    notice = f"A new session began because {reason}. /resume {session.id} goes back."
    return RenewedSession(
        session=fresh, notice=notice if notifies and used else "", note=NOTE.format(why=reason)
    )


def _why_over_now(
    tx: Tx, session: Session, policy: ResetSettings, now: datetime, settings: Settings
) -> str | None:
    zone = zone_of(settings)
    if why_over(session.updated_at, policy, now, zone) is None or tx.turns.any_open(session.id):
        return None
    return why_over(last_used(tx, session), policy, now, zone)


async def has_processes(runtime: Runtime | None, session: SessionId, policy: ResetSettings) -> bool:
    """Whether something runs in the background for a session, and is not too old to keep it open."""
    views = [] if runtime is None or runtime.processes is None else await runtime.processes(session)
    return any(view.running and view.seconds < policy.bg_process_max_age_hours * 3600 for view in views)


def last_used(tx: Tx, session: Session) -> datetime:
    """The end of what was last said."""
    entries = tx.journal.read(session.id, most=1, newest=True)
    return max(session.updated_at, entries[-1].at) if entries else session.updated_at


def _reason(why: str, policy: ResetSettings) -> str:
    if why == DAILY:
        return f"one begins every day at {policy.at_hour}:00"
    hours, minutes = divmod(policy.idle_minutes, 60)
    counted = ((hours, "hour"), (minutes, "minute"))
    pause = " and ".join(f"{n} {unit}{'' if n == 1 else 's'}" for n, unit in counted if n)
    return f"the last one was silent for more than {pause}"


# --- ending what is over ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpiry:
    """The chore that ends sessions which the policies ended meanwhile. A message that comes first decides for
    itself, so nothing depends on this running."""

    core: GatewayCore

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
        async for session, key, source in _unused(self.core.store.scoped(EVERY_AGENT), since):
            news = session_lapsed(source, session, key)
            if session.agent in self.core.agents and await self._end(session, source, news):
                ended += 1
                self.core.events.emit_all(news)
        return ended

    def _latest(self) -> datetime | None:
        """What was used after this moment is over by no policy; None if nothing ever is."""
        settings, now = self.core.live.now, self.core.clock.now()
        policies = (
            settings.session_reset,
            *settings.reset_by_type.values(),
            *settings.reset_by_platform.values(),
        )
        moments = [
            moment for policy in policies for moment in over_since(policy, now, zone_of(settings)).values()
        ]
        return max(moments, default=None)

    async def _end(self, session: Session, source: Source, news: tuple[GatewayEvent, ...]) -> bool:
        store = self.core.store.scoped(session.agent)
        policy = policy_of(source, self.core.live.now)
        now, zone = self.core.clock.now(), zone_of(self.core.live.now)
        if why_over(session.updated_at, policy, now, zone) is None:
            return False
        if await has_processes(self.core.agents.built(session.agent), session.id, policy):
            return False

        def why(tx: Tx) -> str | None:
            busy = tx.turns.any_open(session.id)
            return None if busy else why_over(last_used(tx, session), policy, now, zone)

        reason = await store.read(why)
        if reason is None:
            return False
        told = news if SESSION_END in self.core.hooks.followed else ()
        ended = await store.write(partial(_mark_ended, session, reason, told, now))
        if ended:
            log.info("session.ended session=%s why=%s", session.id, reason)
        return ended


async def _unused(store: Store, since: datetime) -> AsyncIterator[tuple[Session, SessionKey, Source]]:
    """All of them, a page at a time: those that no policy ends must not hide the others."""
    last: Session | None = None
    while page := await store.read(partial(_page, since, last)):
        for row in page:
            yield row
        last = page[-1][0]


def _page(since: datetime, last: Session | None, tx: Tx) -> list[tuple[Session, SessionKey, Source]]:
    return tx.bindings.unused(since, _PAGE, last)


def _mark_ended(session: Session, reason: str, news: tuple[GatewayEvent, ...], now: datetime, tx: Tx) -> bool:
    """Unless somebody has spoken in it meanwhile."""
    known = tx.sessions.get(session.id)
    if known != session or tx.turns.any_open(session.id):
        return False
    tx.sessions.save(replace(session, ended=reason))
    tx.flushes.want(session.id, now)
    note_ends(tx, news)
    return True
