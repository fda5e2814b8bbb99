"""The checkpoints of an agent: their rows, the shadow stores in its home, and how long both are kept."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.control.turn.children import turns_for
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.store import Store
from hermes.domain.settings.checkpoints import CheckpointSettings
from hermes.domain.settings.settings import Profile
from hermes.domain.text import storable
from hermes.domain.tools.checkpoint import NOT_KNOWN, Checkpoint, CheckpointView
from hermes.domain.turns.event import Entry
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.execution.checkpoints.shadow import ShadowStore, SnapshotLimits

CHECKPOINTS = "checkpoints"
_UNDER_WAY = 60.0
"""Seconds for which a call may have worked on files before the gateway died."""
ACTIONS = ("status", "prune", "clear")


class CheckpointStores:
    """`settings` are those of now."""

    def __init__(
        self,
        profile: Profile,
        store: Store,
        clock: Clock,
        settings: Callable[[], CheckpointSettings],
        environ: Mapping[str, str],
    ) -> None:
        self._profile = profile
        self._folder = profile.home / CHECKPOINTS
        self._store = store
        self._clock = clock
        self.settings = settings
        self._environ = environ

    def shadow(self, root: str) -> ShadowStore:
        from hermes.execution.checkpoints.shadow import ShadowStore

        name = hashlib.sha256(root.encode()).hexdigest()[:16]
        return ShadowStore(self._folder / name, root, self._environ)

    async def take(self, session: SessionId, turn: TurnId, root: str, label: str) -> Checkpoint:
        """Keep the state of a folder before a turn works on it, unless it does so already; a turn that goes
        on after a wait begins a new stretch. A `UserError` says why not."""
        there = await self._store.read(lambda tx: tx.checkpoints.of_turns([turn]))
        if there and there[0].is_open:
            return there[0]
        if there:
            return await self._append(there[0])
        before = await self._snapshot(root, turn)
        made = Checkpoint(
            session=session, turn=turn, root=root, before=before, label=label, at=self._clock.now()
        )
        await self._store.write(lambda tx: tx.checkpoints.add(made))
        return made

    async def settle(self, turn: TurnId, cut_off: datetime | None = None) -> None:
        """Write down in which state a turn leaves its folder, if it has worked on it since it last was. If it
        was `cut_off` after this moment, files that changed much later are somebody else's work, too."""
        for row in await self._store.read(lambda tx: tx.checkpoints.of_turns([turn])):
            if row.is_open:
                await self._append(row, cut_off)

    async def _append(self, row: Checkpoint, cut_off: datetime | None = None) -> Checkpoint:
        count = len(row.after.split()) + 1
        state = await self._snapshot(row.root, f"{row.turn}-{count}")
        if cut_off is not None:
            latest = cut_off.timestamp() + _UNDER_WAY
            if await asyncio.to_thread(self._has_changed_since, row, state, latest):
                state = NOT_KNOWN
        states = f"{row.after} {state}".strip()
        await self._store.write(lambda tx: tx.checkpoints.settle(row.turn, states))
        return replace(row, after=states)

    def _has_changed_since(self, row: Checkpoint, state: str, latest: float) -> bool:
        for path in self.shadow(row.root).changes(row.stretches[-1].before, state):
            with contextlib.suppress(OSError):
                if os.lstat(os.path.join(row.root, path)).st_ctime > latest:
                    return True
        return False

    async def find(self, root: str) -> list[Checkpoint]:
        most = self.settings().max_snapshots
        return await self._store.read(lambda tx: tx.checkpoints.of_root(root, most))

    async def of_turns(self, turns: list[TurnId]) -> list[Checkpoint]:
        return await self._store.read(lambda tx: tx.checkpoints.of_turns(turns))

    async def turns_for(self, entries: Sequence[Entry], turns: Collection[TurnId]) -> list[TurnId]:
        return await self._store.read(lambda tx: turns_for(tx, entries, turns))

    async def _snapshot(self, root: str, name: str) -> str:
        from hermes.execution.checkpoints.shadow import SnapshotLimits

        settings = self.settings()
        limits = SnapshotLimits(file=settings.max_file_size_mb << 20, whole=settings.max_total_size_mb << 20)
        return await asyncio.to_thread(self._check_and_keep, root, name, limits)

    def _check_and_keep(self, root: str, name: str, limits: SnapshotLimits) -> str:
        for place, what in ((self._environ.get("HOME") or "/", "your home"), (self._profile.home, "Hermes")):
            if Path(os.path.realpath(place)).is_relative_to(root):
                raise UserError(f"{root} holds {what} itself.")
        if not os.path.isdir(root) or storable(root) != root:
            raise UserError(f"{root} is no folder that can be kept.")
        return self.shadow(root).snapshot(name, limits)

    # --- keeping them within bounds ---

    async def tend(self, action: str) -> list[CheckpointView]:
        """Remove what is too old or too much (`prune`), or everything (`clear`); what is left."""
        if action not in ACTIONS:
            raise UserError(f"There is no “{action}” for checkpoints.", hint=f"Known: {', '.join(ACTIONS)}.")
        shadows = await asyncio.to_thread(self._shadows)
        views = []
        for shadow in shadows:
            rows = await self._store.read(lambda tx, root=shadow.root: tx.checkpoints.of_root(root))  # type: ignore[misc]
            if action != "status":
                rows = await self._forget(shadow, rows, [] if action == "clear" else self._wanted(rows))
            views.append(await self._view(shadow, rows))
        if action == "prune":
            views = await self._shrink({shadow.root: shadow for shadow in shadows}, views)
        return [view for view in views if view.checkpoints or view.size]

    def _shadows(self) -> list[ShadowStore]:
        from hermes.execution.checkpoints.shadow import ROOT_FILE

        return [self.shadow(file.read_text()) for file in sorted(self._folder.glob(f"*/{ROOT_FILE}"))]

    def _wanted(self, rows: list[Checkpoint]) -> list[Checkpoint]:
        settings = self.settings()
        oldest = self._clock.now() - timedelta(days=settings.retention_days)
        return [row for row in rows[: settings.max_snapshots] if row.at >= oldest and os.path.isdir(row.root)]

    async def _forget(
        self, shadow: ShadowStore, rows: list[Checkpoint], wanted: list[Checkpoint]
    ) -> list[Checkpoint]:
        """The rows go first: a state that none names is nobody's loss."""
        gone = [row.id for row in rows if row not in wanted]
        if gone:
            await self._store.write(lambda tx: tx.checkpoints.remove(gone))
        states = {state for row in wanted for state in row.states}
        await asyncio.to_thread(shadow.keep if wanted else shadow.remove, *([states] if wanted else ()))
        return wanted

    async def _view(self, shadow: ShadowStore, rows: list[Checkpoint]) -> CheckpointView:
        size = await asyncio.to_thread(shadow.size)
        return CheckpointView(agent=self._profile.agent, root=shadow.root, checkpoints=len(rows), size=size)

    async def _shrink(
        self, shadows: Mapping[str, ShadowStore], views: list[CheckpointView]
    ) -> list[CheckpointView]:
        """The larger half of the checkpoints of the largest folder goes, its older one, until all fit."""
        most = self.settings().max_total_size_mb << 20
        while sum(view.size for view in views) > most and any(view.checkpoints for view in views):
            large = max((view for view in views if view.checkpoints), key=lambda view: view.size)
            rows = await self._store.read(lambda tx, root=large.root: tx.checkpoints.of_root(root))  # type: ignore[misc]
            left = await self._forget(shadows[large.root], rows, rows[: len(rows) // 2])
            views = [
                view if view is not large else await self._view(shadows[large.root], left) for view in views
            ]
        return views
