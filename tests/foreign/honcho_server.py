"""A Honcho that keeps what it is told and recalls all of it. Routes and bodies are those that `honcho-ai`
2.7.0 sends and reads (`honcho/http/routes.py`, `honcho/api_types.py`), and the real SDK judges them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

AT = "2026-01-01T00:00:00Z"


@dataclass
class FakeHoncho:
    key: str
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By session."""
    members: dict[str, set[str]] = field(default_factory=dict)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._checked])
        place = "/v3/workspaces/{workspace}"
        app.router.add_post("/v3/workspaces", self._workspace)
        app.router.add_post(f"{place}/peers", self._peer)
        app.router.add_get(f"{place}/peers/{{peer}}/context", self._context)
        app.router.add_put(f"{place}/peers/{{peer}}/card", self._card)
        app.router.add_post(f"{place}/peers/{{peer}}/sessions", self._sessions_of)
        app.router.add_post(f"{place}/sessions", self._session)
        app.router.add_delete(f"{place}/sessions/{{session}}", self._delete)
        app.router.add_post(f"{place}/sessions/{{session}}/messages", self._add)
        app.router.add_post(f"{place}/sessions/{{session}}/messages/list", self._list)
        return app

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"detail": "no such key"}, status=401)
        response: web.StreamResponse = await handler(request)
        return response

    async def _workspace(self, request: web.Request) -> web.Response:
        return web.json_response({"id": (await request.json())["id"], "created_at": AT})

    async def _peer(self, request: web.Request) -> web.Response:
        body = {"id": (await request.json())["id"], "workspace_id": "w", "created_at": AT}
        return web.json_response(body)

    async def _session(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.members.setdefault(asked["id"], set()).update(asked.get("peers", {}))
        return web.json_response(_session(asked["id"]))

    async def _add(self, request: web.Request) -> web.Response:
        session = request.match_info["session"]
        kept = self.messages.setdefault(session, [])
        added = [
            {
                "id": f"m{len(kept) + number}",
                "session_id": session,
                "workspace_id": "w",
                "token_count": 1,
                "metadata": {},
                **message,
            }
            for number, message in enumerate((await request.json())["messages"])
        ]
        kept += added
        return web.json_response(added)

    async def _list(self, request: web.Request) -> web.Response:
        wanted = (await request.json())["filters"]["metadata"]
        kept = self.messages.get(request.match_info["session"], [])
        return _page([message for message in kept if message["metadata"] == wanted])

    async def _context(self, request: web.Request) -> web.Response:
        peer = request.match_info["peer"]
        said = [
            each["content"] for kept in self.messages.values() for each in kept if each["peer_id"] == peer
        ]
        return web.json_response({"peer_id": peer, "target_id": peer, "representation": "\n".join(said)})

    async def _sessions_of(self, request: web.Request) -> web.Response:
        peer = request.match_info["peer"]
        return _page([_session(name) for name, members in self.members.items() if peer in members])

    async def _delete(self, request: web.Request) -> web.Response:
        self.messages.pop(request.match_info["session"], None)
        self.members.pop(request.match_info["session"], None)
        return web.Response(status=202)

    async def _card(self, request: web.Request) -> web.Response:
        return web.json_response({"peer_card": json.loads(await request.text()).get("peer_card")})


def _session(name: str) -> dict[str, Any]:
    return {"id": name, "is_active": True, "workspace_id": "w", "created_at": AT}


def _page(items: list[dict[str, Any]]) -> web.Response:
    return web.json_response({"items": items, "page": 1, "size": 50, "total": len(items), "pages": 1})
