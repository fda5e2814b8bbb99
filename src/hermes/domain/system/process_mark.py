"""The mark of a process that the gateway started for a hook, a script or an agent: a hard resource limit
where others have none. The kernel holds it: children inherit it however they detach, nobody but root raises
it, it outlives the gateway, and whoever lowers a limit, its own or another's, only loses by it. The limit is
that on resident memory, which no system enforces. Small processes import this, so it imports next to nothing;
what a mark means is `rank`'s."""

from __future__ import annotations

import resource

HOOK, SCRIPT, AGENT = 1, 2, 3
TOP = 1 << 60


def own_level() -> int:
    return level_of(resource.getrlimit(resource.RLIMIT_RSS)[1])


def level_of(limit: int) -> int:
    return TOP if limit == resource.RLIM_INFINITY else min(limit, TOP)


def step_down(steps: int) -> None:
    """Mark this process and whatever it will start. One that cannot be marked must not go on."""
    level = min(own_level(), TOP - steps)
    resource.setrlimit(resource.RLIMIT_RSS, (level, level))
