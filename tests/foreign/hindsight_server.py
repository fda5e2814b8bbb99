"""A Hindsight that keeps documents and recalls all of them. Routes and bodies are those that
`hindsight-client` 1.1.0 sends and reads (`hindsight_client_api/api`, `models`); that client judges them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class FakeHindsight:
    key: str
    banks: dict[str, dict[str, str]] = field(default_factory=dict)
    """Documents by bank."""

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._checked])
        bank = "/v1/default/banks/{bank}"
        app.router.add_post(f"{bank}/memories", self._retain)
        app.router.add_post(f"{bank}/memories/recall", self._recall)
        app.router.add_delete(bank, self._delete)
        return app

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"detail": "no such key"}, status=401)
        response: web.StreamResponse = await handler(request)
        return response

    async def _retain(self, request: web.Request) -> web.Response:
        bank, asked = request.match_info["bank"], await request.json()
        for item in asked["items"]:
            self.banks.setdefault(bank, {})[item["document_id"]] = item["content"]
        answer = {"success": True, "bank_id": bank, "items_count": len(asked["items"])}
        return web.json_response(answer | {"async": bool(asked.get("async"))})

    async def _recall(self, request: web.Request) -> web.Response:
        assert (await request.json())["query"]
        kept = self.banks.get(request.match_info["bank"], {})
        return web.json_response(
            {"results": [{"id": name, "text": text, "type": "world"} for name, text in kept.items()]}
        )

    async def _delete(self, request: web.Request) -> web.Response:
        if self.banks.pop(request.match_info["bank"], None) is None:
            return web.json_response({"detail": "no such bank"}, status=404)
        return web.json_response({"success": True, "deleted_count": 1})
