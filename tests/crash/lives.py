"""Running and killing a gateway process, life after life, against one world."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hermes.control.claim import GIVEN_UP
from hermes.state.sqlite import SqliteStore
from hermes.testing.wire import WorldServer
from hermes.testing.world import World

PATIENCE = 40.0


@dataclass(slots=True, kw_only=True)
class Lives:
    """One database, one world, many processes. `model` is the address of a model server, if one is asked."""

    folder: Path
    kind: str
    model: str = ""
    world: World = field(default_factory=World)
    server: WorldServer = field(init=False)
    process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Lives:
        self.server = await WorldServer(self.world).__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.kill()
        await self.server.__aexit__(*exc)

    async def begin(self, kill: str = "") -> None:
        arguments = [str(self.folder), str(self.server.port), self.kind]
        if kill:
            arguments += ["--kill", kill]
        if self.model:
            arguments += ["--model", self.model]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes.testing.victim", *arguments,
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src"},
        )  # fmt: skip

    async def died(self) -> int:
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), PATIENCE)

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def end(self) -> int:
        """Ask it to stop, as a service is asked."""
        assert self.process is not None and self.process.stdout is not None
        await self.process.stdout.readline()  # "ready": before that nobody listens to signals
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.died()

    async def until(self, what: Callable[[], bool]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE
        while not what():
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"it did not come to it; people see {self.world.seen()}")
            await asyncio.sleep(0.005)

    async def until_answered(self, count: int) -> None:
        """Wait until every message m1…m<count> is answered, or told why not, and no draft is left."""
        end = asyncio.get_running_loop().time() + PATIENCE
        missing = [f"answer to m{number}:" for number in range(1, count + 1)]
        told = 0
        while len(missing) > told or any("▉" in text for text in self.world.seen()):
            seen = self.world.seen()
            told = sum(GIVEN_UP in text for text in seen)
            missing = [text for text in missing if not any(text in one for one in seen)]
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"never came: {missing}; people see {seen}")
            await asyncio.sleep(0.01)

    async def leftovers(self) -> list[str]:
        """What the store still has to do, after the last life ended."""
        async with SqliteStore(self.folder / "state.db") as store:
            rows = await store.read(
                lambda tx: [tx.inbox.pending(0, 9), tx.recovery.due(0, 9), tx.outbox.waiting("fake", 0, 9)]
            )
        return [str(row) for row in rows if row]
