"""Which folders a gateway's agents may not touch unasked, and what of them each may use: made from the names
that the parts themselves give their files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import OUTPUT_FOLDER, FolderRules
from hermes.domain.settings.settings import Profile, Settings
from hermes.entry.http.site.owner_socket import socket_places
from hermes.state.home.agent_homes import moved_agents
from hermes.state.home.homes import AGENTS_FOLDER, SKILLS_FOLDER, agent_home, root_home
from hermes.state.home.locks import lock_folder, runtime_folders
from hermes.state.memory.files import READABLE

WORKSPACE = "workspace"
SANDBOXES = "sandboxes"
"""Where strangers have folders of their own."""
WORKSPACES = "workspaces"
"""Where conversations have folders of their own, if an agent's settings say so."""
MEDIA = "media"


def closed_homes(home: Path, environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """The gateway's home, the one that holds its profile, the user's usual one, those of all its agents; its
    locks and sockets, wherever they are."""
    usual = root_home({**environ, "HERMES_HOME": ""})
    # The others live inside the gateway's own; a thousand of them must not slow down each look.
    hosted = (agent_home(home, name, settings) for name in moved_agents(home, settings))
    beside = (lock_folder(environ), *runtime_folders(environ), *socket_places(home, environ))
    return spellings((home, home / AGENTS_FOLDER, root_home(environ), usual, *hosted, *beside))


def homes_for(profile: Profile, workspace: Path, closed: tuple[str, ...]) -> FolderRules:
    """What one agent may use of the closed homes: its workspace, if it is the one of a home or that of a
    stranger or a conversation in it; its saved outputs, media, skills, identity and memory for reading."""
    own = profile.home
    read = [own / OUTPUT_FOLDER, own / MEDIA, own / SKILLS_FOLDER]
    read += [own / path for path in READABLE]
    written = spellings([workspace])
    places = [
        Path(folder) / name
        for folder in (*closed, *spellings([own]))
        for name in (WORKSPACE, SANDBOXES, WORKSPACES)
    ]
    inside = any(Path(spelled).is_relative_to(place) for spelled in written for place in places)
    return FolderRules(
        closed=closed,
        readable=spellings(read),
        writable=written if inside else (),
        sealed=_others(profile) if profile.agent == MAIN_AGENT else closed,
        own=() if profile.agent == MAIN_AGENT else spellings([own]),
    )


def _others(main: Profile) -> tuple[str, ...]:
    """Where the agents live beside the main one, whose home holds most of them."""
    homes = [agent_home(main.home, name, main.settings) for name in moved_agents(main.home, main.settings)]
    return spellings([main.home / AGENTS_FOLDER, *homes])


def spellings(paths: Iterable[Path]) -> tuple[str, ...]:
    """Each path as it is written, and where it really leads."""
    ways = (os.path.abspath, os.path.realpath)
    return tuple(dict.fromkeys(spell(path) for path in paths for spell in ways))
