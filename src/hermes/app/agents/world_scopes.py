"""What commands may do without asking, by the world that they run in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import (
    Callable,
)
from pathlib import Path

from hermes.agent.danger.scope import CommandScope, UserLocks, is_free_workspace, is_wide
from hermes.app.homes import homes_for
from hermes.domain.ports.world import (
    Boundary,
    FolderRules,
    World,
)
from hermes.domain.settings.declaring import EVERY_ONE
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.word import replace
from hermes.state.home.homes import USUAL_HOME

_MOST_SCOPES = 256


def locks_of(settings: Settings) -> UserLocks:
    """What the operator says about commands."""
    approvals = settings.approvals
    return UserLocks(
        deny=approvals.deny,
        ask=EVERY_ONE if approvals.ask_always else approvals.ask,
        allow=settings.command_allowlist,
        folders=tuple(os.path.normpath(os.path.expanduser(one)) for one in approvals.allow_folders),
    )


class WorldScopes:
    """What an agent's commands may do without asking, by the world they run in. `closed` are the homes of the
    gateway and its agents; another machine or a sandbox may hold one too, at the usual place.
    `locks` tells what the operator says about commands, as it is now."""

    def __init__(self, profile: Profile, closed: tuple[str, ...], locks: Callable[[], UserLocks]) -> None:
        self._profile = profile
        self._closed = closed
        self._locks = locks
        self._scopes: dict[World, CommandScope] = {}

    async def of(self, world: World) -> CommandScope:
        if world not in self._scopes:
            if len(self._scopes) >= _MOST_SCOPES:
                self._scopes.clear()
            self._scopes[world] = await asyncio.to_thread(self._make, world)
        locks = self._locks()
        return replace(
            self._scopes[world], deny=locks.deny, ask=locks.ask, allow=locks.allow, folders=locks.folders
        )

    def _make(self, world: World) -> CommandScope:
        workspace = Path(world.workspace)
        if world.host_files:
            wide = is_wide(world.workspace, world.home)
            homes = homes_for(self._profile, workspace, self._closed)
        else:
            wide = not is_free_workspace(world.workspace, world.home)
            closed = (*self._closed, f"{world.home.rstrip('/')}/{USUAL_HOME}")
            own = () if world.boundary is Boundary.NONE else (world.workspace, world.home)
            homes = FolderRules(closed=closed, writable=own)
        return CommandScope(
            cwd=world.workspace,
            workspace=world.workspace,
            home=world.home,
            wide=wide,
            homes=homes,
            own_pids=(os.getpid(),) if world.host_files else (),
            contained=world.boundary.holds_strangers,
            network_open=world.network.open,
        )
