"""Running and killing a gateway process, life after life, against one world."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hermes.control.turn.claim import GIVEN_UP
from hermes.domain.ids import MAIN_AGENT
from hermes.state.store.sqlite import look_into, tables_of
from hermes.testing.wire import WorldServer
from hermes.testing.world import World
from tests.nursery import SOURCES, Popen

PATIENCE = 90.0


@dataclass(slots=True, kw_only=True)
class Lives:
    """One database, one world, many processes. `model` is the address of a model server, if one is asked."""

    folder: Path
    kind: str
    model: str = ""
    world: World = field(default_factory=World)
    server: WorldServer = field(init=False)
    process: subprocess.Popen[str] | None = None
    is_ready: bool = False

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
        command = [sys.executable, "-P", "-m", "hermes.testing.victim", *arguments]
        environ = {**os.environ, "PYTHONPATH": SOURCES}
        self.process = Popen(command, stdout=subprocess.PIPE, env=environ, text=True)
        self.is_ready = False

    async def died(self) -> int:
        assert self.process is not None
        code = await asyncio.to_thread(self.process.wait, PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    @property
    def is_dead(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.died()

    async def until_ready(self) -> None:
        """Before that it has no database, and nobody listens to signals."""
        assert self.process is not None and self.process.stdout is not None
        if not self.is_ready:
            await asyncio.to_thread(self.process.stdout.readline)
            self.is_ready = True

    async def end(self) -> int:
        """Ask it to stop, as a service is asked."""
        assert self.process is not None
        await self.until_ready()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.died()

    async def until(self, what: Callable[[], bool]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE
        while not what():
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"it did not come to it; people see {self.world.seen()}")
            await asyncio.sleep(0.005)

    async def until_answered(self, count: int) -> None:
        """Wait until every message m1…m<count> is answered, or told why not, no draft is left, and nothing
        is on its way any more. What people see may have been said by an earlier life, and this one may
        still have to find out or to repeat it."""
        end = asyncio.get_running_loop().time() + PATIENCE
        missing = [f"answer to m{number}:" for number in range(1, count + 1)]
        told = 0
        while len(missing) > told or any("▉" in text for text in self.world.seen()):
            seen = self.world.seen()
            told = sum(GIVEN_UP in text for text in seen)
            left = [text for text in missing if not any(text in one for one in seen)]
            if len(left) < len(missing):  # a busy machine may take long, as long as it goes on
                end = asyncio.get_running_loop().time() + PATIENCE
            missing = left
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"never came: {missing[:20]}; people see {seen[-20:]}")
            await asyncio.sleep(0.01)
        await self.until_at_rest()

    async def until_at_rest(self) -> None:
        """Wait until everything was taken and nothing is left to do. A stop may leave something to the next
        life, and does so all the more often the slower the machine is."""
        end = asyncio.get_running_loop().time() + PATIENCE
        await self.until_ready()
        while not self.world.all_acked or await self.leftovers():
            assert asyncio.get_running_loop().time() < end, f"left: {await self.leftovers()}"
            await asyncio.sleep(0.01)

    async def leftovers(self) -> list[str]:
        """What the store still has to do, also while a life goes on."""
        return await asyncio.to_thread(self._leftovers)

    def _leftovers(self) -> list[str]:
        db = look_into(self.folder / "state.db")
        try:
            tx = tables_of(db, MAIN_AGENT)
            rows = [tx.inbox.pending(0, 9), tx.recovery.due(0, 9), tx.outbox.waiting("fake", 0, 9)]
        finally:
            db.connection.close()
        return [str(row) for row in rows if row]
