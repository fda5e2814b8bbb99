"""Routes under a prefix that few requests use: they are made when the first of these comes, since making a
route takes a third of a millisecond, and there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web
from aiohttp.web_urldispatcher import UrlMappingMatchInfo
from yarl import URL


class LateRoutes(web.AbstractResource):
    def __init__(self, prefix: str, add_to: Callable[[web.UrlDispatcher], None]) -> None:
        super().__init__()
        self._prefix = prefix
        self._add_to = add_to
        self._router: web.UrlDispatcher | None = None

    async def resolve(self, request: web.Request) -> tuple[UrlMappingMatchInfo | None, set[str]]:
        if self._router is None:
            self._router = web.UrlDispatcher()
            self._add_to(self._router)
        match = await self._router.resolve(request)
        if match.http_exception is None:
            return match, set()
        allowed: set[str] = getattr(match.http_exception, "allowed_methods", set())
        return None, allowed

    # --- what the router wants of a resource besides ---

    @property
    def canonical(self) -> str:
        return f"{self._prefix}/{{rest}}"

    def raw_match(self, path: str) -> bool:
        return path == self.canonical

    def url_for(self, **parts: str) -> URL:
        return URL(self._prefix)

    def add_prefix(self, prefix: str) -> None:
        self._prefix = prefix + self._prefix

    def get_info(self) -> Any:
        return {"prefix": self._prefix}

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        return iter(())
