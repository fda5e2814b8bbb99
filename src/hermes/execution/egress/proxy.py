"""The way of sandboxes to the hosts that they may reach: an HTTP proxy on Unix sockets, one for each agent
and set of rules. CONNECT opens a tunnel; a whole http:// address is fetched. What is not listed gets a 403.

A connection has one request: read whole and strictly, checked, answered, closed. To a host with a secret of
the broker, http:// goes out over TLS, with the value in it; the answer comes back without it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import NetworkRules
from hermes.domain.safety.hosts import is_listed, read_host
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.egress.broker import BODY, PREFIX, AgentBroker, Hidden, Mask, Outgoing
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.request_head import (
    BadRequest,
    ProxyRequest,
    kept_headers,
    read_body,
    read_request,
)
from hermes.execution.egress.wire import IDLE_SECONDS, Streams, WireRequest

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger("hermes.egress")
PORTS = (80, 443)
"""Those of a host that is listed without one."""
MOST_CONNECTIONS = 256
HEAD_SECONDS = 20.0
_BACKLOG = 1024
_HEAD_BYTES = 32 * 1024
_FILLED_BODY_BYTES = 1 << 20
_PIECE = 64 * 1024
_NO_BODY = (204, 304)
_REASONS = {400: "Bad Request", 403: "Forbidden", 408: "Request Timeout", 502: "Bad Gateway", 503: "Busy"}


class SandboxProxy:
    """Lives as long as the gateway. `folder` is for its sockets alone, and for nobody else."""

    def __init__(self, folder: Path, around: EgressParts) -> None:
        self._folder = folder
        self._around = around
        self._doors: dict[Path, _Door] = {}
        self._opening = asyncio.Lock()
        self.counts: Counter[str] = Counter()
        """How many requests were let through, refused, not understood, not reached."""

    async def open(self, agent: AgentId, rules: NetworkRules) -> Path:
        """The socket that leads to the hosts of the rules. It has a folder of its own, which may be bound
        into a sandbox: after a restart of the gateway a new socket is found there."""
        words = "\0".join((agent, *sorted(rules.hosts), *(("*",) if rules.open else ())))
        path = self._folder / sha256(words.encode()).hexdigest()[:12] / "s"
        async with self._opening:
            if path not in self._doors:
                door = _Door(agent, rules, self._around, self.counts)
                await door.open(path)
                self._doors[path] = door
        return path

    async def close(self) -> None:
        doors, self._doors = self._doors, {}
        for path, door in doors.items():
            await door.close()
            with contextlib.suppress(OSError):
                path.unlink()
                path.parent.rmdir()


class _Door:
    """One socket, and who is connected to it."""

    def __init__(
        self, agent: AgentId, rules: NetworkRules, around: EgressParts, counts: Counter[str]
    ) -> None:
        self._agent = agent
        self._rules = rules
        self._around = around
        self._counts = counts
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, path: Path) -> None:
        await asyncio.to_thread(_make_room, path)
        self._server = await asyncio.start_unix_server(
            self._connected, path, limit=_HEAD_BYTES, backlog=_BACKLOG
        )
        os.chmod(path, 0o666)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, writer))

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._tasks.discard(task)
        writer.close()
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError | TimeoutError):  # else it fell silent
            log.error("proxy.broke agent=%s", self._agent, exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) > MOST_CONNECTIONS:
            await _say(writer, 503, "There are too many connections to the proxy.")
            return
        request = None
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            request = read_request(head)
            await self._answer(request, reader, writer)
        except TimeoutError:
            await _say(writer, 408, "The request did not come in time.")
        except asyncio.IncompleteReadError:
            return
        except (BadRequest, asyncio.LimitOverrunError) as error:
            self._counts["not_understood"] += 1
            words = str(error) if isinstance(error, BadRequest) else "Its headers are too long."
            await _say(writer, 400, words)
        except HermesError as error:
            assert request is not None
            status, kind = (403, "refused") if isinstance(error, Refused) else (502, "not_reached")
            self._counts[kind] += 1
            host = one_line(request.host, 100)
            log.info("proxy.%s agent=%s host=%s port=%d", kind, self._agent, host, request.port)
            await _say(writer, status, str(error))

    async def _answer(
        self, request: ProxyRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        broker = self._around.broker(self._agent)
        tunnel = request.method == "CONNECT"
        host, port, tls = self._place(request, broker)
        if not self._rules.open and not is_listed(host, port, self._rules.hosts, PORTS):
            raise Refused(
                f"{one_line(host, 100)}:{port} is not among the hosts that this sandbox may reach"
                f" ({self._rules})."
            )
        if tunnel and broker.serves(host, port):
            raise Refused(
                f"{host}:{port} has a secret of the broker, and nobody could look for it in a tunnel."
                " Write the address with http://: it goes out over TLS."
            )
        addresses = await self._around.reach().pin(host, port, any_port=not self._rules.open)
        if tunnel:
            onward = await self._around.wire().to(addresses).dial(host, port, addresses)
            self._counts["let_through"] += 1
            await _tunnel((reader, writer), onward)
            return
        usual = port == (443 if tls else 80)
        place = f"[{host}]" if ":" in host else host
        place = place if usual else f"{place}:{port}"
        outgoing = Outgoing(
            host=host,
            port=port,
            tls=tls,
            url=f"{'https' if tls else 'http'}://{place}{request.path}",
            headers=(("Host", place), *request.headers),
        )
        await self._relay(request, outgoing, addresses, broker, (reader, writer))

    def _place(self, request: ProxyRequest, broker: AgentBroker) -> tuple[str, int, bool]:
        """Where a request goes. Whoever has a secret is reached by TLS alone."""
        try:
            host = read_host(request.host)
        except ValueError:
            raise Refused(f"“{one_line(request.host, 100)}” is not the name of a host.") from None
        if request.method == "CONNECT" or request.scheme == "https":
            return host, request.port, True
        port = 443 if request.port == 80 else request.port
        return (host, port, True) if broker.serves(host, port) else (host, request.port, False)

    async def _relay(
        self,
        request: ProxyRequest,
        outgoing: Outgoing,
        addresses: tuple[str, ...],
        broker: AgentBroker,
        client: Streams,
    ) -> None:
        reader, writer = client
        brokered = broker.serves(outgoing.host, outgoing.port)
        answer = _AnswerWriter(writer, request, outgoing.url.split("/")[2] if brokered else "")
        if request.expects and request.length:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if brokered:  # an answer that is compressed could repeat a value unseen
            kept = tuple(pair for pair in outgoing.headers if pair[0].lower() != "accept-encoding")
            outgoing = replace(outgoing, headers=(*kept, ("Accept-Encoding", "identity")))
        try:
            async with asyncio.timeout(IDLE_SECONDS) as idle:
                pieces = _noted(read_body(reader, request.length), idle)
                body: bytes | AsyncIterator[bytes] = b""
                if request.length and BODY in broker.places(outgoing.host, outgoing.port):
                    outgoing = replace(outgoing, body=await _whole(pieces))
                elif request.length:
                    body = _without_placeholders(pieces, outgoing.host)
                filled = broker.fill(outgoing)
                wired = WireRequest(
                    method=request.method,
                    url=filled.request.url,
                    host=outgoing.host,
                    addresses=addresses,
                    headers=filled.request.headers,
                    body=filled.request.body or body,
                    length=len(filled.request.body) or (request.length if request.length > 0 else None),
                )
                await self._exchange(wired, answer, filled.hidden, idle)
        except (HermesError, TimeoutError) as error:
            if answer.begun:
                answer.abort()  # a half answer must not look like a whole one
            elif isinstance(error, TimeoutError):
                raise Unreachable("Nothing moved for too long.") from None
            else:
                raise

    async def _exchange(
        self, wired: WireRequest, answer: _AnswerWriter, hidden: Hidden, idle: asyncio.Timeout
    ) -> None:
        async with self._around.wire().to(wired.addresses).exchange(wired) as response:
            await answer.head(response, hidden)
            self._counts["let_through"] += 1
            async for piece in _noted(response.content.iter_any(), idle):
                await answer.piece(piece)
            await answer.end()


class _AnswerWriter:
    """An answer on its way back, in chunks unless its length is the same as before. `back` is a host that was
    asked for without TLS: a redirect to itself stays so."""

    def __init__(self, writer: asyncio.StreamWriter, request: ProxyRequest, back: str) -> None:
        self._writer = writer
        self._request = request
        self._mask: Mask | None = None
        here = back and request.scheme == "http"
        self._secure, self._plain = f"https://{back}/", f"http://{back}/" if here else ""
        self._chunked = False
        self.begun = False

    async def head(self, response: aiohttp.ClientResponse, hidden: Hidden) -> None:
        self._mask = Mask(hidden) if hidden else None
        if self._mask and response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Unreachable("It answered in an encoding that cannot be looked into for secrets.")
        raw = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers)
        lines = [f"HTTP/1.1 {response.status} {one_line(response.reason or '', 60)}"]
        for name, value in kept_headers(raw):
            if name.lower() == "location" and self._plain and value.startswith(self._secure):
                value = self._plain + value.removeprefix(self._secure)
            lines.append(f"{name}: {value}")
        length = response.headers.get("Content-Length")
        bodiless = self._request.method == "HEAD" or response.status in _NO_BODY
        if length is not None and (self._mask is None or bodiless):
            lines.append(f"Content-Length: {length}")
        elif not bodiless and self._request.newer:
            self._chunked = True
            lines.append("Transfer-Encoding: chunked")
        data = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
        self.begun = True
        self._writer.write(data if self._mask is None else self._mask.replace(data))
        await self._writer.drain()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def piece(self, piece: bytes) -> None:
        await self._put(piece if self._mask is None else self._mask.feed(piece))

    async def end(self) -> None:
        if self._mask is not None:
            await self._put(self._mask.end())
        if self._chunked:
            self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _put(self, piece: bytes) -> None:
        if piece:
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)
            await self._writer.drain()


def _make_room(path: Path) -> None:
    """The folder above is the gateway's alone; in a sandbox, where the lower one is bound in, the user may be
    another one."""
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.parent.chmod(0o700)
    path.parent.mkdir(mode=0o711, exist_ok=True)
    path.parent.chmod(0o711)
    path.unlink(missing_ok=True)


async def _tunnel(client: Streams, onward: Streams) -> None:
    """Bytes in both directions, until the other side has ended or nothing moved for a while."""
    loop = asyncio.get_running_loop()
    client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    sending = None
    try:
        async with asyncio.timeout(IDLE_SECONDS) as idle:

            async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with contextlib.suppress(OSError):
                    while piece := await reader.read(_PIECE):
                        idle.reschedule(loop.time() + IDLE_SECONDS)
                        writer.write(piece)
                        await writer.drain()
                    writer.write_eof()

            sending = loop.create_task(copy(client[0], onward[1]))
            await copy(onward[0], client[1])
    except TimeoutError:
        pass  # the connection ends; who uses it sees that
    finally:
        if sending is not None:
            sending.cancel()
        onward[1].close()


async def _noted(pieces: AsyncIterator[bytes], idle: asyncio.Timeout) -> AsyncIterator[bytes]:
    """The same pieces; each puts off the end of a connection on which nothing moves."""
    async for piece in pieces:
        idle.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)
        yield piece


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > _FILLED_BODY_BYTES:
            raise Refused(f"A body with a secret in it has at most {_FILLED_BODY_BYTES:,} bytes.")
    return bytes(data)


async def _without_placeholders(pieces: AsyncIterator[bytes], host: str) -> AsyncIterator[bytes]:
    """The body as it is; `Refused` once a placeholder is in it."""
    sought, tail = PREFIX.encode(), b""
    async for piece in pieces:
        if sought in tail + piece:
            log.warning("broker.refused host=%s place=body", host)
            raise Refused(f"A placeholder for a secret was not sent to {host}: it stands in the body.")
        tail = (tail + piece)[1 - len(sought) :]
        yield piece


async def _say(writer: asyncio.StreamWriter, status: int, words: str) -> None:
    data = f"{one_line(words, 500)}\n".encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + data)
    await writer.drain()
