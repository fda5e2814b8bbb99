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
from hermes.state.home.homes import (
    ACTIVE_FILE,
    AGENTS_FOLDER,
    HOME_FOLDERS,
    PROFILES_FOLDER,
    agent_home,
)

_OF_MAIN = (*HOME_FOLDERS, "workspace", "media", "cron", "sessions", "scripts")
"""What the main agent keeps in the gateway's home, where other agents may live beside it."""


_SYSTEM = frozenset(
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr"]
)
"""Folders at the root that no agent lives in."""


_OF_GATEWAY = frozenset(
    f"""{PROFILES_FOLDER} {AGENTS_FOLDER} {ACTIVE_FILE} platforms backups archives before-restore plugins
    config_history config.yaml config.yml sandboxes workspaces checkpoints batches egress mcp ssh
    webhook_subscriptions.json channel_aliases.json SOUL.md BOOT.md terminal_history""".split()
)
"""What the gateway keeps at the top of its home, beside what is hidden or begins like the next."""
_OF_PROCESS = (".", "gateway", "reserve.bin", "auth.")


def check_homes(home: Path, settings: Settings, lines: Mapping[str, int], findings: SettingsFindings) -> None:
    """With a shared home nothing starts: what is kept from an agent would not be. Nor with one among the
    files of the system."""
    if not any(hosted.home_dir for hosted in settings.agents.values()):
        return
    top, told = Path(os.path.realpath(home)), set[str]()
    places = list(_places(home, top, settings))
    for place, name in places:
        outside = _is_moved(name, settings) and not place.is_relative_to(top)
        if outside and _is_of_system(place):
            message = f"The home_dir of the agent {name} is {place}, among the files of the system."
            hint = "Give it a folder in the home, or another one of yours."
            findings.stop(lines.get(f"agents.{name}.home_dir"), message, hint)
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
    for place, name in places:
        if _is_moved(name, settings) and name not in told and _is_of_gateway(place, top):
            message = f"The home_dir of the agent {name} is {place}, which the gateway keeps for itself."
            hint = f"Give it a folder of its own, like {AGENTS_FOLDER}/{name}."
            findings.stop(lines.get(f"agents.{name}.home_dir"), message, hint)


def _is_of_system(place: Path) -> bool:
    """Memory that is a folder (`/dev/shm`) is anybody's."""
    return place.parts[1:2] != () and place.parts[1] in _SYSTEM and place.parts[1:3] != ("dev", "shm")


def _is_of_gateway(place: Path, top: Path) -> bool:
    """Also if it is of the other profiles, or of the home that holds this one."""
    if not place.is_relative_to(top):
        return top.parent.name == PROFILES_FOLDER and place.is_relative_to(top.parents[1])
    match place.relative_to(top).parts:
        case []:
            return False  # that of the main agent: told below
        case [folder, name, *_] if folder == AGENTS_FOLDER:
            return name.startswith(".")
        case [first, *_]:
            return first in _OF_GATEWAY or first.startswith(_OF_PROCESS)
    return False


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
