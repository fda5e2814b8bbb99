"""The frame of the fakes: a server that goes down leaves nothing open, whoever comes at that moment."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from hermes.testing.served import Route, ServedFake


@dataclass
class Silent(ServedFake):
    def routes(self) -> Iterable[Route]:
        return ()


@pytest.mark.parametrize("steps", range(8))
def test_who_connects_while_it_goes_down_is_not_left_open(steps: int) -> None:
    """At each step of the loop: the connection waits in the door, is accepted, is set up, or is there."""

    async def live() -> None:
        server = Silent()
        await server.up()
        with socket.create_connection(("127.0.0.1", server.port)):
            for _ in range(steps):
                await asyncio.sleep(0)
            async with asyncio.timeout(20):
                await server.down()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(live())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
