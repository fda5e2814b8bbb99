"""Reset policies: when a chat's session is over by itself, and beginning the next one.

Decided when the next message arrives, from what is stored, so it needs no timer and survives any crash. A
session in which something goes on is never over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from hermes.domain.address import Source
from hermes.domain.ports.store import Tx
from hermes.domain.session import Session, SessionKey, begin_session
from hermes.domain.settings.settings import ResetMode, ResetSettings, Settings

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
    return ZoneInfo(settings.timezone) if settings.timezone else None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewedSession:
    """The session that goes on, and what is said about it: to the person, and to the model for one turn."""

    session: Session
    notice: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewSession:
    """The question that intake asks for a message: does its session go on, or does a new one begin."""

    key: SessionKey
    source: Source
    settings: Settings
    now: datetime

    def look(self, tx: Tx, session: Session) -> RenewedSession | None:
        """The new session if the old one is over, and begun here; None if it goes on."""
        policy = policy_of(self.source, self.settings)
        why = self._why(tx, session, policy)
        if why is None:
            return None
        tx.sessions.save(replace(session, ended=why))
        fresh = begin_session(self.key, self.source, self.now)
        tx.sessions.add(fresh)
        tx.bindings.bind(self.key, fresh.id, self.source, self.now)
        reason = _reason(why, policy)
        told = policy.notify and self.source.address.platform not in policy.notify_exclude_platforms
        used = bool(tx.journal.read(session.id, most=1))
        notice = f"A new session began because {reason}. /resume {session.id} goes back."
        return RenewedSession(
            session=fresh, notice=notice if told and used else "", note=NOTE.format(why=reason)
        )

    def _why(self, tx: Tx, session: Session, policy: ResetSettings) -> str | None:
        if session.ended in (IDLE, DAILY):
            return session.ended
        zone = zone_of(self.settings)
        if why_over(session.updated_at, policy, self.now, zone) is None or tx.turns.open_of(session.id, 1):
            return None
        return why_over(last_used(tx, session), policy, self.now, zone)


def last_used(tx: Tx, session: Session) -> datetime:
    """The end of what was last said."""
    entries = tx.journal.read(session.id, most=1, newest=True)
    return max(session.updated_at, entries[-1].at) if entries else session.updated_at


def _reason(why: str, policy: ResetSettings) -> str:
    if why == DAILY:
        return f"one begins every day at {policy.at_hour}:00"
    hours, minutes = divmod(policy.idle_minutes, 60)
    pause = " and ".join(
        _count(number, unit) for number, unit in ((hours, "hour"), (minutes, "minute")) if number
    )
    return f"the last one was silent for more than {pause}"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"
