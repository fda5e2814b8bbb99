"""Whether a path leads into a folder that is closed, or to one that such a folder is in.

Paths are compared as names, without regard to case, since some disks have none. A glob that may stand for a
name counts as that name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from hermes.agent.danger.shell.expand import has_glob, to_plain
from hermes.domain.homes import FolderRules

_LONGEST_NAME = 255
_SHORTEST_MARK = 5


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Whether the path is one of the folders or something in it."""
    return any(_leads(path, folder) for folder in folders)


def holds_one(path: str, folders: Iterable[str]) -> bool:
    """Whether one of the folders is in what the path names: who takes that whole takes the folder along."""
    return any(_leads(path, folder, down=True) for folder in folders)


def is_closed(path: str, homes: FolderRules, *, writing: bool) -> bool:
    if not is_inside(path, homes.closed):
        return False
    places = homes.writable if writing else (*homes.writable, *homes.readable)
    plain = to_plain(path)
    free = [place for place in places if plain == place or plain.startswith(place + "/")]
    # A home inside a place that is free is closed again.
    return not free or any(is_inside(home, free) and is_inside(path, (home,)) for home in homes.closed)


def mentions_home(text: str, homes: FolderRules, user_home: str) -> bool:
    """Whether code names one of the homes: whole, or as it is called inside the user's home folder."""
    pattern = _marks(homes.closed, user_home)
    return pattern is not None and pattern.search(text) is not None


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


def _leads(path: str, folder: str, *, down: bool = False) -> bool:
    """Whether the path is the folder or in it; `down`: whether it is above it."""
    if not folder:
        return False
    if not has_glob(path):
        above, below = (path, folder) if down else (folder, path)
        above, below = above.casefold().rstrip("/"), below.casefold()
        return below.startswith(above + "/") or (not down and below == above)
    names, wanted = path.strip("/").split("/"), folder.strip("/").split("/")
    if len(names) >= len(wanted) if down else len(names) < len(wanted):
        return False
    return all(_may_be(name, one) for name, one in zip(names, wanted, strict=False))


def _may_be(name: str, meant: str) -> bool:
    if not has_glob(name):
        return name.casefold() == meant.casefold()
    pattern = to_plain(name)
    if len(pattern) > _LONGEST_NAME or "**" in pattern:
        return True
    if meant.startswith(".") and not pattern.startswith((".", "[")):
        return False
    return fnmatchcase(meant.casefold(), pattern.casefold())
