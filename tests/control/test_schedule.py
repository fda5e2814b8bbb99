"""Schedules: what is understood, what is refused and how, and every slot around the jumps of the clock."""

# ruff: noqa: E501
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hermes.control.jobs.schedule import Every, Once, Schedule, grace, read_schedule
from hermes.domain.errors import UserError

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)  # a Monday
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def slots(schedule: Schedule, first: str, last: str) -> list[str]:
    """Every slot after `first` up to `last`, in UTC."""
    found, moment = [], at(first)
    while (following := schedule.after(moment)) is not None and following <= at(last):
        found.append(f"{following:%m-%d %H:%M}")
        assert schedule.latest(following) == following
        assert schedule.latest(following - timedelta(seconds=1)) != following
        moment = following
    return found


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("every monday", "0 0 * * MON"),
        ("Every Monday at 9", "0 9 * * MON"),
        ("on sundays at 10:30", "30 10 * * SUN"),
        ("monday, wed and friday at noon", "0 12 * * MON,WED,FRI"),
        ("every weekday at 8:30", "30 8 * * MON-FRI"),
        ("weekends", "0 0 * * SAT,SUN"),
        ("every day at 9pm", "0 21 * * *"),
        ("daily at 12 am", "0 0 * * *"),
        ("every day 9am", "0 9 * * *"),
        ("every monday 8:30", "30 8 * * MON"),
        ("weekdays noon", "0 12 * * MON-FRI"),
        ("daily", "@daily"),
        ("weekly", "@weekly"),
    ],
)
def test_days_and_hours_may_be_said_as_people_say_them(text: str, same: str) -> None:
    said, written = read_schedule(text, NOW, BERLIN), read_schedule(same, NOW, BERLIN)
    assert said == written


def test_tomorrow_is_a_day_of_the_zone() -> None:
    late = datetime(2026, 1, 5, 23, 30, tzinfo=UTC)  # the 6th in Berlin
    assert read_schedule("tomorrow 9am", late, BERLIN) == Once(at=at("2026-01-07T08:00"))
    assert read_schedule("tomorrow at 9:15 pm", NOW, BERLIN) == Once(at=at("2026-01-06T20:15"))


@pytest.mark.parametrize(
    "text",
    ["every monday at 25", "every tuesday at 13pm", "tomorrow at x", "daily at 9:75", "every day 25:00"],
)
def test_a_wrong_hour_is_named(text: str) -> None:
    with pytest.raises(UserError, match="is no time of day"):
        read_schedule(text, NOW, BERLIN)


# What is written, the zone, from when, to when (UTC), and the slots (UTC) that must come, and no other.
TABLE = [
    # Berlin 2026-03-29: 02:00 → 03:00 at 01:00 UTC.
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", "2026-03-30T12:00", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
    ("0 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-30T12:00", ["03-29 01:00", "03-30 00:00"]),
    ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T12:00", ["03-29 01:00"]),
    ("*/15 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T12:00", ["03-29 01:00"]),
    ("0 1-4 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T12:00", ["03-29 00:00", "03-29 01:00", "03-29 02:00"]),
    ("0 * * * *", "Europe/Berlin", "2026-03-28T23:00", "2026-03-29T03:00", ["03-29 00:00", "03-29 01:00", "03-29 02:00", "03-29 03:00"]),
    ("10 * * * *", "Europe/Berlin", "2026-03-29T00:00", "2026-03-29T02:30", ["03-29 00:10", "03-29 01:10", "03-29 02:10"]),
    ("every 1d", "Europe/Berlin", "2026-03-28T00:00", "2026-03-30T12:00", ["03-28 12:00", "03-29 12:00", "03-30 12:00"]),
    # Berlin 2026-10-25: 03:00 → 02:00 at 01:00 UTC.
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-26T12:00", ["10-25 00:30", "10-26 01:30"]),
    ("0 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T12:00", ["10-25 00:00"]),
    ("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T12:00", ["10-25 02:00"]),
    ("*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T12:00", ["10-25 00:00", "10-25 00:30"]),
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", "2026-10-26T12:00", ["10-26 01:30"]),
    ("0 * * * *", "Europe/Berlin", "2026-10-24T23:30", "2026-10-25T02:30", ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),
    ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15", "2026-10-25T02:00", ["10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]),
    ("every 2h", "Europe/Berlin", "2026-10-24T22:00", "2026-10-25T04:00", ["10-25 00:00", "10-25 02:00", "10-25 04:00"]),
    # New York 2026-03-08 02:00 → 03:00 at 07:00 UTC; 2026-11-01 02:00 → 01:00 at 06:00 UTC.
    ("15 2 * * SUN", "America/New_York", "2026-03-07T12:00", "2026-03-15T12:00", ["03-08 07:00", "03-15 06:15"]),
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00", "2026-11-02T12:00", ["11-01 05:30", "11-02 06:30"]),
    ("0 9 * * MON-FRI", "America/New_York", "2026-03-06T00:00", "2026-03-09T23:00", ["03-06 14:00", "03-09 13:00"]),
    # Lord Howe moves by half an hour: 2026-10-04 02:00 → 02:30 at 15:30 UTC; 2026-04-05 02:00 → 01:30 at 15:00 UTC.
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", "2026-10-04T23:00", ["10-03 15:30", "10-04 15:15"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", "2026-04-05T23:00", ["04-04 14:45", "04-05 15:15"]),
    # Havana jumps at midnight: 2026-03-08 00:00 → 01:00 at 05:00 UTC; and back 2026-11-01 01:00 → 00:00 at 05:00 UTC.
    ("0 0 * * *", "America/Havana", "2026-03-07T12:00", "2026-03-09T12:00", ["03-08 05:00", "03-09 04:00"]),
    ("30 0 * * *", "America/Havana", "2026-10-31T12:00", "2026-11-02T12:00", ["11-01 04:30", "11-02 05:30"]),
    # Apia had no 30 December 2011 at all.
    ("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", "2011-12-31T20:00", ["12-29 19:00", "12-30 10:00", "12-30 19:00", "12-31 19:00"]),
    # Zones without summer time, with odd offsets, and before a rule ended.
    ("0 9 * * *", "Asia/Kolkata", "2026-03-29T00:00", "2026-03-30T12:00", ["03-29 03:30", "03-30 03:30"]),
    ("0 0 * * *", "Asia/Kathmandu", "2026-01-01T00:00", "2026-01-02T12:00", ["01-01 18:15"]),
    ("30 1 * * *", "Europe/London", "2026-10-24T12:00", "2026-10-26T12:00", ["10-25 00:30", "10-26 01:30"]),
    ("0 12 29 2 *", "UTC", "2026-01-01T00:00", "2033-01-01T00:00", ["02-29 12:00", "02-29 12:00"]),
    ("0 0 31 * *", "UTC", "2026-01-01T00:00", "2026-06-01T00:00", ["01-31 00:00", "03-31 00:00", "05-31 00:00"]),
    ("0 0 13 * FRI", "UTC", "2026-02-01T00:00", "2026-02-20T12:00", ["02-06 00:00", "02-13 00:00", "02-20 00:00"]),
    ("2026-03-29T02:30", "Europe/Berlin", "2026-03-28T00:00", "2026-03-30T00:00", ["03-29 01:00"]),
    ("2026-10-25 02:30", "Europe/Berlin", "2026-10-24T00:00", "2026-10-26T00:00", ["10-25 00:30"]),
    ("2026-10-25T02:30+01:00", "Europe/Berlin", "2026-10-24T00:00", "2026-10-26T00:00", ["10-25 01:30"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "zone", "first", "last", "expected"), TABLE)
def test_every_slot(text: str, zone: str, first: str, last: str, expected: list[str]) -> None:
    schedule = read_schedule(
        text, at(first) - timedelta(hours=12) if "d" in text else at(first), ZoneInfo(zone)
    )
    assert slots(schedule, first, last) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("2h", 7200),
        ("1d", 86400),
        ("45 min", 2700),
        ("2 hrs", 7200),
        ("3 days", 259200),
        ("in 10 minutes", 600),
        ("1h30m", 5400),
        ("1 week", 604800),
        ("1 hour 30 minutes", 5400),
    ],
)
def test_a_delay_is_once(text: str, seconds: int) -> None:
    assert read_schedule(text, NOW, BERLIN) == Once(at=NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("text", "minutes", "told"),
    [
        ("every 30m", 30, "every 30m"),
        ("every 2h", 120, "every 2h"),
        ("Every 90 minutes", 90, "every 90m"),
        ("every hour", 60, "every 1h"),
        ("every day", 1440, "every 1d"),
        ("every 1h30m", 90, "every 90m"),
    ],
)
def test_an_interval_counts_from_its_anchor(text: str, minutes: int, told: str) -> None:
    schedule = read_schedule(text, NOW, BERLIN)
    assert schedule == Every(period=timedelta(minutes=minutes), anchor=NOW)
    assert schedule.text == told
    assert schedule.after(NOW) == NOW + timedelta(minutes=minutes)
    assert schedule.after(NOW - timedelta(days=9)) == NOW + timedelta(minutes=minutes)
    # However late it is looked at, the slots stay where they are.
    assert schedule.after(NOW + timedelta(minutes=minutes * 7, seconds=59)) == NOW + timedelta(
        minutes=minutes * 8
    )
    assert schedule.latest(NOW + timedelta(minutes=minutes - 1)) is None


@pytest.mark.parametrize(
    ("text", "following"),
    [
        ("0 9 * * MON-FRI", "2026-01-06T09:00"),
        ("0 9 * * monday", "2026-01-12T09:00"),
        ("0 0 1 JAN *", "2027-01-01T00:00"),
        ("5/20 8 * * *", "2026-01-06T08:05"),
        ("10-40/10 8 * * *", "2026-01-06T08:10"),
        ("0 8,18 * * *", "2026-01-05T18:00"),
        ("0 8 * * 7", "2026-01-11T08:00"),
        ("0 8 * * FRI-MON", "2026-01-09T08:00"),
        ("0 8 ? * 5-7", "2026-01-09T08:00"),
        ("@daily", "2026-01-06T00:00"),
        ("@hourly", "2026-01-05T13:00"),
        ("@weekly", "2026-01-11T00:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
    ],
)
def test_a_calendar(text: str, following: str) -> None:
    assert read_schedule(text, NOW, ZoneInfo("UTC")).after(NOW) == at(following)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "missing"),
        ("soon", "no delay, no interval, no date"),
        ("every day at nine", "“nine” is no time of day"),
        ("every", "length of time"),
        ("every 30s", "length of time"),
        ("0m", "from 1 minute"),
        ("every 9000000d", "5 years"),
        ("0 25 * * *", "the hour “25”"),
        ("60 * * * *", "the minute “60”"),
        ("0 9 * * MOO", "the weekday “MOO”"),
        ("0 9 0 * *", "the day of the month “0”"),
        ("*/0 * * * *", "the minute “*/0”"),
        ("9-5 * * * *", "the minute “9-5”"),
        ("0 0 31 2 *", "never comes"),
        ("0 0 9 * * *", "6 fields instead of 5"),
        ("0 9 L * *", "the day of the month “L”"),
        ("@reboot", "@daily"),
        ("2026-02-30T09:00", "no date"),
    ],
)
def test_what_is_wrong_is_told_with_an_example(text: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        read_schedule(text, NOW, BERLIN)
    assert told in str(caught.value)
    assert caught.value.hint


def test_what_was_read_can_be_read_again() -> None:
    for text in ("30m", "every 2h", "0 9 * * MON-FRI", "@daily", "2030-05-01T09:00"):
        schedule = read_schedule(text, NOW, BERLIN)
        assert read_schedule(schedule.text, NOW, BERLIN) == schedule


def test_the_latest_slot_is_found_however_long_ago() -> None:
    leap = read_schedule("0 0 29 2 *", NOW, ZoneInfo("UTC"))
    assert leap.latest(NOW) == at("2024-02-29T00:00")
    busy = read_schedule("* * * * *", NOW, ZoneInfo("UTC"))
    assert busy.latest(NOW + timedelta(seconds=59)) == NOW


def test_grace_is_half_the_period_within_limits() -> None:
    for text, minutes in (("every 1m", 2), ("every 30m", 15), ("every 2d", 120)):
        assert grace(read_schedule(text, NOW, BERLIN), NOW) == timedelta(minutes=minutes)
    once = read_schedule("30m", NOW, BERLIN)
    assert grace(once, NOW + timedelta(minutes=30)) == timedelta(minutes=2)
