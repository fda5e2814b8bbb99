"""Whether a process speaks for the owner, as its `mark` says, and what the others may still ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from hermes.domain import mark

_DEEPEST = 64
"""Marks add up where what is marked starts what is marked again. A limit so far below is no mark."""


class Rank(IntEnum):
    """Higher numbers may less: a mark can only be lowered."""

    OWNER = 0
    HOOK = mark.HOOK
    SCRIPT = mark.SCRIPT
    AGENT = mark.AGENT
    LOWERED = _DEEPEST
    """Without a mark, but with a limit far lower than the gateway's: that of a login, by its administrator,
    or that of an agent's process, by its own hand. Nothing safe tells them apart."""

    @property
    def label(self) -> str:
        return {
            Rank.OWNER: "the owner",
            Rank.HOOK: "a hook",
            Rank.SCRIPT: "a script of the home",
            Rank.AGENT: "a command of an agent",
            Rank.LOWERED: "a process with a lowered limit",
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
    Rank.LOWERED: Rights(commands=_LOOKING),
}


def rank_below(base: int, levels: Iterable[int]) -> Rank:
    """The rank of a process, from its level and those of its parents, and from that of the gateway."""
    ranks = {_rank_of(base - level) for level in levels}
    # Who carries a mark, or has a parent with one, does not shed it by lowering the limit further.
    return Rank.AGENT if len(ranks - {Rank.OWNER}) > 1 else max(ranks)


def rank_by_mark(levels: Iterable[int]) -> Rank:
    """The rank of a process where no gateway is known to compare it with. A limit far lower than any mark is
    an administrator's."""
    rank = rank_below(mark.TOP, levels)
    return Rank.OWNER if rank is Rank.LOWERED else rank


def _rank_of(steps: int) -> Rank:
    return Rank.LOWERED if steps >= _DEEPEST else Rank(min(max(steps, 0), Rank.AGENT))
