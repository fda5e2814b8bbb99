"""MCP servers for tests: a source in a backend of this machine, and its tools by the server's own names."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.ports.world import Backend, Media
from hermes.domain.settings.mcp import McpServer
from hermes.domain.tools.mcp import tool_name
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.execution.mcp.connection import McpPlace
from hermes.execution.mcp.source import McpSource, PinBook
from hermes.state.home.mcp_pins import McpPinFile
from hermes.testing.backends import local_backend

HERE = Path(__file__).parent
NAME = "t"


def sdk_server(behave: str = "", **more: Any) -> McpServer:
    """The server that is made with the SDK."""
    env = json.dumps({"BEHAVE": behave, **more.pop("env", {})})
    return McpServer(command=sys.executable, args=(str(HERE / "servers.py"),), env=env, **more)


def plain_server(how: str = "", **more: Any) -> McpServer:
    """The small one, which starts fast and misbehaves."""
    env = json.dumps(more.pop("env", {}))
    args = ("-I", "-S", str(HERE / "plain_server.py"), how)
    return McpServer(command=sys.executable, args=args, env=env, **more)


@dataclass
class Bed:
    source: McpSource
    pins: McpPinFile
    output: list[str] = field(default_factory=list)

    async def tools(self) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in await self.source.tools()}

    async def call(self, tool: str, /, **arguments: object) -> ToolResult:
        return await self.answer(tool, None, **arguments)

    async def answer(self, tool_: str, answer: tuple[str, str] | None, /, **arguments: object) -> ToolResult:
        tool = (await self.tools())[tool_name(NAME, tool_)]
        return await tool.run(self.context(answer), arguments)

    def context(self, answer: tuple[str, str] | None = None, **more: Any) -> ToolContext:
        return ToolContext(
            agent=MAIN_AGENT,
            session=SessionId("s"),
            turn=TurnId("t"),
            call_id=CallId("c"),
            key="t:c",
            output=self.output.append,
            answer=answer,
            **more,
        )


def make_source(
    home: Path, server: McpServer, backend: Backend, media: Media | None = None, **more: Any
) -> McpSource:
    file = McpPinFile(home, NAME)
    place = McpPlace(name=NAME, server=server, backend=backend, **more)
    return McpSource(place, PinBook(read=file.read, change=file.change), media)


@contextlib.asynccontextmanager
async def bed(folder: Path, server: McpServer, media: Media | None = None, **more: Any) -> AsyncIterator[Bed]:
    (folder / "work").mkdir(exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPENAI_API_KEY": "sk-secret-of-the-gateway"}
    backend = local_backend(home=folder, workspace=folder / "work", environ=environ)
    await backend.open()
    source = make_source(folder, server, backend, media, **more)
    await source.open()
    try:
        yield Bed(source, McpPinFile(folder, NAME))
    finally:
        await source.close()
        await backend.close()


@contextlib.contextmanager
def served(*command: str, port: int | None = None, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """A program that listens on a port of this machine; `{port}` in its words is that port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = port or free.getsockname()[1]
    words = [word.replace("{port}", str(port)) for word in command]
    given = {name: value.replace("{port}", str(port)) for name, value in (env or {}).items()}
    process = subprocess.Popen(words, env={**os.environ, **given}, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None and time.monotonic() < end, "it does not listen"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
