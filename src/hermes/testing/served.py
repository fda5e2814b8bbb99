"""A vendor's server as a fake: it listens on a port of its own, comes back to that port after it was away,
dies with all its connections, and fails on demand. Which routes it has and what it says is each fake's
own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from aiohttp import web

from hermes.domain.chats.address import Address
from hermes.entry.kit.listener import stop_listening
from hermes.testing.platform_suite import Fault, Testbed
from hermes.testing.ports import free_port

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Route = tuple[str, str, Handler]
_MOST_BYTES = 60 * 1024 * 1024


class FakeRefusal(Exception):
    """An error answer; `ServedFake.refused` makes a response of it."""


@dataclass
class ServedFake:
    """`url` is its address, with `base_path` behind it, as long as it is up."""

    base_path: ClassVar[str] = ""
    url: str = ""
    chaos: Callable[[], tuple[Fault, bool] | None] = lambda: None
    """What goes wrong by chance; the flag says that the request takes effect all the same."""
    port: int = field(default_factory=free_port)
    _faults: dict[Any, tuple[Fault, int, bool]] = field(default_factory=dict)
    _transports: set[asyncio.Transport] = field(default_factory=set)
    _runner: web.AppRunner | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    # --- for a fake to say ---

    def routes(self) -> Iterable[Route]:
        """Method, path and handler of each route."""
        raise NotImplementedError

    def refused(self, refusal: Any) -> web.Response:
        """The response that a `FakeRefusal` of this fake stands for."""
        raise NotImplementedError

    def failed(self, fault: Fault) -> web.Response:
        """How the vendor says that it is too fast, too long, gone or not allowed; it may raise a refusal."""
        raise NotImplementedError

    # --- its life ---

    @property
    def is_up(self) -> bool:
        return self._runner is not None

    async def up(self) -> None:
        app = web.Application(client_max_size=_MOST_BYTES)
        for method, path, handler in self.routes():
            app.router.add_route(method, path, self._tracked(handler))
        # A timeout of 0 would be none: whoever connects at the last moment would be waited for.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.url = f"http://127.0.0.1:{self.port}{self.base_path}"

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def down(self) -> None:
        runner, self._runner = self._runner, None
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.cut()
        if runner is not None:
            await stop_listening(runner)

    def cut(self) -> None:
        """Every connection dies."""
        for transport in tuple(self._transports):
            transport.abort()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let this run until it ends, or the server goes down."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tracked(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            transport = request.transport
            assert transport is not None
            self._transports.add(transport)
            try:
                return await handler(request)
            except FakeRefusal as refusal:
                return self.refused(refusal)
            finally:
                self._transports.discard(transport)

        return handle

    # --- trouble ---

    def fail(self, fault: Fault, times: int, done: bool, chat: Any) -> None:
        """The next requests about a chat fail, or about any; `done`: they take effect all the same."""
        self._faults[None if chat is None else str(chat)] = (fault, times, done)

    def calm(self) -> None:
        self._faults.clear()

    def next_fault(self, chat: Any) -> tuple[Fault | None, bool]:
        for place in (None if chat is None else str(chat), None):
            fault, times, done = self._faults.get(place, (None, 0, False))
            if fault is not None and times:
                self._faults[place] = (fault, times - 1, done)
                return fault, done
        return self.chaos() or (None, False)

    async def troubled(self, request: web.Request, chat: Any, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do something in a chat, or fail at it if it is the chat's turn."""
        fault, done = self.next_fault(chat)
        if fault is None:
            return await act()
        if done:
            await act()
        return await self.fail_at(fault, request)

    async def fail_at(self, fault: Fault, request: web.Request) -> web.StreamResponse:
        match fault:
            case Fault.BROKEN:
                page = "<html><h1>502 Bad Gateway</h1></html>"
                return web.Response(status=502, text=page, content_type="text/html")
            case Fault.RESET:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case Fault.HANG:
                await asyncio.sleep(3600)
        return self.failed(fault)


class ServedBed(Testbed):
    """A testbed over one fake server."""

    server: Any

    async def open(self) -> None:
        await self.server.up()

    async def close(self) -> None:
        await self.server.down()

    def fail(self, fault: Fault, *, times: int = 1, done: bool = False, chat: Address | None = None) -> None:
        self.hang(fault is Fault.HANG)
        self.server.fail(fault, times, done, None if chat is None else chat.chat)

    def calm(self) -> None:
        self.server.calm()
        self.hang(False)

    async def cut(self) -> None:
        self.server.cut()

    async def down(self) -> None:
        await self.server.down()

    async def up(self) -> None:
        await self.server.up()
