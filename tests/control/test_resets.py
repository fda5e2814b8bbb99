"""Reset policies as a table: last use, moment, zone, and whether the session is over then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hermes.control.sessions.resets import policy_of, why_over
from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.settings.settings import ResetMode, ResetSettings, Settings

BERLIN, NEW_YORK, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), ZoneInfo("Asia/Kolkata")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


DAYS = [
    # mode, hour, zone, last use, now, why it is over
    ("none", 4, UTC, "2020-01-01 00:00", "2026-01-05 12:00", None),
    ("idle", 4, UTC, "2026-01-05 11:00", "2026-01-05 12:00", None),
    ("idle", 4, UTC, "2026-01-05 10:59", "2026-01-05 12:00", "idle"),
    ("daily", 4, UTC, "2026-01-05 03:59", "2026-01-05 04:00", "daily"),
    ("daily", 4, UTC, "2026-01-05 04:00", "2026-01-05 04:01", None),
    ("daily", 4, UTC, "2026-01-04 04:00", "2026-01-05 03:59", None),
    ("daily", 0, UTC, "2026-01-04 23:59", "2026-01-05 00:00", "daily"),
    ("daily", 23, UTC, "2026-01-04 22:59", "2026-01-05 01:00", "daily"),
    ("both", 4, UTC, "2026-01-05 11:30", "2026-01-05 12:00", None),
    ("both", 4, UTC, "2026-01-05 03:30", "2026-01-05 04:10", "daily"),
    ("both", 4, UTC, "2026-01-05 05:00", "2026-01-05 12:00", "idle"),
    ("daily", 4, BERLIN, "2026-01-05 02:59", "2026-01-05 03:00", "daily"),
    ("daily", 4, BERLIN, "2026-07-05 01:59", "2026-07-05 02:00", "daily"),
    ("daily", 4, BERLIN, "2026-07-05 02:00", "2026-07-05 03:00", None),
    # the clock is put forward from 2 to 3 on 29 March: the hour 2 comes at 3, one hour after 1
    ("daily", 2, BERLIN, "2026-03-29 00:59", "2026-03-29 01:00", "daily"),
    ("daily", 2, BERLIN, "2026-03-29 00:30", "2026-03-29 00:59", None),
    # and put back from 3 to 2 on 25 October: the hour 2 counts the first time
    ("daily", 2, BERLIN, "2026-10-24 23:59", "2026-10-25 00:00", "daily"),
    ("daily", 2, BERLIN, "2026-10-25 00:30", "2026-10-25 01:30", None),
    ("daily", 2, NEW_YORK, "2026-03-08 06:59", "2026-03-08 07:00", "daily"),
    ("daily", 1, NEW_YORK, "2026-11-01 04:59", "2026-11-01 05:00", "daily"),
    ("daily", 1, NEW_YORK, "2026-11-01 05:30", "2026-11-01 06:30", None),
    ("daily", 4, KOLKATA, "2026-01-04 22:29", "2026-01-04 22:30", "daily"),
    ("daily", 4, KOLKATA, "2026-01-04 22:30", "2026-01-04 23:00", None),
    ("daily", 4, UTC, "2026-01-06 00:00", "2026-01-05 12:00", None),  # the clock was put back
]


@pytest.mark.parametrize(("mode", "hour", "zone", "last", "now", "why"), DAYS)
def test_when_a_session_is_over(
    mode: str, hour: int, zone: ZoneInfo, last: str, now: str, why: str | None
) -> None:
    policy = ResetSettings(mode=ResetMode(mode), idle_minutes=60, at_hour=hour)
    assert why_over(at(last), policy, at(now), zone) == why


def test_every_day_has_exactly_one_passage() -> None:
    policy = ResetSettings(mode=ResetMode.DAILY, at_hour=2)
    for zone in (BERLIN, NEW_YORK, KOLKATA):
        moment, passages = at("2026-01-01 12:00"), 0
        while moment < at("2027-01-01 12:00"):
            later = moment + timedelta(minutes=30)
            passages += why_over(moment, policy, later, zone) is not None
            moment = later
        assert passages == 365


def test_the_platform_beats_the_sort_of_place_and_that_the_general_rule() -> None:
    rules = {name: ResetSettings(idle_minutes=minutes) for name, minutes in (("a", 1), ("b", 2), ("c", 3))}
    by_platform = {"slack": rules["c"], "slack@work": ResetSettings(idle_minutes=4)}
    settings = Settings(
        session_reset=rules["a"], reset_by_type={"group": rules["b"]}, reset_by_platform=by_platform
    )

    def minutes(platform: str, kind: SourceKind, account: str = DEFAULT_ACCOUNT) -> int:
        source = Source(address=Address(platform=platform, account=account, chat="1"), kind=kind, user="u")
        return policy_of(source, settings).idle_minutes

    assert minutes("fake", SourceKind.PRIVATE) == 1
    assert minutes("fake", SourceKind.GROUP) == 2
    assert minutes("slack", SourceKind.GROUP) == 3
    assert minutes("slack", SourceKind.GROUP, "work") == 4, "an account's own beats its platform's"
    assert minutes("slack", SourceKind.GROUP, "shop") == 3
    assert minutes("fake", SourceKind.GROUP, "work") == 2
