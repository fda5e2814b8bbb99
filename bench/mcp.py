"""An MCP server: what a call takes beyond the server's own time, and how long its start takes."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

from bench.figure import Figure
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.settings.mcp import McpServer
from hermes.domain.tools.tool import ToolContext
from hermes.execution.mcp.connection import McpPlace, load_sdk
from hermes.execution.mcp.source import McpSource, PinBook
from hermes.state.home.mcp_pins import McpPinFile
from hermes.testing.backends import local_backend

_SERVER = """
import json, sys, time
TOOL = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
ABOUT["serverInfo"] = {"name": "bench", "version": "1"}
for line in sys.stdin:
    began = time.perf_counter()
    asked = json.loads(line)
    if asked.get("id") is None:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = ABOUT
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [TOOL]}
    elif asked["method"] == "tools/call":
        text = {"type": "text", "text": str(time.perf_counter() - began)}
        answer["result"] = {"content": [text]}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""


def measure(folder: Path, quick: bool) -> list[Figure]:
    return asyncio.run(_measure(folder, 100 if quick else 1000))


async def _measure(folder: Path, calls: int) -> list[Figure]:
    await load_sdk()
    (folder / "work").mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    backend = local_backend(home=folder, workspace=folder / "work", environ=environ)
    await backend.open()
    file = McpPinFile(folder, "bench")
    server = McpServer(command=sys.executable, args=("-I", "-S", "-c", _SERVER))
    place = McpPlace(name="bench", server=server, backend=backend)
    source = McpSource(place, PinBook(read=file.read, change=file.change), None)
    await source.open()
    began = time.perf_counter()
    (tool,) = await source.tools()
    start = time.perf_counter() - began
    context = ToolContext(
        agent=MAIN_AGENT,
        session=SessionId("s"),
        turn=TurnId("t"),
        call_id=CallId("c"),
        key="k",
        output=lambda text: None,
    )
    beyond = []
    for _ in range(calls):
        began = time.perf_counter()
        result = await tool.run(context, {})
        beyond.append(time.perf_counter() - began - float(result.text))
    await source.close()
    await backend.close()
    ordered = sorted(beyond)
    return [
        Figure(
            bench="mcp",
            name="a call beyond the server's own time, median",
            value=statistics.median(ordered) * 1e3,
            unit="ms",
            target=5.0,
        ),
        Figure(
            bench="mcp",
            name="the same, 95 of 100",
            value=ordered[int(len(ordered) * 0.95)] * 1e3,
            unit="ms",
            target=5.0,
        ),
        Figure(
            bench="mcp", name="a program started, asked and its tools offered", value=start * 1e3, unit="ms"
        ),
    ]
