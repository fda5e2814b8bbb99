"""A fake model server on loopback: it speaks our wire formats, each at its address, and misbehaves on demand.

`FakeModelServer(script)` serves inside a test; `python -m hermes.testing.model_server` serves from a
process of its own, so that it outlives the program under test. What is said is in `model_script`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TextIO, assert_never

from aiohttp import web

from hermes.domain.models.usage import Usage
from hermes.testing.model_dialects import CHAT, DIALECTS, Dialect, Write
from hermes.testing.model_script import (
    Call,
    Cut,
    Framing,
    Json,
    ModelRequest,
    Pace,
    RawReply,
    Reply,
    Respond,
    RetryAfter,
    Said,
    Script,
    Then,
    echo,
    failure,
    in_order,
    message_text,
    script_from_json,
)

MAX_REQUEST_BYTES = 256 * 1024 * 1024
CREATED = 1_700_000_000
DELIVERED_BEFORE_RESET = 0.05
"""A reset overtakes bytes the other side has not read yet; this long a pause lets it read them."""

# --- a reply as bytes ----------------------------------------------------------------------------


class Piece(NamedTuple):
    """Bytes of one write, and how long to wait before it."""

    wait: float
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A reply as it goes out; without a length the body is sent in chunks."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterator[Piece]
    length: int | None
    pace: Pace
    cut: Cut | None


def response_to(request: ModelRequest, said: Said, dialect: Dialect = CHAT) -> Response:
    """Turn a reply into status, headers and timed pieces of a body."""
    write = dialect.writer(request.wire if isinstance(request.wire, dict) else {})
    length: int | None = None
    cut = said.cut
    if isinstance(said, Reply) and request.streams and said.streams:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        pieces = _stream(request, said, write, dialect.closing)
        cut = None if said.endless else cut
    else:
        if isinstance(said, RawReply):
            headers, body = _retry_after(said.retry_after, request.at), _error_body(said, dialect)
        else:
            (whole,) = write(_completion(request, said))
            headers, body = {"Content-Type": "application/json"}, _encode(whole)
        pieces = iter([Piece(0.0, body)])
        length = None if cut is not None and cut.then is Then.END else len(body)
    status = said.status if isinstance(said, RawReply) else 200
    headers |= said.headers
    if cut is not None:
        pieces = _until_cut(pieces, cut)
    if isinstance(said, Reply) and said.gzip:
        pieces, length, headers["Content-Encoding"] = _gzipped(pieces), None, "gzip"
    if said.pace.write is not None:
        pieces = _sliced(pieces, said.pace.write)
    return Response(status=status, headers=headers, pieces=pieces, length=length, pace=said.pace, cut=cut)


def _error_body(said: RawReply, dialect: Dialect) -> bytes:
    """An error in the shape of the format; what is no error of ours stays as it is."""
    if dialect.error is None or said.status < 400 or not said.body.startswith(b'{"error"'):
        return said.body
    return _encode(dialect.error(said.status, json.loads(said.body)["error"]))


def _retry_after(told: RetryAfter | None, now: datetime) -> dict[str, str]:
    if told is None:
        return {}
    if told.as_date:
        return {"Retry-After": format_datetime(now + timedelta(seconds=told.seconds), usegmt=True)}
    return {"Retry-After": f"{told.seconds:g}"}


def _until_cut(pieces: Iterator[Piece], cut: Cut) -> Iterator[Piece]:
    whole = list(pieces)
    left = cut.position(b"".join(piece.data for piece in whole))
    for piece in whole:
        if left <= 0:
            return
        yield piece._replace(data=piece.data[:left])
        left -= len(piece.data)


def _gzipped(pieces: Iterator[Piece]) -> Iterator[Piece]:
    squeeze = zlib.compressobj(wbits=31)
    for piece in pieces:
        yield piece._replace(data=squeeze.compress(piece.data) + squeeze.flush(zlib.Z_SYNC_FLUSH))
    yield Piece(0.0, squeeze.flush())


def _sliced(pieces: Iterator[Piece], size: int) -> Iterator[Piece]:
    for piece in pieces:
        for start in range(0, len(piece.data), size):
            yield Piece(0.0 if start else piece.wait, piece.data[start : start + size])


# --- a reply as OpenAI's objects -------------------------------------------------------------------


def _encode(data: Json, *, indent: int | None = None) -> bytes:
    try:
        return json.dumps(data, ensure_ascii=False, indent=indent).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8 form; JSON can still carry it as an escape.
        return json.dumps(data, indent=indent).encode()


def _warped(reply: Reply, data: Json) -> Json:
    return reply.warp(data) if reply.warp else data


def _envelope(request: ModelRequest, kind: str) -> Json:
    identity = f"chatcmpl-{request.number:06}"
    return {"id": identity, "object": kind, "created": CREATED, "model": request.model}


def _usage(request: ModelRequest, reply: Reply) -> Json:
    asked = sum(len(message_text(one).split()) for one in request.messages)
    said = len((reply.text or "").split()) + len(reply.calls)
    thought = len(reply.reasoning.split())
    used = reply.usage or Usage(prompt=asked, completion=said + thought, reasoning=thought)
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.prompt + used.completion,
        "prompt_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": used.cache_written},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }


def _completion(request: ModelRequest, reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.details:
        message["reasoning_details"] = list(reply.details)
    if reply.calls:
        message["tool_calls"] = [_call_opening(call) for call in reply.calls]
        for sent, call in zip(message["tool_calls"], reply.calls, strict=True):
            sent["function"]["arguments"] = call.arguments
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}
    said = {"choices": [choice], "usage": _usage(request, reply)}
    return _warped(reply, _envelope(request, "chat.completion") | said)


def _call_opening(call: Call) -> Json:
    function = {"name": call.name, "arguments": "" if isinstance(call.arguments, str) else call.arguments}
    identity = {} if call.id is None else {"id": call.id}
    return {**identity, "type": "function", "function": function}


def _deltas(reply: Reply) -> Iterator[Json]:
    split = reply.pace.split
    yield {"role": "assistant", "content": None if reply.text is None else ""}
    for piece in split(reply.reasoning):
        yield {"reasoning_content": piece}
    for detail in reply.details:
        yield {"reasoning_details": [detail]}
    for piece in split(reply.text or ""):
        yield {"content": piece}
    for index, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": index, **_call_opening(call)}]}
        for piece in split(call.arguments if isinstance(call.arguments, str) else ""):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _stream(request: ModelRequest, reply: Reply, write: Write, closing: bytes) -> Iterator[Piece]:
    framing = reply.framing
    opening = framing.opening
    not_yet = {"usage": None} if request.wants_usage else {}

    def event(*choices: Json, **more: object) -> bytes:
        chunk = _envelope(request, "chat.completion.chunk") | {"choices": list(choices)} | more
        return b"".join(framing.before_each + _event(told, framing) for told in write(_warped(reply, chunk)))

    def spoken(delta: Mapping[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish}
        return event(choice, **not_yet)

    for number, delta in enumerate(_deltas(reply)):
        yield Piece(reply.pace.between if number else 0.0, opening + spoken(delta))
        opening = b""
        if number == 1 and framing.junk:
            yield Piece(0.0, framing.junk)
    if reply.endless is not None:
        told = reply.endless.delta
        again = b": keep-alive\n\n" if told is None else spoken(told)
        yield from repeat(Piece(reply.endless.between, again))
    if reply.finish_reason is not None:
        yield Piece(reply.pace.between, spoken({}, reply.finish_reason))
    if request.wants_usage:
        yield Piece(0.0, event(usage=_usage(request, reply)))
    if framing.done:
        last = b"".join(framing.before_each + _event(told, framing) for told in write(None))
        mark = framing.before_each + framing.prefix + closing + framing.newline * 2 if closing else b""
        yield Piece(0.0, last + mark)


def _event(told: Json, framing: Framing) -> bytes:
    """One event, with its name if it has one."""
    lines = _encode(told, indent=1 if framing.lines_per_event == "many" else None).split(b"\n")
    name = b"event: " + told["type"].encode() + framing.newline if "type" in told else b""
    return name + b"".join(framing.prefix + line + framing.newline for line in lines) + framing.newline


# --- the server ----------------------------------------------------------------------------------


class Ended(StrEnum):
    """How an exchange ended: said in full, cut by its script, the client went away, the server closed."""

    SENT = "sent"
    CUT = "cut"
    CLIENT_LEFT = "client_left"
    SERVER_CLOSED = "server_closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What became of the request of that number. Without a status not even headers were sent."""

    request: int
    ended: Ended
    status: int | None
    body_bytes: int
    at: datetime


class FakeModelServer:
    """Serves while its `async with` block runs; `requests` and `exchanges` tell what happened. A second
    block serves again on the same port, as a server that was restarted."""

    def __init__(
        self,
        script: Script = echo,
        *,
        key: str | None = None,
        models: Sequence[str] = ("fake-model",),
        port: int = 0,
        log: Path | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self._dialects = DIALECTS.values() if dialect is None else (dialect,)
        self._respond: Respond = script if callable(script) else in_order(script)
        self._key = key
        self._models = tuple(models)
        self._port = port
        self._log_path = log
        self._log: TextIO | None = None
        self._runner: web.AppRunner | None = None
        self._running: dict[asyncio.Task[Any], web.Request] = {}
        self._closing = False
        self.requests: list[ModelRequest] = []
        self.exchanges: list[Exchange] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        self._closing = False
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self._port = int(runner.addresses[0][1])
            if self._log_path is not None:
                self._log = self._log_path.open("a", encoding="utf-8", buffering=1)
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        for task, request in self._running.items():
            # Not close(): that waits for a client which may never read what is still buffered.
            if request.transport is not None:
                request.transport.abort()
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running))
        if self._runner is not None:
            await self._runner.cleanup()
        await asyncio.sleep(0)  # Transports close their sockets one turn of the loop later.
        if self._log is not None:
            self._log.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = request
        try:
            seen = await self._record(request)
            return await self._send(request, seen)
        finally:
            del self._running[task]

    async def _record(self, request: web.Request) -> ModelRequest:
        raw = await request.read()
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        wire, dialect = body, self._dialect(request.path)
        if isinstance(body, dict) and dialect is not None:
            body = dialect.read(body)
        seen = ModelRequest(
            number=len(self.requests) + 1,
            method=request.method,
            path=request.path_qs,
            headers=request.headers,
            body=body,
            wire=wire,
            raw=raw,
            at=datetime.now(UTC),
        )
        self.requests.append(seen)
        told = {name: getattr(seen, name) for name in ("number", "method", "path", "body", "at")}
        self._write_log("request", told | {"headers": _shown(seen.headers)})
        return seen

    def _dialect(self, path: str) -> Dialect | None:
        return next((dialect for dialect in self._dialects if path.startswith(dialect.path)), None)

    def _answer(self, request: ModelRequest) -> Said:
        path = request.path.partition("?")[0]
        dialect = self._dialect(path)
        if not path.startswith("/v1/"):
            return failure(404, f"Unknown path {path}")
        if self._key is not None and (dialect or CHAT).key(request.headers) != self._key:
            return failure(401, "Incorrect API key provided", code="invalid_api_key")
        if dialect is not None:
            if request.method != "POST":
                return failure(405, f"Not allowed to {request.method} here")
            if not request.messages:
                return failure(400, "The body must be a JSON object with messages")
            fault = dialect.fault(request.wire)
            if fault:
                return failure(400, fault)
            return self._respond(request)
        if request.method == "GET" and path == "/v1/models":
            return _model_list(self._models)
        return failure(404, f"Unknown path {path}")

    async def _send(self, request: web.Request, seen: ModelRequest) -> web.StreamResponse:
        dialect = self._dialect(request.path)
        response = response_to(seen, self._answer(seen), dialect or CHAT)
        progress = _Progress()
        ended = Ended.CLIENT_LEFT
        try:
            out = await _write(request, response, progress)
            ended = Ended.SENT if response.cut is None else Ended.CUT
            return out
        finally:
            if self._closing and ended is Ended.CLIENT_LEFT:
                ended = Ended.SERVER_CLOSED
            exchange = Exchange(
                request=seen.number,
                ended=ended,
                status=progress.status,
                body_bytes=progress.body_bytes,
                at=datetime.now(UTC),
            )
            self.exchanges.append(exchange)
            self._write_log("exchange", asdict(exchange))

    def _write_log(self, what: str, fields: Mapping[str, object]) -> None:
        if self._log is not None:
            self._log.write(json.dumps({"what": what, **fields}, default=datetime.isoformat) + "\n")


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    secret = ("authorization", "x-api-key")
    return {name: "***" if name.lower() in secret else text for name, text in headers.items()}


def _model_list(names: Sequence[str]) -> RawReply:
    made = {"object": "model", "created": CREATED, "owned_by": "hermes-testing"}
    body = _encode({"object": "list", "data": [{"id": name, **made} for name in names]})
    return RawReply(body=body, headers={"Content-Type": "application/json"})


@dataclass(slots=True, kw_only=True)
class _Progress:
    """How far a response came: no status before its headers are out."""

    status: int | None = None
    body_bytes: int = 0


async def _write(request: web.Request, response: Response, progress: _Progress) -> web.StreamResponse:
    out = web.StreamResponse(status=response.status, headers=response.headers)
    out.content_length = response.length
    await asyncio.sleep(response.pace.first_byte)
    if response.cut is None or response.cut.after is not None:
        await out.prepare(request)
        progress.status = response.status
        for piece in response.pieces:
            # Also without a wait: an endless stream must not keep the loop to itself.
            await asyncio.sleep(piece.wait)
            await out.write(piece.data)
            progress.body_bytes += len(piece.data)
    if response.cut is None or response.cut.then is Then.END:
        await out.write_eof()
    else:
        await _break_off(request, response.cut.then)
    return out


async def _break_off(request: web.Request, then: Literal[Then.CLOSE, Then.RESET, Then.STALL]) -> None:
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    match then:
        case Then.CLOSE:
            transport.close()
        case Then.STALL:
            await asyncio.Event().wait()
        case Then.RESET:
            await asyncio.sleep(DELIVERED_BEFORE_RESET)
            without_goodbye = struct.pack("ii", 1, 0)
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, without_goodbye)
            transport.abort()
        case _:
            assert_never(then)


@contextmanager
def refusing_address() -> Iterator[str]:
    """A base address whose connections are refused. The port stays taken, so nobody else answers there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


@contextmanager
def unreachable_address() -> Iterator[str]:
    """A base address whose connections are never made: the queue of those waiting to be accepted is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


# --- a process of its own --------------------------------------------------------------------------


async def _serve_until_told(server: FakeModelServer) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with server:
        print(server.base_url, flush=True)
        await told.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the base address on one line and serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="hermes.testing.model_server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--script", type=Path, help="JSON file, see script_from_json; default: echo")
    parser.add_argument("--log", type=Path, help="append each request and exchange to this JSON-lines file")
    parser.add_argument("--key", help="demand this bearer key")
    parser.add_argument("--model", action="append", help="a model to list; may be given again")
    given = parser.parse_args(arguments)
    try:
        script = script_from_json(json.loads(given.script.read_text("utf-8"))) if given.script else echo
    except (OSError, ValueError) as error:
        parser.error(f"{given.script}: {error}")
    models = given.model or ("fake-model",)
    server = FakeModelServer(script, key=given.key, models=models, port=given.port, log=given.log)
    asyncio.run(_serve_until_told(server))
    return 0


if __name__ == "__main__":
    sys.exit(main())
