"""A Home Assistant with one token: the part of its WebSocket and HTTP API that the adapter uses, as its
documents say (developers.home-assistant.io, WebSocket API and REST API). It keeps no events."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import WSMsgType, web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Route, ServedFake

TOKEN = "eyJhbGciOiJIUzI1NiJ9.of-the-agent"
SERVICES = {"persistent_notification.create", "notify.mobile_app_phone"}
ENTITIES = {"notify.kitchen_speaker"}
"""Those that are told something by `notify.send_message`."""


class HomeError(FakeRefusal):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


FAULTS = {
    Fault.REVOKED: HomeError(401, "401: Unauthorized"),
    Fault.GONE: HomeError(400, "400: Bad Request"),
}


@dataclass
class Home(ServedFake):
    """The installation. Tests let things happen through `fire`, and read `said`."""

    greeted: int = 0
    admin: bool = True
    starts: bool = False
    """Its integrations are not there yet."""
    said: list[tuple[str, str, str]] = field(default_factory=list)
    """Place, id and words of what the agent said."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    between: dict[str, Any] = field(default_factory=dict)
    """What is asked while somebody subscribes to a second kind of event."""
    coalesces: bool = False
    """Several packets go in one."""
    sockets: dict[web.WebSocketResponse, dict[str, int]] = field(default_factory=dict)
    expired: bool = False
    states: list[dict[str, Any]] = field(default_factory=list)
    exposed: dict[str, dict[str, bool]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        yield "GET", "/api/websocket", self._websocket
        yield "GET", "/api/config", self._config
        yield "POST", "/api/services/{domain}/{service}", self._service
        yield "POST", "/api/events/{event}", self._event
        yield "GET", "/api/states/{entity}", self._state

    def refused(self, refusal: HomeError) -> web.Response:
        return web.Response(status=refusal.status, text=refusal.text)

    def failed(self, fault: Fault) -> web.Response:
        return self.refused(FAULTS[fault])

    # --- what happens there ---

    def event(self, sort: str, data: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        context = {"id": f"01JK{number:022d}", "parent_id": None, "user_id": None}
        at = datetime.now(UTC).isoformat()
        return {"event_type": sort, "data": data, "origin": "LOCAL", "time_fired": at, "context": context}

    async def fire(self, sort: str, data: dict[str, Any], times: int = 1) -> None:
        await self.tell(*([self.event(sort, data)] * times))

    async def tell(self, *events: dict[str, Any]) -> None:
        for socket, wanted in list(self.sockets.items()):
            packets = [
                {"id": wanted[event["event_type"]], "type": "event", "event": event}
                for event in events
                if event["event_type"] in wanted
            ]
            with contextlib.suppress(ConnectionError, RuntimeError):
                for packet in [packets] if self.coalesces and len(packets) > 1 else packets:
                    await socket.send_json(packet)

    # --- its answers ---

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "auth_required", "ha_version": "2025.4.4"})
        told = await socket.receive_json()
        if told != {"type": "auth", "access_token": TOKEN} or self.expired:
            await socket.send_json({"type": "auth_invalid", "message": "Invalid access token or password"})
            return socket
        await socket.send_json({"type": "auth_ok", "ha_version": "2025.4.4"})
        self.sockets[socket] = {}
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._answer(socket, message.json())
        finally:
            self.sockets.pop(socket, None)
        return socket

    async def _answer(self, socket: web.WebSocketResponse, told: dict[str, Any]) -> None:
        number = told["id"]
        if told["type"] == "ping":
            await socket.send_json({"id": number, "type": "pong"})
        elif told["type"] in ("get_states", "homeassistant/expose_entity/list", "call_service"):
            await self._house(socket, told)
        elif told["type"] == "subscribe_events" and self.admin:
            if number > 1 and self.between:
                await self.fire("hermes_message", self.between)
            self.sockets[socket][told["event_type"]] = number
            await socket.send_json({"id": number, "type": "result", "success": True, "result": None})
            self.greeted += told["event_type"] == "hermes_message"
        else:
            error = {"code": "unauthorized", "message": "Unauthorized"}
            await socket.send_json({"id": number, "type": "result", "success": False, "error": error})

    async def _house(self, socket: web.WebSocketResponse, told: dict[str, Any]) -> None:
        result: Any = self.states
        if told["type"] == "homeassistant/expose_entity/list":
            result = {"exposed_entities": self.exposed}
        elif told["type"] == "call_service":
            self.calls.append((f"{told['domain']}.{told['service']}", told))
            if told["service"] not in ("turn_on", "unlock"):
                words = f"Action {told['domain']}.{told['service']} not found"
                error = {"code": "not_found", "message": words}
                answer = {"id": told["id"], "type": "result", "success": False, "error": error}
                return await socket.send_json(answer)
            for state in self.states:
                if state["entity_id"] == told["target"]["entity_id"]:
                    state["state"] = "on" if told["service"] == "turn_on" else "unlocked"
            result = {"context": {"id": "01JK"}, "response": None}
        await socket.send_json({"id": told["id"], "type": "result", "success": True, "result": result})

    def _admit(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}" or self.expired:
            raise FAULTS[Fault.REVOKED]

    async def _config(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        state = "STARTING" if self.starts else "RUNNING"
        return web.json_response({"location_name": "Our house", "version": "2025.4.4", "state": state})

    async def _service(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        name = f"{request.match_info['domain']}.{request.match_info['service']}"
        told = await request.json()
        self.calls.append((name, told))
        place = "events" if name == "persistent_notification.create" else name
        if name == "notify.send_message":
            place = name = told["entity_id"]

        async def act() -> web.Response:
            there = set() if self.starts else SERVICES
            if "entity_id" not in told and name not in there and not name.startswith("notify.person_"):
                raise HomeError(400, "400: Bad Request")
            if "entity_id" in told and name not in ENTITIES:
                # Its log alone tells of it.
                return web.json_response([])
            number = told.get("notification_id", str(next(self._numbers)))
            if place == "events":
                self.said[:] = [one for one in self.said if one[1] != number.removeprefix("hermes_")]
            self.said.append((place, number.removeprefix("hermes_"), told["message"]))
            return web.json_response([])

        response: web.StreamResponse = await self.troubled(request, place, act)
        return response

    async def _state(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        entity = request.match_info["entity"]
        if entity not in ENTITIES:
            return web.json_response({"message": "Entity not found."}, status=404)
        return web.json_response({"entity_id": entity, "state": "unknown", "attributes": {}})

    async def _event(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        name, told = request.match_info["event"], await request.json()
        self.calls.append((name, told))

        async def act() -> web.Response:
            self.said.append((told["chat"], told["id"], told["text"]))
            await self.fire(name, told)
            return web.json_response({"message": f"Event {name} fired."})

        response: web.StreamResponse = await self.troubled(request, told["chat"], act)
        return response
