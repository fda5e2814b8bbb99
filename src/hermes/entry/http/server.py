"""The server: every endpoint behind the same checks, on a TCP port and on the home's socket.

The order of a request: admission (`site.admission`) → its size → its type → its content; only then the
endpoint sees it."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import AgentId
from hermes.domain.word import replace
from hermes.entry.http.api import AT_START, TAGS, load_resources
from hermes.entry.http.site import endpoint, errors
from hermes.entry.http.site.admission import NOBODY, Admission, Keyring, Principal
from hermes.entry.http.site.body import read_body
from hermes.entry.http.site.connections import ConnectionRunner, most_connections, new_request_id
from hermes.entry.http.site.headers import PAGES_MAY_SEND, REQUEST_ID
from hermes.entry.http.site.late_routes import LateRoutes
from hermes.entry.http.site.owner_socket import bind_socket
from hermes.entry.http.site.traffic import TRAFFIC, UNMATCHED, Traffic
from hermes.entry.http.webhooks import WEBHOOKS

if TYPE_CHECKING:
    from hermes.entry.http.webhooks.receive import Webhooks

log = logging.getLogger("hermes.http")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Routes = Callable[[], Iterable[endpoint.HttpRoute]]
"""The routes of a way in, of those that are loaded by now."""
OWNER_BODY = 64 * 1024 * 1024
"""What a request on the owner's socket may hold: the settings say how long a message may be."""
_GOODBYE_SECONDS = 2.0
_PROFILE = "profile_of_path"
_IDENT = web.RequestKey("ident", str)
_CLIENT_LEFT = 499
_TOKEN = re.compile(r"[A-Za-z0-9-]{1,64}")
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(?P<half>u[dD][89a-fA-F][\da-fA-F]{2})|.)",
    re.DOTALL,
)
"""JavaScript writes half a character like this, which a text that was cut inside an emoji ends with."""
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=31536000",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class HttpServer:
    """Its life: each way in is opened, served, and closed with the gateway."""

    def __init__(self, site: endpoint.Site, webhooks: Callable[[], Webhooks | None] = lambda: None) -> None:
        load_resources(AT_START)
        self._site = site
        self._traffic = Traffic()
        self._webhooks = webhooks
        self._runners: list[web.AppRunner] = []
        self._paths: list[Path] = []
        self._draining = False

    async def open_port(self, keys: Keyring) -> int:
        """Listen on the port of the options; the actual port."""
        admission = Admission(options=self._site.options, keys=keys)
        return await self._listen(
            admission, _api_routes, "The API server cannot listen on", "API_SERVER_PORT"
        )

    async def open_webhooks(self, host: str, port: int) -> int:
        """Listen on a port for webhooks alone; the actual port."""
        options = replace(self._site.options, host=host, port=port)
        admission = Admission(options=options, keys=Keyring((), self._site.clock.monotonic))
        self._webhooks()  # warns of routes that cannot work
        return await self._listen(admission, _webhook_routes, "Webhooks cannot be taken on", "WEBHOOK_PORT")

    async def _listen(self, admission: Admission, routes: Routes, cannot: str, setting: str) -> int:
        options = admission.options
        runner = await self._runner(admission, routes, options.max_body)
        try:
            await web.TCPSite(runner, options.host, options.port, backlog=1024).start()
        except OSError as error:
            raise UserError(
                f"{cannot} {options.host}:{options.port} ({error.strerror or error}).",
                hint=f"Choose another {setting}, or stop what uses it.",
            ) from error
        port: int = runner.addresses[0][1]
        log.info("http.open host=%s port=%d", options.host, port)
        return port

    async def open_socket(self, home: Path, variables: Mapping[str, str]) -> Path:
        """Listen on the owner's socket."""
        path, bound = await asyncio.to_thread(bind_socket, home, variables)
        runner = await self._runner(Admission(options=self._site.options), _owner_routes, OWNER_BODY)
        await web.SockSite(runner, bound).start()
        self._paths.append(path)
        return path

    def drain(self) -> None:
        """Take nothing new; what is under way may finish."""
        self._draining = True

    async def close(self) -> None:
        self._draining = True
        await self._site.streams.close()
        for runner in self._runners:
            await runner.cleanup()
        for path in self._paths:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _runner(self, admission: Admission, routes: Routes, most: int) -> web.AppRunner:
        async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
            for name, value in SECURITY_HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers[REQUEST_ID] = request.get(_IDENT) or new_request_id()
            response.headers.update(admission.cors_headers(request))

        options = self._site.options
        app = web.Application(middlewares=[_answer_and_count], client_max_size=most)
        app[TRAFFIC] = self._traffic
        app[WEBHOOKS] = self._webhooks
        app.on_response_prepare.append(add_headers)
        self._add_routes(app.router, admission, filter(_is_at_start, routes()))

        def add_rest(router: web.UrlDispatcher) -> None:
            load_resources()
            self._add_routes(router, admission, filterfalse(_is_at_start, routes()))

        def add_profiles(router: web.UrlDispatcher) -> None:
            load_resources()
            named = [route for route in routes() if not route.signed]
            self._add_routes(router, admission, named, f"/p/{{{_PROFILE}}}")

        app.router.register_resource(LateRoutes("", add_rest))
        app.router.register_resource(LateRoutes("/p", add_profiles))
        runner = ConnectionRunner(
            app,
            most=options.max_connections or most_connections(),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=_GOODBYE_SECONDS,
            # On the owner's socket are only the owner's own programs.
            **({} if admission.keys is None else {"keepalive_timeout": options.idle_seconds}),
        )
        await runner.setup()
        self._runners.append(runner)
        return runner

    def _add_routes(
        self,
        router: web.UrlDispatcher,
        admission: Admission,
        wanted: Iterable[endpoint.HttpRoute],
        prefix: str = "",
    ) -> None:
        by_path: defaultdict[str, list[endpoint.HttpRoute]] = defaultdict(list)
        for route in wanted:
            by_path[route.path].append(route)
        for path, routes in by_path.items():
            resource = router.add_resource(prefix + path)
            for route in routes:
                answer = self._handler(admission, route)
                resource.add_route(route.method, answer)
                if route.method == "GET" and web.StreamResponse not in route.gives:
                    resource.add_route("HEAD", answer)  # aiohttp leaves the body out
            resource.add_route("OPTIONS", _preflight(admission, [route.method for route in routes]))

    def _handler(self, admission: Admission, route: endpoint.HttpRoute) -> Handler:
        limit = OWNER_BODY if route.spreads and admission.keys is None else self._site.options.max_body
        decoder = None if route.body is None else msgspec.json.Decoder(route.body)

        async def answer(request: web.Request) -> web.StreamResponse:
            principal = NOBODY if route.signed else await admission.admit(request, route.scope)
            if route.attaches and principal.agents is not None:
                raise errors.ApiError(403, "not_allowed", "A terminal needs a key for every agent.")
            profile = self._profile(request, principal)
            if self._draining and request.method not in ("GET", "HEAD"):
                raise errors.ApiError(
                    503, "gateway_draining", "The gateway is stopping.", headers={"Retry-After": "1"}
                )
            given: dict[str, Any] = {}
            content = b""
            if decoder is not None:
                content = await _read_json(request, limit, self._site.options.body_seconds)
                body = _decode(decoder, content)
                given = msgspec.structs.asdict(body) if route.spreads else {"body": body}
            if route.query is not None:
                given |= msgspec.structs.asdict(endpoint.decode_query(route.query, request.query))
            call = endpoint.HttpCall(
                site=self._site, request=request, principal=principal, profile=profile, content=content
            )
            result = await route.answer(call, **given)
            if isinstance(result, web.StreamResponse):
                return result
            return endpoint.as_json(result, status=route.status)

        return answer

    def _profile(self, request: web.Request, principal: Principal) -> AgentId | None:
        """The agent that the path names, if it names one. Without a key nobody is told which there are."""
        name = request.match_info.get(_PROFILE)
        if name is None or principal is NOBODY:
            return None
        agent = AgentId(name)
        if not self._site.gateway.hosts(agent) or not principal.sees(agent):
            raise errors.not_found("agent", name, "unknown_agent")
        return agent


def _api_routes() -> Iterable[endpoint.HttpRoute]:
    return [*endpoint.ROUTES, *(route for route in endpoint.LOCAL_ROUTES if route.attaches)]


def _owner_routes() -> Iterable[endpoint.HttpRoute]:
    return [*endpoint.ROUTES, *endpoint.LOCAL_ROUTES]


def _webhook_routes() -> Iterable[endpoint.HttpRoute]:
    return (route for route in endpoint.ROUTES if route.signed or route.path == "/health")


def _is_at_start(route: endpoint.HttpRoute) -> bool:
    return TAGS.get(route.answer.__module__) in AT_START


async def _read_json(request: web.Request, limit: int, seconds: float) -> bytes:
    if request.content_length is not None and request.content_length > limit:
        raise errors.too_large(limit)
    # By hand: aiohttp asks the mail library, which takes a millisecond the first time.
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise errors.ApiError(
            415, "unsupported_content_type", "The body must be JSON (Content-Type: application/json)."
        )
    content = await read_body(request, limit, seconds)
    if rb"\ud" not in content and rb"\uD" not in content:
        return content
    return _ESCAPES.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], content)


def _decode(decoder: msgspec.json.Decoder[Any], data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise endpoint.validation_error(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"The body is not JSON: {error}.", code="invalid_json") from error
    except RecursionError as error:
        raise errors.bad_request("The body is nested too deeply.", code="invalid_json") from error


@web.middleware
async def _answer_and_count(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors in the API's shape, and every request counted."""
    started = time.perf_counter()
    status: int | None = None
    request[_IDENT] = new_request_id()
    try:
        response = await _answer(request, handler)
        status = response.status
        return response
    except ConnectionError:
        # Nobody reads this answer; without one, aiohttp would log a fault of ours.
        return web.Response(status=_CLIENT_LEFT)
    finally:
        seconds = time.perf_counter() - started
        resource = request.match_info.route.resource
        path = UNMATCHED if resource is None else resource.canonical
        method = UNMATCHED if resource is None else request.method
        request.app[TRAFFIC].count(method, path, status, seconds)
        ident = request[_IDENT]
        log.debug("http.done id=%s path=%s status=%s seconds=%.3f", ident, request.path, status, seconds)


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        nothing = request.method == "POST" and await _is_name(request)
        return errors.router_error(web.HTTPNotFound() if nothing else error).response()
    except web.HTTPException as error:
        return errors.router_error(error, request.path).response()
    except (errors.ApiError, HermesError) as error:
        return errors.as_api_error(error).response()
    except ConnectionError:
        raise  # the client went away; there is nobody to answer
    except Exception:
        if request.writer.output_size:
            raise  # it is too late for another status: the connection is cut
        ident, resource = request[_IDENT], request.match_info.route.resource
        log.exception("http.broke id=%s method=%s route=%s", ident, request.method, resource)
        return errors.ApiError(
            500, "internal_error", "Something broke here; the log of the gateway says what."
        ).response()


async def _is_name(request: web.Request) -> bool:
    """Whether the last part of an address stands where names of things do. Who POSTs there means an endpoint
    that there is not: `/v1/responses/compact` is no response."""
    for resource in request.app.router.resources():
        is_named = resource.canonical.endswith("}") and not isinstance(resource, LateRoutes)
        if is_named and (await resource.resolve(request))[1]:
            return True
    return False


def _preflight(admission: Admission, methods: list[str]) -> Handler:
    async def preflight(request: web.Request) -> web.Response:
        await admission.admit(request, None)
        asked = request.headers.get("Access-Control-Request-Headers", "").split(",")
        headers = dict.fromkeys((*PAGES_MAY_SEND, *filter(_TOKEN.fullmatch, map(str.strip, asked))))
        return web.Response(
            headers={
                "Access-Control-Allow-Methods": ", ".join([*methods, "OPTIONS"]),
                "Access-Control-Allow-Headers": ", ".join(headers),
                "Access-Control-Max-Age": "600",
            }
        )

    return preflight
