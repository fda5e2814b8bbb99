"""How it stands with commands that prepare for long, for the terminal that gave them. Live only: what nobody
reads is lost with the reply."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator


class ProgressBoard:
    """By a key that the caller chose. Whoever comes late is told what was told before."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._news = asyncio.Condition()

    @contextlib.contextmanager
    def at_work(self, key: str) -> Iterator[None]:
        self._texts[key] = []
        try:
            yield
        finally:
            self._texts.pop(key, None)

    async def tell(self, key: str, text: str) -> None:
        async with self._news:
            self._texts.setdefault(key, []).append(text)
            self._news.notify_all()

    async def follow(self, key: str) -> AsyncGenerator[str]:
        """What is told under a key, until whoever listens leaves."""
        seen = 0
        while True:
            async with self._news:
                while len(self._texts.get(key, ())) <= seen:
                    await self._news.wait()
                text = self._texts[key][seen]
            seen += 1
            yield text
