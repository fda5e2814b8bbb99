"""Whether a process speaks for the owner, as its `mark` says, and what the others may still ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from hermes.domain import mark

_DEEPEST = 64


class Rank(IntEnum):
    """Higher numbers may less: a mark can only be lowered."""

    OWNER = 0
    HOOK = mark.HOOK
    SCRIPT = mark.SCRIPT
    AGENT = mark.AGENT

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


def rank_below(base: int, level: int) -> Rank:
    """The rank of a process, from its level and that of the gateway."""
    return Rank(min(max(base - level, 0), Rank.AGENT))


def rank_by_mark(level: int) -> Rank:
    """The rank of a process where no gateway is known to compare it with. A limit far lower than any mark is
    an administrator's."""
    return rank_below(mark.TOP, level) if level > mark.TOP - _DEEPEST else Rank.OWNER
