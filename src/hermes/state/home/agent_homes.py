"""Whether every agent has a home of its own. An agent reads what is in its home and runs what is there, so
none may be, hold or be inside that of another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import Settings
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.homes import HOME_FOLDERS, agent_home

_OF_MAIN = (*HOME_FOLDERS, "workspace", "media", "cron", "sessions", "scripts")
"""What the main agent keeps in the gateway's home, where other agents may live beside it."""


def check_homes(home: Path, settings: Settings, lines: Mapping[str, int], findings: SettingsFindings) -> None:
    """With a shared home nothing starts: what is kept from an agent would not be."""
    if not any(hosted.home_dir for hosted in settings.agents.values()):
        return
    top, told = Path(os.path.realpath(home)), set[str]()
    places = list(_places(home, top, settings))
    owners: dict[Path, str] = {}
    for place, name in places:
        owners.setdefault(place, name)
    for place, name in places:
        for above in (place, *place.parents):
            other = owners.get(above, name)
            if other == name or (above == top and place != top):
                continue
            moved, stays = (name, other) if _is_moved(name, settings) else (other, name)
            if moved not in told:
                told.add(moved)
                line = lines.get(f"agents.{moved}.home_dir")
                what = "share one home_dir" if above == place else "have one home_dir inside the other's"
                message = f"The agents {stays} and {moved} {what}."
                findings.stop(line, message, "Give each a folder of its own.")


def _is_moved(name: str, settings: Settings) -> bool:
    hosted = settings.agents.get(name)
    return name != MAIN_AGENT and hosted is not None and bool(hosted.home_dir)


def _places(home: Path, top: Path, settings: Settings) -> Iterator[tuple[Path, str]]:
    """Where agents really live, the main one first."""
    yield top, MAIN_AGENT
    yield from ((top / folder, MAIN_AGENT) for folder in _OF_MAIN)
    for name in settings.agents:
        if not _is_moved(name, settings):
            yield top / "agents" / name, name
            continue
        try:
            yield Path(os.path.realpath(agent_home(home, AgentId(name), settings))), name
        except (UserError, ValueError):
            continue  # it is left out, with the reason
