"""Addresses from outside lead to the open network alone, also by redirects and names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hermes.domain.errors import UserError
from hermes.execution.egress.client import MOST_REDIRECTS, EgressClient


async def page(request: web.Request) -> web.StreamResponse:
    match request.path:
        case "/hello":
            return web.Response(text="hello", headers={"Set-Cookie": "a=b"})
        case "/cookie":
            return web.Response(text=request.headers.get("Cookie", "none"))
        case "/large":
            return web.Response(body=b"x" * 100_000)
        case "/round":
            return web.Response(status=302, headers={"Location": "/round"})
        case "/inside":
            return web.Response(status=302, headers={"Location": request.query["to"]})
        case "/slow":
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(100):
                await response.write(b"a")
                await asyncio.sleep(0.05)
            return response
    return web.Response(status=302, headers={"Location": "/hello"})


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_get("/{tail:.*}", page)
    async with TestServer(app) as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[EgressClient]:
    """One that takes 127.0.0.1 for the open network, and nothing else."""
    client = EgressClient(lambda host: host == "127.0.0.1")
    yield client
    await client.close()


async def test_a_page_and_a_redirect(server: TestServer, client: EgressClient) -> None:
    url = f"http://127.0.0.1:{server.port}"
    fetched = await client.fetch(f"{url}/moved")
    assert (fetched.url, fetched.status, fetched.data) == (f"{url}/hello", 200, b"hello")
    assert fetched.mime == "text/plain"
    assert (await client.fetch(f"{url}/cookie")).data == b"none"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://１２７.０.０.１/",
        "http://①②⑦.⓪.⓪.①/",
        "http://127.0.0.１/",
        "http://127。0。0。1/",
        "http://0x7f.1/",
        "http://127.1./",
        "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
        "http://10.0.0.1/",
        "http://printer.local/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "http://user:password@example.com/",
        "http://user@example.com/",
        "https://",
        "http://[::1",
        "nonsense",
        "",
    ],
)
async def test_what_is_not_fetched(url: str) -> None:
    client = EgressClient()
    with pytest.raises(UserError, match="was not fetched"):
        await client.fetch(url, seconds=5)
    await client.close()


async def test_a_name_that_leads_inside(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp import ThreadedResolver

    async def resolve(self: object, host: str, port: int = 0, family: int = 0) -> list[dict[str, object]]:
        plain = {"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}
        return [plain]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    client = EgressClient()
    with pytest.raises(UserError, match="not the open one"):
        await client.fetch(f"http://example.com:{server.port}/hello")
    await client.close()


async def test_a_redirect_that_leads_inside(server: TestServer, client: EgressClient) -> None:
    for target in (
        "http://127.0.0.2/",
        "http://１２７.０.０.２/",
        "http://[::1]/",
        "file:///etc/passwd",
        "//10.0.0.1/x",
    ):
        with pytest.raises(UserError, match="was not fetched"):
            await client.fetch(f"http://127.0.0.1:{server.port}/inside?to={target}")


async def test_limits(server: TestServer, client: EgressClient) -> None:
    url = f"http://127.0.0.1:{server.port}"
    with pytest.raises(UserError, match="more than 1,000 bytes"):
        await client.fetch(f"{url}/large", limit=1000)
    with pytest.raises(UserError, match=f"more than {MOST_REDIRECTS} times"):
        await client.fetch(f"{url}/round")
    with pytest.raises(UserError, match=r"no answer within 0\.3 s"):
        await client.fetch(f"{url}/slow", seconds=0.3)
