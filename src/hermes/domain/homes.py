"""Which folders belong to a gateway and its agents, and what in them one agent may use without asking."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRules:
    """Absolute paths. Nothing at or below a `closed` one is read or changed without asking, except what is at
    or below a `readable` one (read) or a `writable` one (read and changed)."""

    closed: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


NO_HOMES = FolderRules()
