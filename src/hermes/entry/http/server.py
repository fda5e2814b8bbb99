"""The server: every endpoint behind the same checks, on a TCP port and on the home's socket.

The order of a request: admission (`site.admission`) → its size → its type → its content; only then the
endpoint sees it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import AgentId
from hermes.domain.word import replace
from hermes.entry.http.api import load_resources
from hermes.entry.http.api.metrics import TRAFFIC, UNMATCHED, Traffic
from hermes.entry.http.site import endpoint, errors
from hermes.entry.http.site.admission import NOBODY, Admission, Keyring, Principal
from hermes.entry.http.site.headers import PAGES_MAY_SEND
from hermes.entry.http.site.late_routes import LateRoutes
from hermes.entry.http.site.owner_socket import bind_socket
from hermes.entry.http.webhooks.receive import WEBHOOKS, Webhooks

log = logging.getLogger("hermes.http")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_GOODBYE_SECONDS = 2.0
_PROFILE = "profile_of_path"
_CLIENT_LEFT = 499
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

    def __init__(self, site: endpoint.Site, webhooks: Webhooks | None = None) -> None:
        load_resources()
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
            admission, endpoint.ROUTES, "The API server cannot listen on", "API_SERVER_PORT"
        )

    async def open_webhooks(self, host: str, port: int) -> int:
        """Listen on a port for webhooks alone; the actual port."""
        options = replace(self._site.options, host=host, port=port)
        admission = Admission(options=options, keys=Keyring((), self._site.clock.monotonic))
        routes = [route for route in endpoint.ROUTES if route.signed or route.path == "/health"]
        return await self._listen(admission, routes, "Webhooks cannot be taken on", "WEBHOOK_PORT")

    async def _listen(
        self, admission: Admission, routes: Sequence[endpoint.HttpRoute], cannot: str, setting: str
    ) -> int:
        options = admission.options
        runner = await self._runner(admission, routes)
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
        runner = await self._runner(
            Admission(options=self._site.options), [*endpoint.ROUTES, *endpoint.LOCAL_ROUTES]
        )
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

    async def _runner(self, admission: Admission, wanted: Sequence[endpoint.HttpRoute]) -> web.AppRunner:
        async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
            for name, value in SECURITY_HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers.update(admission.cors_headers(request))

        app = web.Application(middlewares=[_answer_and_count], client_max_size=self._site.options.max_body)
        app[TRAFFIC] = self._traffic
        app[WEBHOOKS] = self._webhooks
        app.on_response_prepare.append(add_headers)
        self._add_routes(app.router, admission, wanted)
        named = [route for route in wanted if not route.signed]
        of_profile = LateRoutes(
            "/p", lambda router: self._add_routes(router, admission, named, f"/p/{{{_PROFILE}}}")
        )
        app.router.register_resource(of_profile)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_GOODBYE_SECONDS
        )
        await runner.setup()
        self._runners.append(runner)
        return runner

    def _add_routes(
        self,
        router: web.UrlDispatcher,
        admission: Admission,
        wanted: Sequence[endpoint.HttpRoute],
        prefix: str = "",
    ) -> None:
        by_path: defaultdict[str, list[endpoint.HttpRoute]] = defaultdict(list)
        for route in wanted:
            by_path[route.path].append(route)
        for path, routes in by_path.items():
            resource = router.add_resource(prefix + path)
            for route in routes:
                resource.add_route(route.method, self._handler(admission, route))
            resource.add_route("OPTIONS", _preflight(admission, [route.method for route in routes]))

    def _handler(self, admission: Admission, route: endpoint.HttpRoute) -> Handler:
        limit = self._site.options.max_body
        decoder = None if route.body is None else msgspec.json.Decoder(route.body)

        async def answer(request: web.Request) -> web.StreamResponse:
            principal = NOBODY if route.signed else await admission.admit(request, route.scope)
            profile = self._profile(request, principal)
            call = endpoint.HttpCall(site=self._site, request=request, principal=principal, profile=profile)
            if self._draining and request.method != "GET":
                raise errors.ApiError(
                    503, "gateway_draining", "The gateway is stopping.", headers={"Retry-After": "1"}
                )
            given: dict[str, Any] = {}
            if decoder is not None:
                body = await _read_body(request, decoder, limit)
                given = msgspec.structs.asdict(body) if route.spreads else {"body": body}
            if route.query is not None:
                given |= msgspec.structs.asdict(endpoint.decode_query(route.query, request.query))
            result = await route.answer(call, **given)
            if isinstance(result, web.StreamResponse):
                return result
            return endpoint.as_json(result, status=route.status)

        return answer

    def _profile(self, request: web.Request, principal: Principal) -> AgentId | None:
        """The agent that the path names, if it names one."""
        name = request.match_info.get(_PROFILE)
        if name is None:
            return None
        agent = AgentId(name)
        if agent not in self._site.agents or not (principal is NOBODY or principal.sees(agent)):
            raise errors.not_found("profile", name, "unknown_profile")
        return agent


async def _read_body(request: web.Request, decoder: msgspec.json.Decoder[Any], limit: int) -> Any:
    if request.content_length is not None and request.content_length > limit:
        raise errors.too_large(limit)
    # By hand: aiohttp asks the mail library, which takes a millisecond the first time.
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise errors.ApiError(
            415, "unsupported_content_type", "The body must be JSON (Content-Type: application/json)."
        )
    try:
        data = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise errors.too_large(limit) from error
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
        log.debug("http.done path=%s status=%s seconds=%.3f", request.path, status, seconds)


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return errors.router_error(error).response()
    except (errors.ApiError, HermesError) as error:
        return errors.as_api_error(error).response()
    except ConnectionError:
        raise  # the client went away; there is nobody to answer
    except Exception:
        if request.writer.output_size:
            raise  # it is too late for another status: the connection is cut
        log.exception("http.broke method=%s route=%s", request.method, request.match_info.route.resource)
        return errors.ApiError(
            500, "internal_error", "Something broke here; the log of the gateway says what."
        ).response()


def _preflight(admission: Admission, methods: Sequence[str]) -> Handler:
    async def preflight(request: web.Request) -> web.Response:
        await admission.admit(request, None)
        return web.Response(
            headers={
                "Access-Control-Allow-Methods": ", ".join([*methods, "OPTIONS"]),
                "Access-Control-Allow-Headers": ", ".join(PAGES_MAY_SEND),
                "Access-Control-Max-Age": "600",
            }
        )

    return preflight
