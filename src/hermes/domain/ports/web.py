"""The web as agents use it: a search, and pages as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from hermes.domain.ports.world import DocumentText


class WebHit(Struct, frozen=True, kw_only=True):
    """What a search found; all of it was written by others."""

    title: str
    url: str
    text: str = ""


class Web(Protocol):
    """What cannot be done is a `UserError` with the reason."""

    async def search(self, query: str, limit: int) -> Sequence[WebHit]: ...

    async def read(self, url: str) -> DocumentText: ...

    def shown(self) -> int:
        """How many characters of a page are shown."""
