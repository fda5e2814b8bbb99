"""Schedules: what people write, and the slots that follow from it. Pure: moments and zones are passed in.

A calendar (`0 9 * * MON-FRI`) follows the local clock. Where that clock jumps ahead, a skipped time becomes
the first moment after the jump; where it is set back, a time that comes twice counts the first time. A
calendar that names no hours (`*/10 * * * *`) runs in every hour that really passes. An interval (`every 2h`)
is real time counted from its anchor, so it never drifts and summer time does not matter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NoReturn

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.text import one_line

EXAMPLES = "30m (once), every 2h, 0 9 * * MON-FRI, @daily, 2030-05-01T09:00"
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
_LOOKED_AHEAD = 366 * 12
_LOOKED_BACK = (timedelta(hours=1), _DAY, 32 * _DAY, 400 * _DAY, _LOOKED_AHEAD * _DAY)
_LONGEST = timedelta(days=366 * 5)
_GRACE = (timedelta(minutes=2), timedelta(hours=2))


class Once(Struct, frozen=True, kw_only=True):
    at: datetime

    @property
    def text(self) -> str:
        return self.at.astimezone(UTC).isoformat()

    def after(self, moment: datetime) -> datetime | None:
        return self.at if self.at > moment else None

    def latest(self, moment: datetime) -> datetime | None:
        return self.at if self.at <= moment else None


class Every(Struct, frozen=True, kw_only=True):
    period: timedelta
    anchor: datetime

    @property
    def text(self) -> str:
        minutes = int(self.period.total_seconds()) // 60
        for size, unit in ((1440, "d"), (60, "h")):
            if minutes % size == 0:
                return f"every {minutes // size}{unit}"
        return f"every {minutes}m"

    def after(self, moment: datetime) -> datetime | None:
        return self.anchor + (max(0, (moment - self.anchor) // self.period) + 1) * self.period

    def latest(self, moment: datetime) -> datetime | None:
        passed = (moment - self.anchor) // self.period
        return self.anchor + passed * self.period if passed > 0 else None


class Calendar(Struct, frozen=True, kw_only=True):
    """`any_day` and `any_weekday` say which of the two names no days; if both name some, either will do."""

    text: str
    zone: tzinfo
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def after(self, moment: datetime) -> datetime | None:
        if len(self.hours) == 24:
            return self._after_in_real_time(moment)
        now = moment.astimezone(self.zone).replace(tzinfo=None, second=0, microsecond=0)
        for day in self._days(now.date()):
            for hour in self.hours:
                for minute in self.minutes:
                    wall = datetime.combine(day, time(hour, minute))
                    # What the wall clock has shown by now came before, or comes a second time.
                    if wall >= now and (at := on_the_wall(wall, self.zone)) > moment:
                        return at
        return None

    def latest(self, moment: datetime) -> datetime | None:
        """The last slot that is not after the moment."""
        for back in _LOOKED_BACK:
            last, slot = None, self.after(moment - back)
            while slot is not None and slot <= moment:
                last, slot = slot, self.after(slot)
            if last is not None:
                return last
        return None

    def _after_in_real_time(self, moment: datetime) -> datetime | None:
        at = moment.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
        end = at + _LOOKED_AHEAD * _DAY
        while at < end:
            wall = at.astimezone(self.zone)
            if not self._takes(wall.date()):
                midnight = datetime.combine(wall.date() + _DAY, time())
                at = max(on_the_wall(midnight, self.zone), at + _MINUTE)
            elif wall.minute in self.minutes:
                return at
            else:
                at += _MINUTE
        return None

    def _days(self, first: date) -> Iterator[date]:
        return filter(self._takes, (first + timedelta(days=ahead) for ahead in range(_LOOKED_AHEAD)))

    def _takes(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


Schedule = Once | Every | Calendar


def read_schedule(text: str, now: datetime, zone: tzinfo) -> Schedule:
    """What a person wrote, from `now` on: delays and intervals count from it."""
    words = " ".join(text.split())
    lower = words.lower()
    now = now.astimezone(UTC).replace(microsecond=0)
    if not words:
        raise UserError("A schedule is missing.", hint=f"For example: {EXAMPLES}.")
    lower = {"hourly": "@hourly", "daily": "@daily", "weekly": "@weekly", "monthly": "@monthly"}.get(
        lower, lower
    )
    if lower.startswith("@"):
        if lower not in _MACROS:
            raise UserError(f"“{one_line(lower, 40)}” is not known.", hint=f"Known: {', '.join(_MACROS)}.")
        return _read_calendar(_MACROS[lower], zone)
    if spoken := _SPOKEN_DAYS.fullmatch(lower):
        hour, minute = _hour(spoken["at"] or spoken["hour"] or spoken["time"] or "midnight", words)
        return _read_calendar(f"{minute} {hour} * * {_weekdays(spoken['days'])}", zone)
    if spoken := _TOMORROW.fullmatch(lower):
        hour, minute = _hour(spoken["at"], words)
        day = now.astimezone(zone).date() + _DAY
        return Once(at=on_the_wall(datetime.combine(day, time(hour, minute)), zone))
    if lower == "every" or lower.startswith("every "):
        period = _duration(lower[5:].strip(), words)
        return Every(period=period, anchor=now)
    if _LENGTH.fullmatch(lower.removeprefix("in ")):
        return Once(at=now + _duration(lower.removeprefix("in "), words))
    if len(words.split()) == 5:
        return _read_calendar(words, zone)
    return Once(at=_moment(words, zone))


def grace(schedule: Schedule, slot: datetime) -> timedelta:
    """How late a slot may be and still count as on time: half the way to the next one, within limits."""
    following = schedule.after(slot)
    least, most = _GRACE
    return least if following is None else min(max((following - slot) / 2, least), most)


# --- moments -------------------------------------------------------------------------------------


def on_the_wall(wall: datetime, zone: tzinfo) -> datetime:
    """The moment at which a wall clock shows this time: the first of two, and for a time that is skipped the
    first moment after the jump."""
    early = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if early.astimezone(zone).replace(tzinfo=None) == wall:
        return early
    # In a jump, the other reading of the time lies before it; clocks change at a full minute.
    at = wall.replace(tzinfo=zone, fold=1, second=0).astimezone(UTC)
    offset = at.astimezone(zone).utcoffset()
    while at.astimezone(zone).utcoffset() == offset:
        at += _MINUTE
    return at


def _moment(words: str, zone: tzinfo) -> datetime:
    try:
        at = datetime.fromisoformat(words)
    except ValueError:
        _not_understood(words)
    at = at.replace(microsecond=0)
    return on_the_wall(at, zone) if at.tzinfo is None else at.astimezone(UTC)


def _not_understood(words: str) -> NoReturn:
    count = len(words.split())
    problem = "it is no delay, no interval, no date"
    if count > 1 and re.fullmatch(r"[\d*/,?#LW-]+", words.split(maxsplit=1)[0], re.IGNORECASE):
        problem = (
            f"it looks like a calendar, but has {count} fields instead of 5 (minute hour day month weekday)"
        )
    raise UserError(
        f"“{one_line(words, 60)}” is not understood as a schedule: {problem}.",
        hint=f"For example: {EXAMPLES}.",
    )


# --- days and hours as people say them -----------------------------------------------------------

_WEEKDAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?"
_SPOKEN_DAYS = late_pattern(
    rf"(?:every |on )?(?P<days>{_WEEKDAY}(?:(?:, ?| and |, and ){_WEEKDAY})*|weekdays?|weekends?)"
    r"(?: at (?P<at>.{1,10})| (?P<hour>noon|midnight|\d.{0,9}))?"
    r"|(?:every day|daily)(?: at)? (?P<time>.{1,10})"
)
_TOMORROW = late_pattern(r"tomorrow(?: at)? (?P<at>.{1,10})")
_HOUR = late_pattern(r"(\d{1,2})(?::(\d\d))? ?(am|pm)?")
_NAMED_HOURS = {"midnight": (0, 0), "noon": (12, 0)}


def _weekdays(days: str | None) -> str:
    if days is None:
        return "*"
    if days.startswith("week"):
        return "MON-FRI" if days.startswith("weekday") else "SAT,SUN"
    return ",".join(word[:3].upper() for word in re.findall(_WEEKDAY, days))


def _hour(text: str, whole: str) -> tuple[int, int]:
    """`9`, `9:30`, `9am`, `noon`."""
    if text in _NAMED_HOURS:
        return _NAMED_HOURS[text]
    read = _HOUR.fullmatch(text)
    hour, minute = (int(read[1]), int(read[2] or 0)) if read else (99, 99)
    if read and read[3]:
        hour = hour % 12 + 12 * (read[3] == "pm") if 1 <= hour <= 12 else 99
    if hour > 23 or minute > 59:
        raise UserError(
            f"“{one_line(whole, 60)}” is not understood: “{one_line(text, 40)}” is no time of day.",
            hint="Write it like 9:30, 9am or noon.",
        )
    return hour, minute


# --- durations -----------------------------------------------------------------------------------

_UNITS = {"m": 1, "h": 60, "d": 1440, "w": 10080}
_PIECE = late_pattern(r"(\d{1,7})? ?(minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)\b ?")
_LENGTH = late_pattern(r"(?:\d{1,7} ?(?:minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w) ?)+")
_NO_GAPS = late_pattern(r"(?<=[a-z])(?=\d)")


def _duration(text: str, whole: str) -> timedelta:
    """`30m`, `2 hours`, `1h30m`; a unit alone is one of it."""
    spaced = _NO_GAPS.sub(" ", text)
    pieces = list(_PIECE.finditer(spaced))
    if not pieces or "".join(piece.group() for piece in pieces) != spaced:
        raise UserError(
            f"“{one_line(whole, 60)}” is not understood: “{one_line(text, 40)}” is not a length of time.",
            hint="Write minutes, hours or days: every 30m, every 2h, every 1d; for times of day: 0 9 * * *.",
        )
    minutes = sum(int(piece[1] or 1) * _UNITS[piece[2][0]] for piece in pieces)
    if not 1 <= minutes <= _LONGEST // _MINUTE:
        raise UserError(
            f"“{one_line(whole, 60)}” is {minutes:,} minutes, and a schedule takes from 1 minute to 5 years.",
            hint="For example: 30m, every 2h.",
        )
    return timedelta(minutes=minutes)


# --- calendars -----------------------------------------------------------------------------------

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTH_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_WEEKDAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}


class _Field(Struct, frozen=True, kw_only=True):
    title: str
    least: int
    most: int
    names: Mapping[str, int]


_FIELDS = (
    _Field(title="minute", least=0, most=59, names={}),
    _Field(title="hour", least=0, most=23, names={}),
    _Field(title="day of the month", least=1, most=31, names={}),
    _Field(title="month", least=1, most=12, names=_MONTHS),
    _Field(title="weekday", least=0, most=7, names=_WEEKDAYS),
)


def _read_calendar(text: str, zone: tzinfo) -> Calendar:
    words = text.split()
    sets = [_read_field(word, field, text) for word, field in zip(words, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = sets
    calendar = Calendar(
        text=text,
        zone=zone,
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        any_day=words[2][0] in "*?",
        any_weekday=words[4][0] in "*?",
    )
    if not any(True for _ in calendar._days(date(2000, 1, 1))):
        raise UserError(
            f"“{one_line(text, 60)}” never comes: no month has such a day.",
            hint="Check the day and the month.",
        )
    return calendar


def _read_field(word: str, field: _Field, whole: str) -> set[int]:
    values: set[int] = set()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isascii() and step.isdigit() and 1 <= int(step) <= field.most):
            raise _wrong(field, part, whole)
        if span in ("*", "?"):
            least, most = field.least, field.most
        else:
            first, dash, last = span.partition("-")
            least = _number(first, field, part, whole)
            most = _number(last, field, part, whole) if dash else field.most if slash else least
        if least > most and field.names and field.least == 0:
            most += 7  # FRI-MON
        if least > most:
            raise _wrong(field, part, whole)
        values.update(range(least, most + 1, int(step or 1)))
    return values


def _number(word: str, field: _Field, part: str, whole: str) -> int:
    named = field.names.get(word.lower()[:3]) if word.isalpha() and len(word) >= 3 else None
    if named is not None:
        return named
    if not (word.isascii() and word.isdigit() and field.least <= int(word) <= field.most):
        raise _wrong(field, part, whole)
    return int(word)


def _wrong(field: _Field, part: str, whole: str) -> UserError:
    names = f" or {', '.join(name.upper() for name in field.names)}" if field.names else ""
    return UserError(
        f"In “{one_line(whole, 60)}” the {field.title} “{one_line(part, 20)}” is not understood:"
        f" it takes {field.least} to {field.most}{names}, lists (1,5), ranges (1-5) and steps (*/5).",
        hint="For example, on weekdays at nine: 0 9 * * MON-FRI.",
    )
