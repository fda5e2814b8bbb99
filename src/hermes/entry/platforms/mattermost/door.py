"""Where Mattermost tells of pressed buttons and slash commands, if the operator gives an address at which it
reaches us. It signs nothing; so every button carries a signature of ours in its context, which people never
see, and a slash command the token that Mattermost made for it."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from hermes.domain.adapter import AdapterContext
from hermes.domain.errors import HermesError
from hermes.entry.kit.listener import listening

log = logging.getLogger("hermes.mattermost")
_PRESS_BYTES = 256 * 1024


Store = Callable[[Any], Awaitable[bool]]
"""Stores what came; False if it is none of ours."""


@contextlib.asynccontextmanager
async def open_listener(
    context: AdapterContext, url: str, press: Store, command: Store
) -> AsyncIterator[None]:
    """Presses are taken as long as this is open; nothing is opened without an address."""
    if not url:
        yield
        return

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            if request.content_type == "application/x-www-form-urlencoded":
                good = await command(dict(parse_qsl(body.decode(), keep_blank_values=True)))
            else:
                good = await press(json.loads(body))
        except (ValueError, RecursionError):
            return web.Response(status=400)
        except HermesError as error:
            log.warning("mattermost.not_stored why=%s", error)
            sorry = "That did not work; please try again."
            return web.json_response({"ephemeral_text": sorry, "text": sorry})
        return web.json_response({}, status=200 if good else 403)

    async with listening(
        context,
        url,
        answer,
        variables="MATTERMOST_CALLBACK",
        usual_port="8446",
        most_bytes=_PRESS_BYTES,
    ):
        yield
