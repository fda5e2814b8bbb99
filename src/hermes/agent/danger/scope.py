"""Where a command is to run, and what its operator says about commands. What paths mean there is judged in
`paths.py`, which is loaded when it is first asked."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from hermes.domain.ports.world import NO_HOMES, FolderRules
from hermes.domain.safety.late_pattern import late_pattern

ROOTS = late_pattern(
    r"/|/(etc|usr|bin|sbin|lib|lib32|lib64|boot|dev|home|opt|proc|root|run|srv|sys|var|tmp|mnt|media|Users|System"
    r"|Library|Applications|Volumes|nix|snap)|/(home|Users)/[^/]+|/usr/(bin|lib|local|share|sbin)|/var/(lib|log)"
)
_SHORTEST_MARK = 5


class UserLocks(Struct, frozen=True, kw_only=True):
    """What the operator says about commands: patterns of those that are never run (`deny`) and of those that
    are always asked for (`ask`), beginnings of those that are not (`allow`), and folders in which deleting is
    everyday work."""

    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class CommandScope(Struct, frozen=True, kw_only=True):
    """Where a command is to run: what it may treat as its own, and what belongs to the gateway and its
    agents."""

    cwd: str
    workspace: str
    home: str
    wide: bool = False
    own_pids: tuple[int, ...] = ()
    homes: FolderRules = NO_HOMES
    deny: tuple[str, ...] = ()
    """Patterns of commands that the operator forbids."""
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """As in `UserLocks`."""
    ignored: tuple[str, ...] = ()
    """The lines of the workspace's `.agentignore`."""
    scripts: tuple[tuple[str, str | None], ...] = ()
    """Files that the agent wrote and the command would run, with their texts; None = no text to be judged."""
    elsewhere: str = ""
    """The world it is in, unless that is the gateway's machine itself."""
    contained: bool = False
    """Whether a sandbox or a container holds it, so that only what leaves that matters."""
    network_open: bool = True
    """Whether it may reach any host."""
    ask_all: bool = False
    """Nothing holds it, and who it is for does not sit at the machine: what is harmless is asked for too."""

    @property
    def ground(self) -> str:
        """The folder in which deleting is everyday work; empty if the workspace is too wide for that."""
        return self.workspace if not self.wide and is_free_workspace(self.workspace, self.home) else ""

    def mentions_home(self, code: str) -> bool:
        """Whether code names one of the homes: whole, or as it is called inside the user's home folder."""
        pattern = _marks(self.homes.closed, self.home)
        return pattern is not None and pattern.search(code) is not None

    def read_fault(self, path: str) -> str:
        """The id of the rule that reading this breaks, or nothing."""
        from hermes.agent.danger.paths import read_fault

        return read_fault(path, self)

    def write_fault(self, path: str) -> str:
        """The id of the rule that a write there breaks, or nothing."""
        from hermes.agent.danger.paths import write_fault

        return write_fault(path, self)

    def prompt_fault(self, path: str) -> str:
        """The same after words from outside: they must not become orders for later. Nothing where a write
        is asked for anyway."""
        from hermes.agent.danger.paths import prompt_fault

        return "" if self.write_fault(path) else prompt_fault(path, self)

    def is_sealed(self, path: str, *, writing: bool) -> bool:
        """Whether it is another agent's, or the gateway's, so that file tools never reach it."""
        from hermes.agent.danger.paths import is_sealed

        return bool(self.homes.sealed) and is_sealed(path, self.homes, writing=writing)

    def denies(self, command: str) -> bool:
        return _fits(command, self.deny)

    def locks(self, command: str) -> bool:
        return _fits(command, self.ask)


def _fits(command: str, patterns: tuple[str, ...]) -> bool:
    folded = command.strip().casefold()
    return any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns)


def is_free_workspace(workspace: str, home: str) -> bool:
    """Whether a folder may be an agent's own: not the user's home, nor what is above it, nor the system's."""
    return not (ROOTS.fullmatch(workspace) or is_within(home, workspace))


def is_wide(workspace: str, home: str) -> bool:
    """Whether a folder of this machine is too much to be an agent's own: the user's home, one above it, or
    the system's; as it is written, or where it really leads."""
    pairs = ((workspace, home), (os.path.realpath(workspace), os.path.realpath(home)))
    return not all(is_free_workspace(folder, own) for folder, own in pairs)


def is_root(path: str) -> bool:
    """Whether this is the root or a folder of the system, beside the one for anybody's files."""
    return path != "/tmp" and ROOTS.fullmatch(path) is not None


def is_within(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))


@lru_cache(maxsize=64)
def _marks(folders: tuple[str, ...], user_home: str) -> re.Pattern[str] | None:
    marks = set(folders)
    for folder in folders:
        below = folder.removeprefix(user_home.rstrip("/") + "/")
        if below != folder and (below.startswith(".") or len(below) >= _SHORTEST_MARK):
            marks.add(below)
    if not marks:
        return None
    any_mark = "|".join(map(re.escape, sorted(marks)))
    return re.compile(rf"(?<![\w.-])({any_mark})(?![\w-])", re.IGNORECASE)
