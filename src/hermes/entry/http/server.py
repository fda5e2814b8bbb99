"""The server: every resource behind the same checks, on a TCP port and on the home's socket.

The order of a request: the place it claims to be sent to (Host, Origin) → its key → what the key may → its
size → its type → its content; only then the resource sees it. The socket is the owner's and needs no key;
what was started for hooks, scripts and agents may ask there for what `domain.rank` says, and no more."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from hermes.control.doors.continuing import AnswerExpected
from hermes.control.sessions.submission import KeyConflict, NameTaken, NotFound, TurnUnfinished
from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ids import AgentId
from hermes.domain.process_rank import RIGHTS, Rank
from hermes.entry.http.api.resources import load_resources
from hermes.entry.http.site.admission import Keyring, KeyScope, Principal
from hermes.entry.http.site.call import (
    LOCAL_ROUTES,
    ROUTES,
    HttpCall,
    HttpRoute,
    Site,
    as_json,
    decode_query,
    validation_error,
)
from hermes.entry.http.site.errors import ApiError, bad_request, not_found
from hermes.entry.http.site.headers import PAGES_MAY_READ, PAGES_MAY_SEND
from hermes.entry.http.site.key_strength import is_loopback
from hermes.entry.http.site.owner_socket import bind_socket
from hermes.entry.http.site.peers import peer_rank, peer_user
from hermes.entry.http.site.traffic import UNMATCHED, Traffic

log = logging.getLogger("hermes.http")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OWNER = Principal(name="owner")
NOBODY = Principal(name="nobody", scopes=frozenset(), agents=frozenset())
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_GOODBYE_SECONDS = 2.0
_PROFILE = "profile_of_path"
_ROOT = 0
_CLIENT_LEFT = 499
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=31536000",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One way in: what is checked differs between a port and the owner's socket."""

    door: Site
    keys: Keyring | None = None
    """None: whoever comes in here is the owner, unless its process says otherwise."""

    async def admit(self, request: web.Request, scope: KeyScope | None) -> Principal:
        if self.keys is None:
            return await self._owner(request)
        self._check_host(request)
        self._check_origin(request)
        if scope is None:
            return NOBODY
        principal = self.keys.check(request.headers.get("Authorization", ""), request.remote or "")
        if not principal.may(scope):
            raise ApiError(403, "not_allowed", f"The key “{principal.name}” may not do this ({scope}).")
        return principal

    async def _owner(self, request: web.Request) -> Principal:
        if request.transport is None:
            raise ConnectionResetError
        # A copy: the number of a connection that ends meanwhile may be another's.
        number = os.dup(request.transport.get_extra_info("socket").fileno())
        with socket.socket(fileno=number) as peer:
            user = peer_user(peer)
            if user is not None and user not in (os.getuid(), _ROOT):
                raise ApiError(403, "not_the_owner", "This socket is for the owner of the home alone.")
            rank = await asyncio.to_thread(peer_rank, peer)
        if rank is not Rank.OWNER:
            _check_right(request, rank)
        return OWNER

    def _check_host(self, request: web.Request) -> None:
        options = self.door.options
        name = _host_name(request.host)
        if name in _LOOPBACK or name == options.host or not {name, "*"}.isdisjoint(options.hosts):
            return
        # No page can have an address for its name, so one that asks for an address was not led here.
        if not is_loopback(options.host) and (_is_address(name) or name in _machine_names()):
            return
        told = "This server does not answer to that name (Host header). allowed_hosts may name further ones."
        raise ApiError(403, "host_not_allowed", told)

    def _check_origin(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and not self.allows(origin):
            raise ApiError(
                403, "origin_not_allowed", "Pages of this origin may not ask here (API_SERVER_CORS_ORIGINS)."
            )

    def allows(self, origin: str) -> bool:
        return "*" in self.door.options.origins or origin in self.door.options.origins


def _check_right(request: web.Request, rank: Rank | None) -> None:
    """What was started for somebody else may ask for little, and what nobody knows for nothing."""
    resource = request.match_info.route.resource
    wanted = f"{request.method} {'' if resource is None else resource.canonical}"
    if rank is not None and wanted in RIGHTS[rank].routes:
        return
    log.warning("http.not_the_owner rank=%s wanted=%s", "unknown" if rank is None else rank.name, wanted)
    if rank is None:
        why = "It cannot be determined which process asks, so it is not taken for the owner."
    else:
        why = f"{rank.label.capitalize()} may not do this: it does not speak for the owner. {rank.remedy}"
    raise ApiError(403, "not_the_owner", why)


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@cache
def _machine_names() -> frozenset[str]:
    name = socket.gethostname().lower()
    return frozenset({name, f"{name.partition('.')[0]}.local"})


class HttpServer:
    """Its life: routes are put together once; each front is opened, served, and closed with the gateway."""

    def __init__(self, door: Site) -> None:
        load_resources()
        self._door = door
        self._runners: list[web.AppRunner] = []
        self._paths: list[Path] = []
        self._draining = False

    async def open_port(self, keys: Keyring) -> int:
        """Listen on the port of the options; the port that it is."""
        front = Admission(door=self._door, keys=keys)
        return await self._listen(front, ROUTES, "The API server cannot listen on", "API_SERVER_PORT")

    async def open_webhooks(self, host: str, port: int) -> int:
        """Listen on a port of their own for webhooks and nothing else; the port that it is."""
        door = replace(self._door, options=replace(self._door.options, host=host, port=port))
        front = Admission(door=door, keys=Keyring((), door.clock.monotonic))
        routes = [route for route in ROUTES if route.signed or route.path == "/health"]
        return await self._listen(front, routes, "Webhooks cannot be taken on", "WEBHOOK_PORT")

    async def _listen(self, front: Admission, routes: Sequence[HttpRoute], cannot: str, setting: str) -> int:
        options = front.door.options
        runner = await self._runner(front, routes)
        try:
            await web.TCPSite(runner, options.host, options.port, backlog=1024).start()
        except OSError as error:
            raise UserError(
                f"{cannot} {options.host}:{options.port} ({error.strerror or error}).",
                hint=f"Choose another {setting}, or stop what uses it.",
            ) from error
        port: int = runner.addresses[0][1]
        log.info("http.open host=%s port=%d routes=%d", options.host, port, len(routes))
        return port

    async def open_socket(self, home: Path, variables: Mapping[str, str]) -> Path:
        """Listen on the owner's socket."""
        path, bound = await asyncio.to_thread(bind_socket, home, variables)
        runner = await self._runner(Admission(door=self._door), [*ROUTES, *LOCAL_ROUTES])
        await web.SockSite(runner, bound).start()
        self._paths.append(path)
        return path

    def drain(self) -> None:
        """Take nothing new; what is under way may go on."""
        self._draining = True

    async def close(self) -> None:
        self._draining = True
        await self._door.streams.close()
        for runner in self._runners:
            await runner.cleanup()
        for path in self._paths:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _runner(self, front: Admission, wanted: Sequence[HttpRoute]) -> web.AppRunner:
        app = web.Application(
            middlewares=[_speaking(self._door.traffic)], client_max_size=self._door.options.max_body
        )
        app.on_response_prepare.append(_dressing(front))
        for path, routes in _by_path(wanted).items():
            own = [] if routes[0].signed else [f"/p/{{{_PROFILE}}}{path}"]
            for place in (path, *own):
                resource = app.router.add_resource(place)
                for route in routes:
                    resource.add_route(route.method, self._answering(front, route))
                resource.add_route("OPTIONS", _preflight(front, [route.method for route in routes]))
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_GOODBYE_SECONDS
        )
        await runner.setup()
        self._runners.append(runner)
        return runner

    def _answering(self, front: Admission, route: HttpRoute) -> Handler:
        takes, asks, limit = route.body, route.query, self._door.options.max_body
        decoder = None if takes is None else msgspec.json.Decoder(takes)

        async def answer(request: web.Request) -> web.StreamResponse:
            principal = NOBODY if route.signed else await front.admit(request, route.scope)
            call = HttpCall(door=self._door_of(request, principal), request=request, principal=principal)
            if self._draining and request.method != "GET":
                raise ApiError(
                    503, "gateway_draining", "The gateway is stopping.", headers={"Retry-After": "1"}
                )
            given: dict[str, Any] = {}
            if decoder is not None:
                given["body"] = await _read_body(request, decoder, limit)
            if asks is not None:
                given |= msgspec.structs.asdict(decode_query(asks, request.query))
            result = await route.answer(call, **given)
            if isinstance(result, web.StreamResponse):
                return result
            return as_json(result, status=route.status)

        return answer

    def _door_of(self, request: web.Request, principal: Principal) -> Site:
        """The door; where the path names a profile, with its agent as the default one."""
        name = request.match_info.get(_PROFILE)
        if name is None:
            return self._door
        agent = AgentId(name)
        if agent not in self._door.agents or not (principal is NOBODY or principal.sees(agent)):
            raise not_found("profile", name, "unknown_profile")
        return replace(self._door, default=agent, named=True)


def _by_path(routes: Sequence[HttpRoute]) -> dict[str, list[HttpRoute]]:
    paths: dict[str, list[HttpRoute]] = {}
    for route in routes:
        paths.setdefault(route.path, []).append(route)
    return paths


async def _read_body(request: web.Request, decoder: msgspec.json.Decoder[Any], limit: int) -> Any:
    if request.content_length is not None and request.content_length > limit:
        raise _too_large(limit)
    kind = request.content_type
    if kind != "application/json" and not kind.endswith("+json"):
        raise ApiError(
            415, "unsupported_content_type", "The body must be JSON (Content-Type: application/json)."
        )
    try:
        data = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(limit) from error
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise validation_error(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"The body is not JSON: {error}.", code="invalid_json") from error
    except RecursionError as error:
        raise bad_request("The body is nested too deeply.", code="invalid_json") from error


def _too_large(limit: int) -> ApiError:
    return ApiError(413, "body_too_large", f"The body is larger than {limit:,} bytes.")


def _speaking(traffic: Traffic) -> Any:
    """Errors as the API tells them, and every request counted."""

    @web.middleware
    async def speak(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        status: int | None = None
        try:
            response = await _answered(request, handler)
            status = response.status
            return response
        except ConnectionError:
            # Nobody hears this answer; without one, aiohttp would log a fault of ours.
            return web.Response(status=_CLIENT_LEFT)
        finally:
            seconds = time.perf_counter() - started
            resource = request.match_info.route.resource
            path = UNMATCHED if resource is None else resource.canonical
            method = UNMATCHED if resource is None else request.method
            traffic.count(method, path, status, seconds)
            log.debug("http.done path=%s status=%s seconds=%.3f", request.path, status, seconds)

    return speak


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _foreign(error).response()
    except (ApiError, HermesError) as error:
        return as_api_error(error).response()
    except ConnectionError:
        raise  # the client went away; there is nobody to tell
    except Exception:
        if request.writer.output_size:
            raise  # it is too late for another status: the connection is cut
        log.exception("http.broke method=%s route=%s", request.method, request.match_info.route.resource)
        return ApiError(
            500, "internal_error", "Something broke here; the log of the gateway says what."
        ).response()


def _dressing(front: Admission) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """The headers that every answer has."""

    async def dress(request: web.Request, response: web.StreamResponse) -> None:
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.update(cors(front, request))

    return dress


def cors(front: Admission, request: web.Request) -> dict[str, str]:
    origin = request.headers.get("Origin")
    if origin is None or front.keys is None or not front.allows(origin):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": ", ".join(PAGES_MAY_READ),
        "Vary": "Origin",
    }


def _preflight(front: Admission, methods: Sequence[str]) -> Handler:
    async def preflight(request: web.Request) -> web.Response:
        await front.admit(request, None)
        return web.Response(
            headers={
                "Access-Control-Allow-Methods": ", ".join([*methods, "OPTIONS"]),
                "Access-Control-Allow-Headers": ", ".join(PAGES_MAY_SEND),
                "Access-Control-Max-Age": "600",
            }
        )

    return preflight


def as_api_error(error: ApiError | HermesError) -> ApiError:
    match error:
        case ApiError():
            return error
        case NotFound():
            return ApiError(404, "not_found", str(error))
        case NameTaken():
            return ApiError(409, "session_exists", str(error))
        case AnswerExpected():
            return ApiError(409, "question_open", str(error))
        case KeyConflict():
            return ApiError(422, "idempotency_key_reused", str(error))
        case TurnUnfinished():
            return ApiError(409, "still_running", str(error))
        case UserError():
            return bad_request(str(error))
        case Unreachable():
            after = str(int(error.after or 1))
            return ApiError(503, "unavailable", f"Not now: {error}.", headers={"Retry-After": after})
        case _:
            return ApiError(500, "internal_error", f"{error}.")


def _foreign(error: web.HTTPException) -> ApiError:
    match error.status:
        case 404:
            return ApiError(404, "unknown_url", "There is nothing at this address. See /docs.")
        case 405:
            allow = error.headers.get("Allow", "")
            return ApiError(405, "method_not_allowed", f"Only {allow} here.", headers={"Allow": allow})
        case _:
            return ApiError(error.status, "bad_http", error.reason)
