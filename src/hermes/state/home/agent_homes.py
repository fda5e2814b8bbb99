"""Whether every agent has a home of its own. An agent reads what is in its home and runs what is there, so
none may be, hold or be inside that of another."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
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
    moved = frozenset(moved_agents(home, settings))
    if not moved and not (home / AGENTS_FOLDER).is_symlink():
        return
    top, told = Path(os.path.realpath(home)), set[str]()
    for agent in sorted(moved):
        try:
            agent_home(home, AgentId(agent), settings)
        except UserError as error:
            findings.problem(lines.get(f"agents.{agent}.home_dir"), error.message, error.hint)
    places = list(_places(home, top, settings, moved))
    for place, name in places:
        outside = name in moved and not place.is_relative_to(top)
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
            comes, stays = (name, other) if name in moved else (other, name)
            if comes not in told:
                told.add(comes)
                what = "share one home_dir" if above == place else "have one home_dir inside the other's"
                message = f"The agents {stays} and {comes} {what}."
                findings.stop(
                    lines.get(f"agents.{comes}.home_dir"), message, "Give each a folder of its own."
                )
    for place, name in places:
        if name in moved and name not in told and _is_of_gateway(place, top):
            message = f"The home_dir of the agent {name} is {place}, which the gateway keeps for itself."
            hint = f"Give it a folder of its own, like {AGENTS_FOLDER}/{name}."
            findings.stop(lines.get(f"agents.{name}.home_dir"), message, hint)


def moved_agents(home: Path, settings: Settings) -> list[AgentId]:
    """The agents that live apart from the others: by their `home_dir`, or behind a link in `agents/`."""
    try:
        with os.scandir(home / AGENTS_FOLDER) as entries:
            links = {entry.name for entry in entries if entry.is_symlink()}
    except OSError:
        links = set()
    hosted = ((name, one) for name, one in settings.agents.items() if name != MAIN_AGENT)
    return [AgentId(name) for name, one in hosted if one.home_dir or name in links]


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


def _places(home: Path, top: Path, settings: Settings, moved: Collection[str]) -> Iterator[tuple[Path, str]]:
    """Where agents really live, the main one first."""
    together = Path(os.path.realpath(top / AGENTS_FOLDER))
    yield top, MAIN_AGENT
    yield from ((top / folder, MAIN_AGENT) for folder in _OF_MAIN)
    for name in settings.agents:
        if name not in moved:
            yield together / name, name
            continue
        try:
            yield Path(os.path.realpath(agent_home(home, AgentId(name), settings))), name
        except (UserError, ValueError):
            continue  # it is left out, with the reason
