"""Where Mattermost tells of pressed buttons and slash commands, if the operator gives an address at which it
reaches us. It signs nothing; so every button carries a signature of ours in its context, which people never
see, and a slash command the token that Mattermost made for it."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from hermes.domain.adapter import AdapterContext, open_door
from hermes.domain.errors import HermesError

PORT = "MATTERMOST_CALLBACK_PORT"
log = logging.getLogger("hermes.mattermost")
_PRESS_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MattermostCallbacks:
    """Who stores what comes; False if it is none of ours."""

    press: Callable[[Any], Awaitable[bool]]
    command: Callable[[Mapping[str, str]], Awaitable[bool]]


@contextlib.asynccontextmanager
async def open_listener(outfit: AdapterContext, url: str, calls: MattermostCallbacks) -> AsyncIterator[None]:
    """Presses are taken as long as this is open; nothing is opened without an address."""
    if not url:
        yield
        return

    async def hear(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            if request.content_type == "application/x-www-form-urlencoded":
                good = await calls.command(dict(parse_qsl(body.decode(), keep_blank_values=True)))
            else:
                good = await calls.press(json.loads(body))
        except (ValueError, RecursionError):
            return web.Response(status=400)
        except HermesError as error:
            log.warning("mattermost.not_stored why=%s", error)
            sorry = "That did not work; please try again."
            return web.json_response({"ephemeral_text": sorry, "text": sorry})
        return web.json_response({}, status=200 if good else 403)

    app = web.Application(client_max_size=_PRESS_BYTES)
    app.router.add_post(urlsplit(url).path or "/", hear)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await _listen(outfit, runner)
        yield
    finally:
        await runner.cleanup()


async def _listen(outfit: AdapterContext, runner: web.AppRunner) -> None:
    host = outfit.said("MATTERMOST_CALLBACK_HOST", "127.0.0.1")
    port = outfit.port(PORT, "8446")
    await open_door(web.TCPSite(runner, host, port).start(), host, port, PORT)
