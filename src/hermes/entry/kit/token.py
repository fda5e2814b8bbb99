"""An access token that a service gives for an app's id and secret, for some time: it is got when it is first
needed, again before it runs out, and at once when the service does not take it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import NeedsLogin

T = TypeVar("T")
_MARGIN = 300.0
"""So long before its end a token is not used any more, if it lives longer than that."""


class TokenExpired(NeedsLogin):
    """The service does not take this token any more; a new one may be all it needs."""


class AppToken:
    """`fetch` gets a token and tells for how many seconds it counts."""

    def __init__(self, context: AdapterContext, fetch: Callable[[], Awaitable[tuple[str, float]]]) -> None:
        self._context = context
        self._fetch = fetch
        self._token = ""
        self._until = 0.0
        self._alone = asyncio.Lock()

    async def get(self) -> str:
        async with self._alone:
            now = self._context.clock.monotonic()
            if not self._token or now >= self._until:
                self._token, seconds = await self._fetch()
                self._context.learn(self._token)
                self._until = now + max(seconds - _MARGIN, seconds / 2)
            return self._token

    async def use(self, call: Callable[[str], Awaitable[T]]) -> T:
        """Call with a token, and once more with a new one if that has expired."""
        token = await self.get()
        try:
            return await call(token)
        except TokenExpired:
            if self._token == token:
                self._token = ""
        return await call(await self.get())
