"""Whether a process speaks for the owner, as its `mark` says, and what the others may still ask for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from hermes.domain.system import process_mark as mark


class Rank(IntEnum):
    """Higher numbers may less: a mark can only be lowered."""

    OWNER = 0
    HOOK = mark.HOOK
    SCRIPT = mark.SCRIPT
    AGENT = mark.AGENT
    LIMITED = mark.AGENT + 1
    """Under another limit than ours, an administrator's or one that an agent's command gave itself."""

    @property
    def label(self) -> str:
        return {
            Rank.OWNER: "the owner",
            Rank.HOOK: "a hook",
            Rank.SCRIPT: "a script of the home",
            Rank.AGENT: "a command of an agent",
            Rank.LIMITED: "a process with a limit on resident memory",
        }[self]

    @property
    def remedy(self) -> str:
        if self is Rank.LIMITED:
            return (
                "Such limits mark what agents start. Lift it for your login: `ulimit -Hm` must say unlimited."
            )
        return "Do it in your own terminal."


class Rights(Struct, frozen=True, kw_only=True):
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
    Rank.LIMITED: Rights(commands=_LOOKING),
}


def rank_of(level: int) -> Rank:
    """The rank of a process by its level: only one without any limit is the owner's."""
    return Rank(min(mark.TOP - level, Rank.LIMITED))
