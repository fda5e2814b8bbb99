"""MCP servers over HTTP that behave badly: each costs one sentence, whatever they send."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hermes.domain.clock import SystemClock
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.settings.mcp import McpServer
from hermes.execution.egress.reach import Reach
from hermes.execution.mcp import web as mcp_web
from hermes.execution.mcp.login import log_in
from tests.mcp.bed import bed

Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
TOOL = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}


@contextlib.asynccontextmanager
async def listening(call: Answer, *, session: str = "s1") -> AsyncIterator[str]:
    """A server of the older protocol that answers calls as told."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        asked = await request.json()
        method, ident = asked.get("method"), asked.get("id")
        if ident is None:
            return web.Response(status=202)
        if method == "tools/call":
            return await call(request, asked)
        result: dict[str, Any] | None = {"tools": [TOOL]} if method == "tools/list" else None
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "x", "version": "1"}
        body = {"jsonrpc": "2.0", "id": ident, "result": result}
        if result is None:
            body = {"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "Method not found"}}
        return web.json_response(body, headers={"Mcp-Session-Id": session})

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


async def html(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


async def broken(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=500, text="Traceback (most recent call last): secret")


async def no_json(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text='{"jsonrpc": ', content_type="application/json")


async def elsewhere(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "http://169.254.169.254/latest/meta-data"})


async def forgotten(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    return web.Response(status=404)


async def endless(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b" " * 65536)
    return response


async def endless_events(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b"data: " + b"x" * 65536)
    return response


async def silent(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def cut(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    "call", [html, broken, no_json, elsewhere, forgotten, endless, endless_events, silent, cut]
)
async def test_a_bad_answer_costs_one_sentence(
    tmp_path: Path, call: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_web, "LONGEST_ANSWER", 1 << 20)
    async with listening(call) as url, bed(tmp_path, McpServer(url=url, timeout=2.0)) as server:
        async with asyncio.timeout(60):
            result = await server.call("echo")
        assert result.failed and result.text.startswith("t ") and len(result.text) < 600, result
        assert "\n" not in result.text and "secret" not in result.text
        again = await server.source.connection.use(lambda client: client.list_tools())
        assert [tool.name for tool in again.tools] == ["echo"], "it is reached again"


async def refusing(
    request: web.Request, asked: dict[str, Any], *, status: int = 200, code: int = -32000, words: str
) -> web.StreamResponse:
    """Refuses a call, or answers it late."""
    if asked["params"]["arguments"].get("late"):
        await asyncio.sleep(1.0)
        content = [{"type": "text", "text": "late"}]
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": content}})
    error = {"code": code, "message": words}
    return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "error": error}, status=status)


@pytest.mark.parametrize("code", [-32000, -32001])
async def test_a_refusal_in_a_servers_own_words_hurts_no_other_call(tmp_path: Path, code: int) -> None:
    call = partial(refusing, code=code, words="Rate limited, try in 5 s")
    async with listening(call) as url, bed(tmp_path, McpServer(url=url)) as server:
        await server.tools()
        late = asyncio.create_task(server.call("echo", late=True))
        await asyncio.sleep(0.2)
        refused = await server.call("echo")
        assert refused.text == "t gives no result: Rate limited, try in 5 s" and not refused.unknown
        assert server.source.connection.is_open
        assert (await late).text == "late"


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (404, -32001, "Session not found"),  # the SDKs of TypeScript and C#
        (404, -32600, "Session not found"),  # that of Python
        (400, -32000, "Bad Request: No valid session ID provided"),
    ],
)
async def test_a_session_that_a_server_forgot_is_begun_anew(
    tmp_path: Path, status: int, code: int, words: str
) -> None:
    call = partial(refusing, status=status, code=code, words=words)
    async with listening(call) as url, bed(tmp_path, McpServer(url=url)) as server:
        result = await server.call("echo")
        assert result.failed and "was gone before it answered" in result.text
        assert not server.source.connection.is_open
        assert (await server.call("echo", late=True)).text == "late"


async def test_an_answer_that_is_cut_off_hurts_no_other_call(tmp_path: Path) -> None:
    async def half(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        if asked["params"]["arguments"].get("late"):
            return await refusing(request, asked, words="")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": soon\n\n")
        return response

    async with listening(half) as url, bed(tmp_path, McpServer(url=url)) as server:
        await server.tools()
        late = asyncio.create_task(server.call("echo", late=True))
        await asyncio.sleep(0.2)
        result = await server.call("echo")
        assert result.failed and result.unknown and "t was cut off in its answer" in result.text
        assert (await late).text == "late"


async def test_a_server_that_is_not_there_or_wants_a_token(tmp_path: Path) -> None:
    async def closed(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})

    app = web.Application()
    app.router.add_route("*", "/mcp", closed)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with bed(tmp_path, McpServer(url=f"http://127.0.0.1:{port}/mcp")) as server:
        with pytest.raises(Unreachable, match="t cannot be used"):
            await server.tools()
    await runner.cleanup()
    async with bed(tmp_path, McpServer(url=f"http://127.0.0.1:{port}/mcp")) as server:
        with pytest.raises(Unreachable, match="t cannot be used"):
            await server.tools()


@pytest.mark.parametrize("private", [(), ("localhost",)])
async def test_a_login_is_led_into_no_network_of_ours(private: tuple[str, ...]) -> None:
    asked: list[str] = []
    app, place = web.Application(), ""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            more = f'Bearer resource_metadata="{place.replace("127.0.0.1", "localhost")}/meta-data/iam"'
            return web.Response(status=401, headers={"WWW-Authenticate": more})
        asked.append(f"{request.url.host}{request.path}")
        return web.Response(status=404)

    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    place = f"http://127.0.0.1:{runner.addresses[0][1]}"
    server, now = McpServer(url=f"{place}/mcp", auth="oauth"), SystemClock().now()
    try:
        with pytest.raises(UserError, match="The login at evil failed") as failed:
            await log_in("evil", server, now, reach=Reach(private=private), tell=lambda address: None)
    finally:
        await runner.cleanup()
    assert ("localhost/meta-data/iam" in asked) is bool(private)
    assert ("not the open one" in str(failed.value)) is not bool(private)
