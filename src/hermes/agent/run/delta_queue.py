"""A one-way hand-over between a task and the generator that waits for it. Words that gathered while nobody
looked are handed over in one piece."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from hermes.domain.turns.event import TextDelta, ThoughtDelta

T = TypeVar("T")


class DeltaQueue(Generic[T]):
    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(item, TextDelta | ThoughtDelta) and isinstance(last, type(item)):
            self._items[-1] = type(item)(text=last.text + item.text)
        else:
            self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def drain(self) -> list[T]:
        """All that nobody has taken."""
        items = list(self._items)
        self._items.clear()
        return items

    def __aiter__(self) -> DeltaQueue[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._items.popleft()
