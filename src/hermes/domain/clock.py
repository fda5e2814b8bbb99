"""The time everybody uses. Wall time is aware UTC; durations come from the monotonic clock."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Protocol

_LOCAL_ZONE = "/etc/localtime"


class Clock(Protocol):
    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@lru_cache(maxsize=16)
def zone_named(name: str) -> tzinfo:
    """The zone of this name with its rules; an empty name is the machine's zone."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name or os.environ.get("TZ", "").lstrip(":"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if name:
            raise
    try:
        with open(_LOCAL_ZONE, "rb") as file:
            return ZoneInfo.from_file(file, key="local")
    except (OSError, ValueError):
        return UTC
