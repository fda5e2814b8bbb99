"""With a proxy of the operator's, requests and tunnels go out through it; names are checked here all the
same, and hosts of the own network are reached without it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.ports.world import WebRequest
from hermes.execution.egress import wire
from hermes.execution.egress.client import EgressClient
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.wire import Wire
from tests.execution.egress_site import HOST, INSIDE, MAIN, Site, open_proxy, open_site, reach, rules, say
from tests.platforms.socks import SocksProxy


class HttpProxy:
    """Leads every request to the site, and notes what it was asked."""

    def __init__(self, site: Site) -> None:
        self.asked: list[str] = []
        self.port = 0
        self._site = site

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            if head.startswith(f"CONNECT {HOST}:1 "):
                writer.write(b"HTTP/1.1 407 No\r\n\r\n")
                return
            there, onward = await asyncio.open_connection("127.0.0.1", self._site.port)
            if head.startswith("CONNECT"):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                onward.write(await reader.readuntil(b"\r\n\r\n"))
            else:
                onward.write(head.encode())
            writer.write(await there.read(65536))
            onward.close()
        finally:
            writer.close()


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    # 127.0.0.1 stands for the open network, so the proxy is used for it.
    monkeypatch.setattr(wire, "is_public", lambda address: address == "127.0.0.1")
    async with open_site() as site:
        yield site


@pytest.fixture
async def proxy(site: Site) -> AsyncIterator[HttpProxy]:
    made = HttpProxy(site)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


async def test_an_http_proxy_is_told_names_that_were_checked(
    site: Site, proxy: HttpProxy, tmp_path: Path
) -> None:
    way = f"http://me:w%20rd@127.0.0.1:{proxy.port}"
    client = EgressClient(EgressParts(reach=reach, wire=lambda: Wire(proxy=way)))
    url = f"http://{HOST}:{site.port}/hello"
    assert (await client.request(WebRequest(url=url))).data == b"hello"
    assert proxy.asked[-1].startswith(f"GET {url} HTTP/1.1\r\n") and "Basic bWU6dyByZA==" in proxy.asked[-1]
    for forbidden in (f"http://{INSIDE}:{site.port}/", "http://127.0.0.2/", "http://gone.example.org/"):
        with pytest.raises(HermesError):
            await client.request(WebRequest(url=forbidden))
    assert len(proxy.asked) == 1
    async with open_proxy(tmp_path / "e", proxy=way) as sandboxes:
        door = await sandboxes.open(MAIN, rules(f"{HOST}:{site.port}"))
        asked = f"CONNECT {HOST}:{site.port} HTTP/1.1\r\n\r\nGET /hello HTTP/1.0\r\n\r\n"
        assert (await say(door, asked.encode(), end=False)).endswith(b"hello")
    assert proxy.asked[-1].startswith(f"CONNECT {HOST}:{site.port} HTTP/1.1\r\n")
    assert "Basic bWU6dyByZA==" in proxy.asked[-1]


async def test_a_proxy_that_refuses_or_is_gone(site: Site, proxy: HttpProxy, tmp_path: Path) -> None:
    for way in (f"http://127.0.0.1:{proxy.port}", "http://127.0.0.1:9", "socks5://127.0.0.1:9"):
        async with open_proxy(tmp_path / "e", proxy=way) as sandboxes:
            door = await sandboxes.open(MAIN, rules(f"{HOST}:1"))
            answer = await say(door, f"CONNECT {HOST}:1 HTTP/1.1\r\n\r\n".encode())
            refused = b" 502 " if way.endswith(":9") else b" 403 "
            assert refused in answer.partition(b"\r\n")[0], answer
    assert not site.seen


async def test_a_socks_proxy_is_told_what_was_checked(site: Site, tmp_path: Path) -> None:
    async with SocksProxy().up() as socks:
        way = f"socks5://127.0.0.1:{socks.port}"
        client = EgressClient(EgressParts(reach=reach, wire=lambda: Wire(proxy=way)))
        assert (await client.request(WebRequest(url=f"http://{HOST}:{site.port}/hello"))).data == b"hello"
        async with open_proxy(tmp_path / "e", proxy=way) as sandboxes:
            door = await sandboxes.open(MAIN, rules(f"{HOST}:{site.port}"))
            asked = f"CONNECT {HOST}:{site.port} HTTP/1.1\r\n\r\nGET /hello HTTP/1.0\r\n\r\n"
            assert (await say(door, asked.encode(), end=False)).endswith(b"hello")
        with pytest.raises(HermesError, match="not the open one"):
            await client.request(WebRequest(url=f"http://{INSIDE}:{site.port}/"))
        assert socks.reached == [HOST, "127.0.0.1"]


async def test_the_own_network_is_reached_without_it(site: Site, proxy: HttpProxy) -> None:
    way = f"http://127.0.0.1:{proxy.port}"
    client = EgressClient(EgressParts(reach=reach, wire=lambda: Wire(proxy=way)))
    with pytest.raises(HermesError, match="did not answer"):  # the listener there only counts
        await client.request(WebRequest(url=f"http://{INSIDE}:{site.port}/", private=True))
    assert site.connections == 1 and not proxy.asked


async def test_an_address_that_says_nothing_is_not_waited_for() -> None:
    """Its queue is full, so the system answers nobody; a refusal is passed over too."""
    silent = socket.socket()
    silent.bind(("127.0.0.2", 0))
    silent.listen(0)
    port = silent.getsockname()[1]
    waiting = [socket.socket() for _ in range(4)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(("127.0.0.2", port))
    good = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.3", port)
    try:
        addresses = ("127.0.0.4", "127.0.0.2", "127.0.0.3")
        reader, writer = await Wire().dial(HOST, port, addresses)
        assert writer.get_extra_info("peername")[0] == "127.0.0.3" and await reader.read() == b""
        writer.close()
        with pytest.raises(Unreachable, match="cannot be reached"):
            await Wire().dial(HOST, port, ("127.0.0.4", "127.0.0.5"))
    finally:
        good.close()
        for each in (silent, *waiting):
            each.close()
