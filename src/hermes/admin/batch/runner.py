"""Runs the items of a batch run on the gateway of a home, several at a time.

Its life: it asks the gateway how far the run is, then begins what was not begun and watches what is not over.
The gateway keeps every item as a turn of its own, so nothing depends on this process: killed and started
again it goes on where the run is by then, and a gateway that was killed takes its turns up again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from hermes.admin.batch.distributions import Distribution, choose_toolsets
from hermes.admin.batch.run_files import BatchManifest, DatasetItem
from hermes.control.sessions.batches import BatchItem, ItemStanding
from hermes.domain.errors import UserError
from hermes.domain.ids import TurnId
from hermes.domain.turns.turn import TurnState
from hermes.entry.terminal.door import GatewayGone, TerminalState
from hermes.entry.terminal.remote import GatewayConnection, RemoteDoor

T = TypeVar("T")


class BatchProgress(Struct, kw_only=True):
    """How far a run is; `tell` hears of each change."""

    items: int
    ended: Counter[TurnState] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    tell: Callable[[BatchProgress], None] = lambda progress: None

    @property
    def done(self) -> int:
        return self.ended.total()

    def add(self, standing: ItemStanding) -> None:
        self.ended[standing.state] += 1
        if standing.reason:
            self.reasons[standing.reason] += 1
        self.tell(self)


class BatchRunner(Struct, frozen=True, kw_only=True):
    line: GatewayConnection
    manifest: BatchManifest
    distribution: Distribution
    workers: int
    progress: BatchProgress

    async def run(self, items: Sequence[DatasetItem]) -> None:
        begun = {item.index: item for item in await self.standings()}
        for standing in begun.values():
            if not standing.state.open:
                self.progress.add(standing)
        left = iter([index for index in range(len(items)) if index not in begun or begun[index].state.open])
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(items, left), name=f"batch worker {number}")

    async def standings(self) -> list[ItemStanding]:
        return await self.ask("/control/batch/items", list[ItemStanding], self.named)

    @property
    def named(self) -> dict[str, str]:
        return {"run": self.manifest.name, "agent": self.manifest.agent}

    async def _work(self, items: Sequence[DatasetItem], left: Iterator[int]) -> None:
        for index in left:
            self.progress.add(await self._finish(index, items[index]))

    async def _finish(self, index: int, item: DatasetItem) -> ItemStanding:
        """How an item ended. One that cannot be begun keeps no other from that, and is tried again when the
        run is continued."""
        try:
            standing = await self._begin(index, item)
            if standing.turn is not None:
                await self._watch(standing.turn)
                standing = await self._begin(index, item)
            return standing
        except UserError as error:
            return ItemStanding(index=index, state=TurnState.FAILED, reason=str(error))

    async def _begin(self, index: int, item: DatasetItem) -> ItemStanding:
        """How far an item is; begun by this if nobody did before."""
        if item.cwd and not await asyncio.to_thread(Path(item.cwd).is_dir):
            raise UserError(f"The folder {item.cwd} of item {index} is gone.")
        run = BatchItem(
            index=index,
            prompt=item.prompt,
            toolsets=choose_toolsets(self.distribution, self.manifest.name, index),
            model=self.manifest.model,
            folder=item.cwd,
            image_url=item.image if item.image.startswith("https://") else "",
            image=await asyncio.to_thread(_read_image, item.image),
        )
        return await self.ask("/control/batch/item", ItemStanding, {**self.named, "item": run})

    async def _watch(self, turn: TurnId) -> None:
        async for _ in RemoteDoor(self.line, TerminalState()).watch(turn, 0):
            pass

    async def ask(self, path: str, kind: type[T], body: Mapping[str, Any]) -> T:
        """Ask until a gateway is there to answer: nothing of it does harm if it is heard twice."""
        while True:
            try:
                return await self.line.ask(path, body, kind)
            except GatewayGone:
                await self.line.back()


def _read_image(image: str) -> bytes:
    """A file that is gone since the run began leaves its item without a picture to look at: refused."""
    if not image or image.startswith("https://"):
        return b""
    try:
        return Path(image).read_bytes()
    except OSError as error:
        raise UserError(
            f"{image} cannot be read ({error.strerror}).", hint="Put it back, then continue."
        ) from error
