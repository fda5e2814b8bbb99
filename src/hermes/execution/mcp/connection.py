"""The connection to one MCP server. Whoever needs it first opens it; a task of its own enters and leaves the
SDK's client, asks what tools there are, hears of changes, and lets go when nobody has called for a while or
the server ends. A server that cannot be reached is left alone for longer and longer; meanwhile a call is told
why at once. Nothing is called twice: what was on its way when a connection broke has an unknown outcome."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

from msgspec import Struct

from hermes.domain.errors import HermesError, NeedsLogin, Unreachable, UserError
from hermes.domain.ports.world import Backend
from hermes.domain.settings.mcp import McpServer
from hermes.domain.system.border import describe
from hermes.domain.text import one_line
from hermes.domain.tools.mcp import MOST_TOOLS, McpDefinition

log = logging.getLogger("hermes.mcp")
T = TypeVar("T")
NOT_INSTALLED = "The packages for MCP servers are not installed."
_FEW_FAILURES, _SHORT, _LONG, _PARKED = 5, 1.0, 60.0, 300.0
_CLOSE_SECONDS = 8.0
_WHY_SECONDS = 3.0
_LOOK_SECONDS = 15.0
_BETWEEN_LISTS = 1.0
_MOST_PAGES = 50
_LONGEST_REASON = 300
_GONE = ("Connection closed", "Session terminated")
_CUT = "SSE stream "
_LATE = " timed out"
_NO_SESSION = "No valid session ID"
"""What the SDK says of a connection or a session that is over, how it begins to say that the answer to one
call was cut off, and how it ends to say that none came (mcp 2.3: shared/jsonrpc_dispatcher.py,
client/streamable_http.py). Its codes say nothing, since servers use them for errors of their own. The last is
what the examples of the TypeScript SDK answer, with 400, to a session that they do not know
(modelcontextprotocol/typescript-sdk: src/examples/server)."""


class McpPlace(Struct, frozen=True, kw_only=True):
    """Where a server is, and how to get in: programs run in the `backend`, `get_token` gives the access token
    of a login."""

    name: str
    server: McpServer
    backend: Backend | None = None
    get_token: Callable[[str], Awaitable[str]] | None = None


class Listing(Struct, frozen=True, kw_only=True):
    """What a server says that it has."""

    tools: list[McpDefinition]
    resources: bool
    prompts: bool


class McpRefusal(Exception):
    """The server answered that it will not; the words are its own. `opened` are requests to a person to open
    an address, after which it would."""

    def __init__(self, words: str, opened: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(words)
        self.opened = opened


Callbacks = dict[str, Any]
"""What the SDK calls when a server wants something of us."""


class McpConnection:
    """`listed` hears what the server has, before anybody calls it, and again after each change."""

    def __init__(
        self,
        place: McpPlace,
        listed: Callable[[Listing], Awaitable[None]],
        callbacks: Callbacks | None = None,
    ) -> None:
        self._place = place
        self._listed = listed
        self._callbacks = callbacks or {}
        self._living: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any] | None = None
        self._over = asyncio.Event()
        self._stale = asyncio.Event()
        self._users = 0
        self._used_at = 0.0
        self._failures = 0
        self._retry_at = 0.0
        self._closed = False
        self.trouble = ""

    @property
    def is_open(self) -> bool:
        return self._ready is not None and self._ready.done() and not self._over.is_set()

    async def use(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do something with the client, connected; `McpRefusal` if the server says no."""
        sdk = await load_sdk()
        self._users += 1
        try:
            client = await self._connected()
            return await work(client)
        except sdk.MCPError as error:
            raise await self._translated(error) from error
        except sdk.ValidationError as error:
            raise McpRefusal(_breach(error)) from error
        finally:
            self._users -= 1
            self._used_at = time.monotonic()

    async def _translated(self, error: Any) -> Exception:
        name, words = self._place.name, one_line(str(error), _LONGEST_REASON)
        if words.startswith("Request ") and words.endswith(_LATE):
            seconds = self._place.server.timeout
            return Unreachable(f"{name} gave no answer within {seconds:g} s", maybe_done=True)
        if words.startswith(_CUT):
            return Unreachable(f"{name} was cut off in its answer ({words})", maybe_done=True)
        if words in _GONE or _NO_SESSION in words or self._over.is_set():
            self._over.set()
            if self._living is not None:  # it may know why
                await asyncio.wait((self._living,), timeout=_WHY_SECONDS)
            why = self.trouble or words
            return Unreachable(f"{name} was gone before it answered ({why})", maybe_done=True)
        return McpRefusal(words, _to_open(error))

    async def _connected(self) -> Any:
        if self._closed:
            raise UserError(f"{self._place.name} is not used any more.")
        while self._over.is_set() and self._living is not None and not self._living.done():
            await asyncio.wait((self._living,))  # it is leaving
        if self._living is None or self._living.done():
            wait = self._retry_at - time.monotonic()
            if wait > 0:
                raise Unreachable(f"{self.trouble} It is tried again in {wait:.0f} s.", after=wait)
            self._over = asyncio.Event()
            self._ready = asyncio.get_running_loop().create_future()
            self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
            self._living = asyncio.create_task(self._live(self._ready), name=f"mcp {self._place.name}")
        assert self._ready is not None
        return await asyncio.shield(self._ready)

    def reopen(self) -> None:
        """It may be used, also after it was closed."""
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._over.set()
        living = self._living
        if living is not None and not living.done():
            await asyncio.wait((living,), timeout=_CLOSE_SECONDS)
            if not living.done():
                living.cancel()
                await asyncio.wait((living,), timeout=_CLOSE_SECONDS)

    # --- its life ---

    async def _live(self, ready: asyncio.Future[Any]) -> None:
        place, why = self._place, ""
        program = None
        try:
            sdk = await load_sdk()
            seconds = place.server.connect_timeout
            async with asyncio.timeout(seconds) as limit:
                if place.server.url:
                    if place.get_token is not None:
                        await place.get_token("")  # a login that is missing is told in its own words
                    streams = sdk.web_streams(place.server, place.get_token, self._over)
                else:
                    program = sdk.ServerProgram(place.name, place.server, place.backend, self._over)
                    streams = program.streams()
                client = sdk.Client(
                    streams, cache=None, message_handler=self._hear, client_info=sdk.info, **self._callbacks
                )
                async with client:
                    client.session.validate_tool_result = _unjudged
                    await self._list(client)
                    limit.reschedule(None)
                    self._failures, self.trouble, self._used_at = 0, "", time.monotonic()
                    log.info("mcp.connected server=%s protocol=%s", place.name, client.protocol_version)
                    ready.set_result(client)
                    await self._stay(client)
        except asyncio.CancelledError:
            why = "it was stopped"
            raise
        except NeedsLogin as error:
            why = str(error)
        except TimeoutError:
            why = f"it did not answer within {place.server.connect_timeout:g} s"
        except Exception as error:  # the SDK raises what its parts raise, in groups
            why = _reason(error)
        finally:
            self._over.set()
            if program is not None and program.why:
                why = program.why
            self._end(ready, why)

    def _end(self, ready: asyncio.Future[Any], why: str) -> None:
        if ready.done() and not ready.cancelled() and ready.exception() is None:
            self.trouble = why
            log.info("mcp.closed server=%s why=%s", self._place.name, why or "nobody needs it")
            return
        self._failures += 1
        pause = min(_SHORT * 2.0**self._failures, _LONG) if self._failures <= _FEW_FAILURES else _PARKED
        self._retry_at = time.monotonic() + pause
        self.trouble = f"{self._place.name} cannot be used: {why.rstrip('.')}."
        log.warning("mcp.not_connected server=%s failures=%d why=%s", self._place.name, self._failures, why)
        if not ready.done():
            ready.set_exception(Unreachable(self.trouble, offline=True))

    async def _stay(self, client: Any) -> None:
        """Until it is over, idle or too old."""
        server, began = self._place.server, time.monotonic()
        tasks = (
            asyncio.create_task(self._listen(client), name=f"mcp {self._place.name} listens"),
            asyncio.create_task(self._list_again(client), name=f"mcp {self._place.name} lists again"),
        )
        idle, oldest = server.idle_timeout_seconds, server.max_lifetime_seconds
        try:
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(idle or _LOOK_SECONDS, _LOOK_SECONDS)):
                        await self._over.wait()
                now = time.monotonic()
                if self._users:
                    continue
                if (idle and now - self._used_at >= idle) or (oldest and now - began >= oldest):
                    return
        finally:
            self._over.set()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _listen(self, client: Any) -> None:
        """Hear of changes the newer way; where there is none, they come as notifications."""
        sdk = await load_sdk()
        with contextlib.suppress(sdk.MCPError, RuntimeError, TimeoutError):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._stale.set()

    async def _hear(self, message: Any) -> None:
        sdk = await load_sdk()
        if isinstance(message, sdk.ToolListChangedNotification):
            self._stale.set()

    async def _list_again(self, client: Any) -> None:
        """After changes, however many were told of: one list at a time, and not without a pause."""
        sdk = await load_sdk()
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                async with asyncio.timeout(self._place.server.timeout):
                    await self._list(client)
            except (sdk.MCPError, sdk.ValidationError, HermesError, RuntimeError, OSError) as error:
                log.warning("mcp.not_listed server=%s why=%s", self._place.name, _reason(error))
            await asyncio.sleep(_BETWEEN_LISTS)

    async def _list(self, client: Any) -> None:
        """Ask what there is; not more than anybody offers, however much is told."""
        able, tools, cursor = client.server_capabilities, [], None
        for _ in range(_MOST_PAGES if able.tools is not None else 0):
            page = await client.list_tools(cursor=cursor)
            tools += [_definition(tool) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None or len(tools) > MOST_TOOLS:
                break
        listing = Listing(tools=tools, resources=able.resources is not None, prompts=able.prompts is not None)
        await self._listed(listing)


async def _unjudged(name: str, result: Any) -> None:
    """The SDK compares results with the schema that the server gave for them, and a pattern in there, or
    references that multiply, would hold the whole gateway up. The result is data for the model either way."""


def _definition(tool: Any) -> McpDefinition:
    hints = tool.annotations
    return McpDefinition(
        name=tool.name,
        description=tool.description or tool.title or "",
        parameters=tool.input_schema,
        output=tool.output_schema,
        read_only=bool(hints is not None and hints.read_only_hint),
        idempotent=bool(hints is not None and hints.idempotent_hint),
        closed=hints is not None and hints.open_world_hint is False,
    )


def _to_open(error: Any) -> list[dict[str, Any]]:
    """What a server of the older revision wants to be opened first (its error -32042:
    https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error)."""
    told = error.data.get("elicitations") if error.code == -32042 and isinstance(error.data, dict) else None
    return [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []


def _reason(error: BaseException) -> str:
    """The first error of those that came together, in words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, HermesError):
        return str(error)
    if type(error).__name__ == "ValidationError":
        return _breach(error)
    return one_line(describe(error), _LONGEST_REASON)


def _breach(error: Any) -> str:
    """Where an answer is not what the protocol says."""
    place = ".".join(map(str, error.errors()[0]["loc"]))
    return f"what it sends breaks the protocol, at {one_line(place, 120)}"


_loaded: list[SimpleNamespace] = []


async def load_sdk() -> Any:
    """What is used of the SDK. To import it takes a quarter of a second: in a thread, and once."""
    if not _loaded:
        try:
            _loaded.append(await asyncio.to_thread(_import))
        except ImportError as error:
            raise UserError(NOT_INSTALLED, hint="Run: hermes platforms install mcp") from error
    return _loaded[0]


def _import() -> SimpleNamespace:
    importlib.invalidate_caches()  # it may have been installed since
    import mcp_types
    from mcp import Client, MCPError
    from pydantic import ValidationError

    from hermes.execution.mcp.program import ServerProgram
    from hermes.execution.mcp.web import web_streams

    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it prints what servers send, with tracebacks
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    return SimpleNamespace(
        types=mcp_types,
        Client=Client,
        MCPError=MCPError,
        ValidationError=ValidationError,
        ToolListChangedNotification=mcp_types.ToolListChangedNotification,
        ServerProgram=ServerProgram,
        web_streams=web_streams,
        info=mcp_types.Implementation(name="hermes-gateway", version="1"),
    )
