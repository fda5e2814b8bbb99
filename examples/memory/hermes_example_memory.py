"""A memory plugin: every new session is told what `calendar.json` in the agent's home says. Choose it with
`memory: {provider: calendar}`. The file is a JSON object of days and what is on them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from hermes.domain.settings.settings import Profile

HERMES_API = 1


class CalendarMemory:
    def __init__(self, profile: Profile) -> None:
        self._file = profile.home / "calendar.json"

    async def notes(self) -> Mapping[str, str]:
        days = await asyncio.to_thread(_read, self._file)
        return {"Calendar": "\n".join(f"{day}: {what}" for day, what in sorted(days.items()))}


def _read(file: Path) -> dict[str, str]:
    """What raises here is logged, and the session begins with the notes that were read last."""
    days: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return days
