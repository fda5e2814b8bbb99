"""Reading a model's answer: in turns with all others, a piece at a time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hermes.agent.models.client import Deadlines, ModelHttpResponse


class Pouring:
    """An answer of which all has come already."""

    def __init__(self, size: int) -> None:
        self._left = size

    async def read(self, most: int) -> bytes:
        size = min(most, self._left)
        self._left -= size
        return bytes(size)


async def test_an_answer_that_pours_is_read_in_pieces_and_lets_others_go_on() -> None:
    response: Any = SimpleNamespace(status=200, headers={}, content=Pouring(200_000), close=lambda: None)
    answer = ModelHttpResponse(response, "there", Deadlines(), asyncio.get_running_loop().time())
    sizes: list[int] = []
    seen: list[int] = []

    async def other() -> None:
        while len(seen) < 4:
            seen.append(len(sizes))
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    while data := await answer.read():
        sizes.append(len(data))
    await beside
    answer._timer.cancel()
    assert sum(sizes) == 200_000 and max(sizes) <= 32 * 1024
    assert seen == [1, 2, 3, 4], "one piece, then somebody else"
