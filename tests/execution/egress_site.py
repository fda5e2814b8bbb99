"""A site on loopback that stands for the open network, with and without TLS, and records what reaches it; and
what the egress needs to find it: names that lead there, and trust in its certificate."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import Struct

from hermes.domain.ids import AgentId
from hermes.domain.ports.world import NetworkRules
from hermes.domain.safety.hosts import is_public
from hermes.execution.egress.broker import AgentBroker
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.proxy import SandboxProxy
from hermes.execution.egress.reach import Reach
from hermes.execution.egress.wire import Wire

HOST, OTHER, INSIDE = "api.example.org", "other.example.net", "inside.example.org"
NAMES = {
    HOST: "127.0.0.1",
    OTHER: "127.0.0.1",
    INSIDE: "127.0.0.2",
    "metadata.example.org": "169.254.169.254",
}


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server, and for whoever trusts it."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},DNS:{OTHER}",
            "-keyout", str(key), "-out", str(cert),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    return serving, ssl.create_default_context(cafile=str(cert))


async def look_up(name: str, port: int) -> Sequence[str]:
    if name not in NAMES:
        raise OSError("not known")
    return [NAMES[name]]


def is_open(address: str) -> bool:
    """127.0.0.1 stands for the open network."""
    return address == "127.0.0.1" or is_public(address)


class Seen(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    tls: bool


class Site:
    """Answers what the path says."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.kept = ""
        """What an earlier request left there."""
        self.port = 0
        self.tls_port = 0
        self.connections = 0
        """To 127.0.0.2, where nobody may come."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        tls = request.secure
        self.seen.append(
            Seen(method=request.method, path=request.path_qs, headers=headers, body=body, tls=tls)
        )
        match request.path:
            case "/hello":
                return web.Response(text="hello", headers={"Set-Cookie": "a=b"})
            case "/echo":
                said = "\n".join(f"{name}: {value}" for name, value in headers.items())
                return web.Response(text=f"{request.path_qs}\n{said}\n{body.decode('latin-1')}")
            case "/kept":
                return web.Response(text=self.kept)
            case "/pieces":  # what was authorized, a byte at a time
                response = web.StreamResponse(headers={"X-Echo": headers.get("authorization", "")})
                await response.prepare(request)
                for char in headers.get("authorization", "").encode():
                    await response.write(bytes([char]))
                return response
            case "/to":
                return web.Response(
                    status=int(request.query.get("s", "302")), headers={"Location": request.query["u"]}
                )
            case "/large":
                return web.Response(body=b"x" * 3_000_000)
            case "/gzip":
                return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
        return web.Response(status=404)

    async def wait(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


@asynccontextmanager
async def open_site(serving: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    site = Site()
    app = web.Application(client_max_size=1 << 28)
    app.router.add_route("*", "/{tail:.*}", site.answer)
    async with TestServer(app) as plain:
        site.port = plain.port or 0
        forbidden = await asyncio.start_server(site.wait, "127.0.0.2", site.port)
        try:
            if serving is None:
                yield site
                return
            secure = TestServer(app, scheme="https")
            await secure.start_server(ssl=serving)
            site.tls_port = secure.port or 0
            try:
                yield site
            finally:
                await secure.close()
        finally:
            forbidden.close()


def reach() -> Reach:
    return Reach(look_up=look_up, is_open=is_open)


@asynccontextmanager
async def open_proxy(
    folder: Path, broker: AgentBroker | None = None, trust: ssl.SSLContext | None = None, proxy: str = ""
) -> AsyncIterator[SandboxProxy]:
    brokers = {"main": broker or AgentBroker()}
    around = EgressParts(
        reach=reach,
        wire=lambda: Wire(tls=trust, proxy=proxy),
        broker=lambda agent: brokers.get(agent) or AgentBroker(agent),
    )
    made = SandboxProxy(folder, around)
    try:
        yield made
    finally:
        await made.close()


MAIN = AgentId("main")


def rules(*hosts: str) -> NetworkRules:
    return NetworkRules(hosts=hosts)


async def say(path: Path, data: bytes, *, end: bool = True) -> bytes:
    """Send bytes to the proxy and read all that comes back."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()
