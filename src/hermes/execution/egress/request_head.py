"""A request to the egress proxy, read once and strictly: what two programs could read in two ways is refused.
Pure functions, and the body in pieces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.execution.egress.broker import Headers

_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e]+) HTTP/1\.([01])")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):([0-9]{1,5})")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\r\n]*)?\r\n")
_ONE_CONNECTION = """connection proxy-connection keep-alive proxy-authorization proxy-authenticate te trailer
    transfer-encoding upgrade http2-settings"""
_HOP_BY_HOP = frozenset(_ONE_CONNECTION.split())
_MOST_FIELDS = 100
_MOST_BYTES = 1 << 40
_PIECE = 64 * 1024
CHUNKED = -1


class BadRequest(Exception):
    """What was sent cannot be read in one way only."""


class ProxyRequest(Struct, frozen=True, kw_only=True):
    """`path` is empty for a tunnel (CONNECT). `length` is that of the body, or `CHUNKED`. `headers` are those
    that go on: without what counts for one connection, and without the length."""

    method: str
    scheme: str
    host: str
    port: int
    path: str
    headers: Headers
    length: int = 0
    expects: bool = False
    newer: bool = True


def read_request(head: bytes) -> ProxyRequest:
    """`head` ends with the empty line."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise BadRequest("The first line is not one of HTTP/1.1.")
    fields = _fields(lines)
    newer = line[3] == "1"
    names = [name.lower() for name, _ in fields]
    given = {name.lower(): value for name, value in fields}
    for name in ("host", "content-length", "transfer-encoding"):
        if names.count(name) > 1:
            raise BadRequest(f"It has several headers {name}.")
    length = _length(given, newer)
    if line[1] == "CONNECT":
        if length:
            raise BadRequest("A tunnel has no body of its own.")
        host, port = _authority(line[2])
        return ProxyRequest(method="CONNECT", scheme="", host=host, port=port, path="", headers=())
    scheme, host, port, path = _address(line[2])
    dropped = _HOP_BY_HOP | {token.strip().lower() for token in given.get("connection", "").split(",")}
    dropped |= {"host", "content-length", "expect"}
    return ProxyRequest(
        method=line[1],
        scheme=scheme,
        host=host,
        port=port,
        path=path,
        headers=tuple((name, value) for name, value in fields if name.lower() not in dropped),
        length=length,
        expects=newer and given.get("expect", "").lower() == "100-continue",
        newer=newer,
    )


def kept_headers(raw: Headers) -> Headers:
    """An answer's headers without those that count for one connection, and without the length."""
    listed = [value for name, value in raw if name.lower() == "connection"]
    dropped = _HOP_BY_HOP | {token.strip().lower() for value in listed for token in value.split(",")}
    return tuple((name, value) for name, value in raw if name.lower() not in dropped | {"content-length"})


def _fields(lines: list[str]) -> Headers:
    if len(lines) > _MOST_FIELDS:
        raise BadRequest(f"It has more than {_MOST_FIELDS} headers.")
    fields = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise BadRequest("A header cannot be read.")
        fields.append((field[1], field[2].rstrip(" \t")))
    return tuple(fields)


def _length(given: dict[str, str], newer: bool) -> int:
    length, coding = given.get("content-length"), given.get("transfer-encoding")
    if coding is not None:
        if length is not None or not newer or coding.lower() != "chunked":
            raise BadRequest("Its length is told in a way that is not clear.")
        return CHUNKED
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit() and len(length) < 14 and int(length) <= _MOST_BYTES):
        raise BadRequest("Its length is not a number.")
    return int(length)


def _authority(target: str) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(target)
    if match is None:
        raise BadRequest("A tunnel needs a host and a port.")
    return match[1], int(match[2])


def _address(target: str) -> tuple[str, str, int, str]:
    try:
        parts = urlsplit(target)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = None, "", None
    if parts is None or parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise BadRequest(
            "This is a proxy: the whole address is wanted, as in GET http://example.org/ HTTP/1.1."
        )
    path = parts.path or "/"
    if "#" in target or not path.startswith("/") or "\\" in parts.netloc:
        raise BadRequest("The address cannot be read.")
    query = f"?{parts.query}" if "?" in target else ""
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80), f"{path}{query}"


async def read_body(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    """The body in pieces; `BadRequest` if it ends early."""
    try:
        if length != CHUNKED:
            async for piece in _exactly(reader, length):
                yield piece
            return
        while size := await _chunk_size(reader):
            async for piece in _exactly(reader, size):
                yield piece
            if await reader.readexactly(2) != b"\r\n":
                raise BadRequest("A chunk is longer than it says.")
        for _ in range(_MOST_FIELDS):
            if await reader.readuntil(b"\r\n") == b"\r\n":
                return
        raise BadRequest("It has too many trailers.")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise BadRequest("The body ends early or cannot be read.") from None


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    match = _CHUNK.fullmatch(await reader.readuntil(b"\r\n"))
    if match is None:
        raise BadRequest("A chunk has no size.")
    return int(match[1], 16)


async def _exactly(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length > 0:
        piece = await reader.read(min(length, _PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(piece)
        yield piece
