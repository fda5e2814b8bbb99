"""Socket Mode: a socket that we open and over which Slack tells what happens. It hears that we have something
once that is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from hermes.domain.clock import Clock
from hermes.domain.errors import NeedsLogin, Unreachable
from hermes.domain.text import trouble_told
from hermes.entry.kit.payload import as_dict, read_json
from hermes.entry.platforms.slack.api import SlackApi

_STEADY_SECONDS = 10.0
_ENDED = (
    aiohttp.WSMsgType.CLOSE,
    aiohttp.WSMsgType.CLOSING,
    aiohttp.WSMsgType.CLOSED,
    aiohttp.WSMsgType.ERROR,
)
Hear = Callable[[Any], Awaitable[bool]]
"""Stores a payload; False if it is for somebody else."""
Work = Callable[[], Awaitable[None]]


class SlackSocket:
    """One connection after the other, as Slack renews them every few hours. It says so before, and the old
    connection is left when the new one has been greeted, so that there always is one: buttons and slash
    commands are not told later. `alive` tells of a quiet while, `catch_up` reads what was missed."""

    def __init__(
        self, api: SlackApi, token: str, clock: Clock, *, hear: Hear, alive: Work, catch_up: Work
    ) -> None:
        self._api = api
        self._token = token
        self._clock = clock
        self._hear, self._alive, self._catch_up = hear, alive, catch_up
        self._links: set[asyncio.Future[None]] = set()
        self._catching: asyncio.Future[None] | None = None

    async def live(self, quiet_seconds: float) -> None:
        try:
            link, living = await self._open(quiet_seconds)
            while True:
                await self._until(link.parting, living)
                if self._clock.monotonic() - link.began < _STEADY_SECONDS:
                    raise Unreachable("Slack renews the connection again and again")
                before = living
                link, living = await self._open(quiet_seconds)
                await self._end(before)
        finally:
            await self._end(*self._links)
            if self._catching is not None:
                await self._end(self._catching)

    async def _open(self, quiet_seconds: float) -> tuple[SlackConnection, asyncio.Future[None]]:
        """A connection that has been greeted, and its life."""
        socket = await self._api.open_socket(await socket_url(self._api, self._token))
        link = SlackConnection(socket, self._hear, self._alive, self._api.answer_seconds)
        living = asyncio.ensure_future(link.live(quiet_seconds))
        self._links.add(living)
        await self._until(link.greeted, living)
        link.began = self._clock.monotonic()
        before, self._catching = self._catching, asyncio.ensure_future(self._catch_up())
        if before is not None:
            await self._end(before)
        return link, living

    async def _until(self, sign: asyncio.Event, living: asyncio.Future[None]) -> None:
        """Wait for a sign of a connection; its end is an error, and so is that what was missed cannot be
        read."""
        waiting = asyncio.ensure_future(sign.wait())
        try:
            while not sign.is_set():
                tasks = [task for task in (living, waiting, self._catching) if task is not None]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if self._catching is not None and self._catching.done():
                    caught, self._catching = self._catching, None
                    caught.result()
                if living.done():
                    living.result()
        finally:
            waiting.cancel()

    async def _end(self, *tasks: asyncio.Future[None]) -> None:
        for task in tasks:
            task.cancel()
            self._links.discard(task)
        await asyncio.gather(*tasks, return_exceptions=True)


class SlackConnection:
    """One connection. `greeted` is set when Slack began to tell, `parting` when it wants another one."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, hear: Hear, alive: Work, greet_seconds: float
    ) -> None:
        self._socket = socket
        self._hear, self._alive = hear, alive
        self._greet_seconds = greet_seconds
        self.began = 0.0
        self.greeted = asyncio.Event()
        self.parting = asyncio.Event()

    async def live(self, quiet_seconds: float) -> None:
        reading: asyncio.Future[aiohttp.WSMessage] | None = None
        try:
            while True:
                reading = reading or asyncio.ensure_future(self._socket.receive())
                patience = quiet_seconds if self.greeted.is_set() else self._greet_seconds
                await asyncio.wait((reading,), timeout=patience)
                if reading.done():
                    frame, reading = reading.result(), None
                    await self._take(frame)
                elif self.greeted.is_set():
                    # Slack may have nothing to tell; a connection that died is noticed by its heartbeat.
                    await self._alive()
                else:
                    raise Unreachable("Slack's socket says nothing")
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.wait((reading,))
            await self._socket.close()

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        if frame.type in _ENDED:
            raise Unreachable("Slack closed the connection")
        message = as_dict(read_json(frame.data) if frame.type is aiohttp.WSMsgType.TEXT else None)
        match message.get("type"):
            case "hello":
                self.greeted.set()
                return
            case "disconnect" if message.get("reason") == "link_disabled":
                raise NeedsLogin("Socket Mode was switched off in the Slack app; switch it on again")
            case "disconnect" if message.get("reason") == "too_many_websockets":
                raise Unreachable("Too many programs use this Slack app's Socket Mode", after=60.0)
            case "disconnect":
                self.parting.set()
                return
        envelope = message.get("envelope_id")
        # What is for somebody else is not acknowledged, so that it is told again, to another connection.
        if isinstance(envelope, str) and await self._hear(message.get("payload")):
            try:
                await self._socket.send_json({"envelope_id": envelope})
            except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
                raise Unreachable(f"Slack closed the connection ({trouble_told(error)})") from None


async def socket_url(api: SlackApi, token: str) -> str:
    """The address of a new connection; an error that names the app's token where that is wrong."""
    try:
        answer = (await api.ask("apps.connections.open", {}, token=token)).result
    except NeedsLogin as error:
        raise NeedsLogin(
            f"SLACK_APP_TOKEN is not right: a token with connections:write is wanted, and Socket Mode has to"
            f" be on ({error})"
        ) from None
    url = answer.get("url")
    if not isinstance(url, str):
        raise Unreachable("Slack does not say where its socket is")
    return url
