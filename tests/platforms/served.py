"""A testbed over one fake server that goes up and down, is cut off and fails on demand."""

from __future__ import annotations

from typing import Any

from hermes.domain.address import Address
from hermes.testing.platform_suite import Fault, Testbed


class ServedBed(Testbed):
    server: Any
    """The fake: `up`, `down`, `cut`, `fail(fault, times, done, chat)`, `calm`."""

    async def open(self) -> None:
        await self.server.up()

    async def close(self) -> None:
        await self.server.down()

    def fail(self, fault: Fault, *, times: int = 1, done: bool = False, chat: Address | None = None) -> None:
        self.hang(fault is Fault.HANG)
        self.server.fail(fault, times, done, None if chat is None else chat.chat)

    def calm(self) -> None:
        self.server.calm()
        self.hang(False)

    async def cut(self) -> None:
        self.server.cut()

    async def down(self) -> None:
        await self.server.down()

    async def up(self) -> None:
        await self.server.up()
