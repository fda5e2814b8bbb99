"""Search services on loopback, which answer as their makers document it (sources: see
`hermes.execution.web.services`). The SDKs of Tavily, Exa and Firecrawl accept them, and a real searx is asked
for SearXNG, in tests/foreign/test_search_services.py; of Brave there is only the documentation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from hermes.domain.word import replace
from hermes.execution.web.services import SERVICES, WebService

KEYS = {
    "BRAVE_SEARCH_API_KEY": "BSA-key",
    "TAVILY_API_KEY": "tvly-key",
    "EXA_API_KEY": "exa-key",
    "FIRECRAWL_API_KEY": "fc-key",
}
PAGE = "https://bees.example/page"


class SearchServices:
    """`broken` answers instead of what a service would say; `asked` are the paths that were asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken: dict[str, web.Response] = {}
        self.url = ""

    def services(self) -> dict[str, WebService]:
        return {
            name: replace(service, base=f"{self.url}/{name}") if service.base else service
            for name, service in SERVICES.items()
        }

    async def answer(self, request: web.Request) -> web.Response:
        name, path = request.match_info["service"], request.match_info["path"]
        if name == "v2":  # the SDK of Firecrawl knows hosts alone
            name, path = "firecrawl", f"v2/{path}"
        self.asked.append(f"{name}/{path}")
        if name in self.broken:
            told = self.broken[name]
            return web.Response(body=told.body, status=told.status, headers=told.headers)
        body = await request.json() if request.method == "POST" else {}
        return getattr(self, f"_{name}")(request, path, body)

    def _searxng(self, request: web.Request, path: str, body: dict[str, object]) -> web.Response:
        assert path == "search" and request.query["format"] == "json"
        hit = {"url": "https://s.example/1", "title": "S", "content": request.query["q"], "engine": "e"}
        return web.json_response({"query": request.query["q"], "results": [hit], "unresponsive_engines": []})

    def _brave(self, request: web.Request, path: str, body: dict[str, object]) -> web.Response:
        if request.headers.get("X-Subscription-Token") != KEYS["BRAVE_SEARCH_API_KEY"]:
            error = {"code": "SUBSCRIPTION_TOKEN_INVALID", "status": 422, "detail": "The token is invalid."}
            return web.json_response({"type": "ErrorResponse", "error": error}, status=422)
        assert path == "res/v1/web/search" and 1 <= int(request.query["count"]) <= 20
        hit = {"type": "search_result", "title": "B", "url": "https://b.example/1"}
        hit["description"] = "of <strong>bees</strong> &amp; wasps"
        return web.json_response({"type": "search", "web": {"type": "search", "results": [hit]}})

    def _tavily(self, request: web.Request, path: str, body: dict[str, object]) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {KEYS['TAVILY_API_KEY']}":
            return web.json_response(
                {"detail": {"error": "Unauthorized: missing or invalid API key."}}, status=401
            )
        if path == "extract":
            urls = body["urls"]
            url = urls[0] if isinstance(urls, list) else urls
            result = {"url": url, "title": "T page", "raw_content": "read by tavily", "images": []}
            return web.json_response({"results": [result], "failed_results": [], "response_time": 0.02})
        assert path == "search" and body["query"]
        hit = {
            "title": "T",
            "url": "https://t.example/1",
            "content": "of bees",
            "score": 0.8,
            "raw_content": None,
        }
        return web.json_response(
            {"query": body["query"], "answer": None, "images": [], "results": [hit], "response_time": 1.1}
        )

    def _exa(self, request: web.Request, path: str, body: dict[str, object]) -> web.Response:
        if request.headers.get("x-api-key") != KEYS["EXA_API_KEY"]:
            return web.json_response({"error": "Invalid API key", "tag": "INVALID_API_KEY"}, status=401)
        hit = {"id": PAGE, "url": PAGE, "title": "E", "publishedDate": None, "author": None}
        if path == "contents":
            statuses = [{"id": PAGE, "status": "success"}]
            result = {**hit, "text": "read by exa"}
            return web.json_response({"requestId": "r", "results": [result], "statuses": statuses})
        assert path == "search" and body["query"]
        hit |= {"highlights": ["of bees", "and wasps"], "highlightScores": [0.4, 0.3]}
        return web.json_response({"requestId": "r", "resolvedSearchType": "neural", "results": [hit]})

    def _firecrawl(self, request: web.Request, path: str, body: dict[str, object]) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {KEYS['FIRECRAWL_API_KEY']}":
            return web.json_response({"error": "Unauthorized: Invalid token"}, status=401)
        if path == "v2/scrape":
            metadata = {"title": "F page", "sourceURL": body["url"], "statusCode": 200}
            return web.json_response(
                {"success": True, "data": {"markdown": "read by firecrawl", "metadata": metadata}}
            )
        assert path == "v2/search" and body["query"]
        hit = {"url": "https://f.example/1", "title": "F", "description": "of bees", "position": 1}
        return web.json_response({"success": True, "data": {"web": [hit]}, "creditsUsed": 2})


@asynccontextmanager
async def serve_searches() -> AsyncIterator[SearchServices]:
    fake = SearchServices()
    site = web.Application()
    site.router.add_route("*", "/{service}/{path:.*}", fake.answer)
    async with TestServer(site) as server:
        fake.url = str(server.make_url("")).rstrip("/")
        yield fake
