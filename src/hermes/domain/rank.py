"""Whether a process speaks for the owner. What the gateway starts for hooks, scripts and agents has a mark
that the kernel holds: a hard resource limit one, two or three below the gateway's own. Children inherit it,
however they detach themselves, and nobody but root can raise it again; it outlives the gateway. The limit is
that on resident memory, which no system enforces. `RIGHTS` says what each rank may still ask for."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

TOP = 1 << 60
_DEEPEST = 64


class Rank(IntEnum):
    """Higher numbers may less: a mark can only be lowered."""

    OWNER = 0
    HOOK = 1
    SCRIPT = 2
    AGENT = 3

    @property
    def label(self) -> str:
        return {
            Rank.OWNER: "the owner",
            Rank.HOOK: "a hook",
            Rank.SCRIPT: "a script of the home",
            Rank.AGENT: "a command of an agent",
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Commands of `hermes`, and what may be asked on the owner's socket ("GET /health")."""

    commands: frozenset[str]
    routes: frozenset[str] = frozenset()


_LOOKING = frozenset(
    {
        "status",
        "gateway status",
        "config path",
        "config check",
        "config show",
        "config get",
        "platforms list",
        "platforms show",
    }
)
_SENDING = Rights(
    commands=_LOOKING | {"send"},
    routes=frozenset({"GET /health", "GET /control/status", "GET /control/places", "POST /control/send"}),
)
RIGHTS: Mapping[Rank, Rights] = {
    Rank.HOOK: _SENDING,
    Rank.SCRIPT: _SENDING,
    Rank.AGENT: Rights(commands=_LOOKING),
}


def own_level() -> int:
    return level_of(resource.getrlimit(resource.RLIMIT_RSS)[1])


def level_of(limit: int) -> int:
    return TOP if limit == resource.RLIM_INFINITY else min(limit, TOP)


def step_down(rank: Rank) -> None:
    """Mark this process and whatever it will start. One that cannot be marked must not go on."""
    level = max(own_level() - rank, 0)
    resource.setrlimit(resource.RLIMIT_RSS, (level, level))


def rank_below(base: int, level: int) -> Rank:
    """The rank of a process, from its level and that of the gateway."""
    return Rank(min(max(base - level, 0), Rank.AGENT))


def rank_by_mark(level: int) -> Rank:
    """The rank of a process where no gateway is known to compare it with. A limit far lower than any mark is
    an administrator's."""
    return rank_below(TOP, level) if level > TOP - _DEEPEST else Rank.OWNER
