"""The HTTP client of a platform: a session that opens at the first call and never again after the end,
network faults as our errors, answers as JSON, files in pieces. Redirects are not followed, for they would
carry the token elsewhere; errors name the kind of trouble and never the address, which may hold a token."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Container, Coroutine, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urljoin, urlsplit

import aiohttp
from msgspec import Struct, field

from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.safety.hosts import leads_inside
from hermes.domain.text import one_line, trouble_told
from hermes.entry.kit.errors import retry_after
from hermes.entry.kit.payload import read_json
from hermes.entry.kit.proxy import is_socks, socks_connector, socks_errors
from hermes.entry.kit.transfer import OutgoingFile, TransferLimit

log = logging.getLogger("hermes.platforms")
_PIECE = 64 * 1024


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """An answer: `answer` is its JSON, or None."""

    status: int
    answer: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""

    @property
    def at(self) -> datetime | None:
        """The time on the other side's clock."""
        try:
            return parsedate_to_datetime(self.headers.get("Date", ""))
        except (ValueError, TypeError):
            return None


class UploadForm(aiohttp.FormData):
    """A form in which the names of files stand as they are, as in a browser's. With aiohttp's own quoting,
    services show `%E6%8A%A5.pdf`."""

    def __init__(self, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(fields or {}, quote_fields=False)

    def add_field(self, name: str, value: Any, *, filename: str | None = None, **more: Any) -> None:
        flat = None if filename is None else one_line(filename, 255)
        super().add_field(name, value, filename=flat, **more)


A = TypeVar("A", bound=HttpAnswer)


class HttpClient(Generic[A]):
    """`service` is what errors call the other side; `answers` is the class of its answers."""

    answer_seconds = 30.0
    upload_seconds = 55.0
    """How long a file may stand still on its way; after a minute the outbox gives an attempt up."""
    most_bytes = 128 * 1024 * 1024
    gone_statuses: Container[int] = range(300, 500)
    """With these a file is not to be had, now or later."""

    def __init__(
        self,
        service: str,
        answers: type[A],
        *,
        proxy: str | None = None,
        open_session: Callable[..., aiohttp.ClientSession] = aiohttp.ClientSession,
    ) -> None:
        self.service = service
        self.proxy = None if is_socks(proxy) else proxy
        self._socks = proxy if is_socks(proxy) else None
        self._not_reached: tuple[type[Exception], ...] = (aiohttp.ClientConnectorError, aiohttp.InvalidURL)
        if self._socks is not None:
            self._not_reached += socks_errors()
        self._broken: tuple[type[Exception], ...] = (aiohttp.ClientError, TimeoutError, *self._not_reached)
        self._not_opened: tuple[type[Exception], ...] = (OSError, *self._broken)
        self._answers = answers
        self._open_session = open_session
        self._session: aiohttp.ClientSession | None = None
        self._asides: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._closed:
            # Who sends while the connection ends would open one that nobody closes.
            raise self._is_closed()
        if self._session is None:
            more = {} if self._socks is None else {"connector": socks_connector(self._socks)}
            self._session = self._open_session(**more)
        return self._session

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for; at the end it has a second."""
        task = asyncio.get_running_loop().create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._asides.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("aside.broke service=%s", self.service, exc_info=task.exception())

    async def close(self) -> None:
        if self._asides:
            await asyncio.wait(self._asides, timeout=1.0)
        for task in self._asides:
            task.cancel()
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        seconds: float | None = None,
        files: Sequence[OutgoingFile] = (),
        **more: Any,
    ) -> A:
        """One request and its whole answer, whatever its status. `files` are those in its body: while they
        move, the time limit grows."""
        quiet = seconds or self.answer_seconds
        quiet = max(quiet, self.upload_seconds) if files else quiet
        limit = aiohttp.ClientTimeout(total=None if files else quiet)
        more = {"proxy": self.proxy, "allow_redirects": False, **more}
        try:
            async with contextlib.AsyncExitStack() as stack:
                if files:
                    growing = await stack.enter_async_context(TransferLimit(quiet))
                    for file in files:
                        file.limit = growing
                response = await stack.enter_async_context(
                    self.session.request(method, url, timeout=limit, **more)
                )
                return self._answer(response, await self.read_body(response))
        except self._not_reached as error:
            raise self.not_reached(error) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            why = f"{self.service} did not answer ({trouble_told(error)})"
            raise Unreachable(why, maybe_done=True) from None
        except RuntimeError:
            if not self._closed:
                raise
            # Closed between two steps of ours.
            raise self._is_closed(maybe_done=True) from None

    async def download(
        self,
        url: str,
        sink: Sink,
        *,
        headers: Mapping[str, str] | None = None,
        refusal: Callable[[A], HermesError | None] | None = None,
        redirects: int = 0,
    ) -> Mapping[str, str]:
        """Put a file into the sink; the headers that it came with. `refusal` says what is wrong with an
        answer, None if it is the file. So many redirects are followed, without the headers, and never away
        from https."""
        never, elsewhere = aiohttp.ClientTimeout(total=None), ""
        try:
            async with (
                TransferLimit(self.answer_seconds) as limit,
                self.session.get(
                    url, headers=headers, timeout=never, proxy=self.proxy, allow_redirects=False
                ) as response,
            ):
                if redirects and response.status in (301, 302, 303, 307, 308):
                    elsewhere = urljoin(url, response.headers.get("Location", ""))
                    unsafe = urlsplit(elsewhere).scheme not in ("https", urlsplit(url).scheme)
                    if unsafe or (leads_inside(elsewhere) and not leads_inside(url)):
                        raise Refused(f"{self.service} sends us to an address for the file that is not safe")
                else:
                    start = b"" if response.status == 200 else await response.content.read(_PIECE)
                    error = (refusal or self._no_file)(self._answer(response, start))
                    if error is not None:
                        raise error
                    async for piece in response.content.iter_any():
                        limit.moved(len(piece))
                        await sink(piece)
        except self._broken as error:
            raise Unreachable(f"The file stopped coming ({trouble_told(error)})") from None
        if elsewhere:
            return await self.download(elsewhere, sink, refusal=refusal, redirects=redirects - 1)
        return response.headers

    async def stream(self, url: str, *, quiet: float) -> AsyncGenerator[bytes, None]:
        """The pieces of an answer that goes on and on, an empty one first; an `Unreachable` when it ends, or
        after so many seconds without a piece."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=self.answer_seconds, sock_read=quiet)
        why = "it ended"
        try:
            async with self.session.get(
                url, timeout=limit, proxy=self.proxy, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise Unreachable(f"{self.service} gives nothing to read (HTTP {response.status})")
                yield b""
                async for piece in response.content.iter_any():
                    yield piece
        except self._broken as error:
            why = trouble_told(error)
        raise Unreachable(f"{self.service} stopped talking ({why})", offline=True)

    async def connect(
        self,
        url: str,
        *,
        heartbeat: float | None = None,
        shows_pongs: bool = False,
        most_bytes: int = 16 * 1024 * 1024,
    ) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket; with a heartbeat a dead one is noticed. `shows_pongs`: who reads sees the answers to
        pings, and has to answer those of the other side."""
        try:
            async with asyncio.timeout(self.answer_seconds):
                return await self.session.ws_connect(
                    url,
                    heartbeat=heartbeat,
                    autoping=not shows_pongs,
                    proxy=self.proxy,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                    max_msg_size=most_bytes,
                )
        except self._not_opened as error:
            raise Unreachable(
                f"{self.service}'s WebSocket cannot be reached ({trouble_told(error)})"
            ) from None

    def not_reached(self, error: Exception) -> HermesError:
        """What it means that no connection came about."""
        return Unreachable(f"{self.service} cannot be reached ({trouble_told(error)})", offline=True)

    def _is_closed(self, *, maybe_done: bool = False) -> Unreachable:
        return Unreachable(f"{self.service}: the connection has ended", maybe_done=maybe_done)

    def _answer(self, response: aiohttp.ClientResponse, raw: bytes) -> A:
        return self._answers(status=response.status, answer=read_json(raw), headers=response.headers, raw=raw)

    async def read_body(self, response: aiohttp.ClientResponse) -> bytes:
        raw = bytearray()
        async for piece in response.content.iter_any():
            raw += piece
            if len(raw) > self.most_bytes:
                raise Unreachable(f"{self.service}'s answer is too long", maybe_done=True)
        return bytes(raw)

    def _no_file(self, answer: A) -> HermesError | None:
        if answer.status == 200:
            return None
        why = f"{self.service} does not give the file (HTTP {answer.status})"
        if answer.status in self.gone_statuses:
            return Refused(why)
        return Unreachable(why, after=retry_after(answer.headers))
