"""A port on which a platform calls us: it is open as long as the context manager is. What could not be stored
is answered with 503, so that the platform calls again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.text import one_line

Answer = Callable[[web.Request], Awaitable[web.Response]]


def is_secret(given: str, secret: str) -> bool:
    """Compared in a time that tells nothing about the secret; an empty one is nobody's."""
    return bool(secret) and hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


@contextlib.asynccontextmanager
async def listening(
    context: AdapterContext,
    url: str,
    answer: Answer,
    *,
    variables: str,
    usual_port: str,
    most_bytes: int = 4 * 1024 * 1024,
    methods: Sequence[str] = ("POST",),
    also: Sequence[tuple[str, str, Answer]] = (),
) -> AsyncIterator[None]:
    """Answer such requests at the path of the URL, and `also` others elsewhere. The settings that say where
    to listen begin with `variables` (`…_HOST`, `…_PORT`)."""
    platform = variables.partition("_")[0].lower()
    log = logging.getLogger(f"hermes.{platform}")

    def guarded(answer: Answer) -> Answer:
        async def called(request: web.Request) -> web.Response:
            try:
                return await answer(request)
            except HermesError as error:
                log.warning("%s.not_stored why=%s", platform, error)
                return web.Response(status=503)

        return called

    app = web.Application(client_max_size=most_bytes)
    path = urlsplit(url).path or "/"
    for method, place, handle in [*((method, path, answer) for method in methods), *also]:
        app.router.add_route(method, place, guarded(handle))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await _bind(context, runner, variables, usual_port)
        yield
    finally:
        await stop_listening(runner)


async def stop_listening(runner: web.AppRunner) -> None:
    """Asyncio's own loop leaks a connection that it accepted and has not set up when its server is closed
    (CPython, `Server._attach`). So nobody is let in any more, and who is in the door comes in and is closed
    with the others."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for site in runner.sites:
            server: asyncio.Server | None = getattr(site, "_server", None)
            for door in () if server is None else server.sockets:
                loop.remove_reader(door)
        for _ in range(2):
            await asyncio.sleep(0)
    await runner.cleanup()


async def _bind(context: AdapterContext, runner: web.AppRunner, variables: str, usual_port: str) -> None:
    """Whoever is stopped in the middle waits for the end of it: otherwise a port would be taken that nobody
    closes."""
    host = context.setting(f"{variables}_HOST", "127.0.0.1")
    port = context.port(f"{variables}_PORT", usual_port)
    begun = asyncio.ensure_future(web.TCPSite(runner, host, port).start())
    try:
        await asyncio.shield(begun)
    except OSError as error:
        why = error.strerror or type(error).__name__
        if error.errno == errno.EADDRINUSE:
            why = f"another account or program has it; set {variables}_PORT to a port of its own"
        raise Unreachable(f"{one_line(host, 60)}:{port} cannot be listened on ({why})") from error
    finally:
        if not begun.done():
            await asyncio.wait((begun,))
