"""A hook plugin: writes a line for each turn into `turns.csv` in the folder that HERMES_TURN_LOG names. It
runs in a thread of its own, observes, and decides nothing."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

HERMES_API = 1


def log_turn(event_type: str, context: dict[str, Any]) -> None:
    folder = os.environ.get("HERMES_TURN_LOG")
    if not folder:
        return
    with Path(folder, "turns.csv").open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow([event_type, context.get("session_id"), context.get("platform")])


log_turn.events = ("agent:start", "agent:end")  # type: ignore[attr-defined]
