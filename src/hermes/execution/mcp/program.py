"""A server that is a program: it runs in a backend like any command, so in the agent's sandbox and with the
variables of commands alone, and ends with everything it started. It reads messages on its standard input and
writes them, a line each, to where the gateway hears its lines; what it complains of stays apart.

Imports the SDK: it is loaded with the first connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from hermes.domain.errors import HermesError
from hermes.domain.ports.world import Backend, Command, ProcessView
from hermes.domain.settings.mcp import McpServer
from hermes.domain.text import one_line, storable_all

_MOST_PER_SECOND = 5_000
_BYTES_PER_SECOND = 64 << 20
_LAST_WORDS = 300
_ENDING_SECONDS = 2.0


class ServerProgram:
    """One run of a server's program. `ended` is set when it is over; `why` says how, if it was its doing."""

    def __init__(self, name: str, server: McpServer, backend: Backend, ended: asyncio.Event) -> None:
        self._name = name
        self._server = server
        self._backend = backend
        self._session = f"mcp {name}"
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        """What it wrote and nobody has read yet; None at its end."""
        self._second, self._left, self._room = 0.0, 0, 0
        self._ended = ended
        self._leaving = False
        self.why = ""

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """The two streams that the SDK talks over, while the program runs."""
        server = self._server
        command = Command(
            text=f"exec {shlex.join([server.command, *server.args])} 1>&247 247>&-",
            session=self._session,
            cwd=server.cwd or None,
            env=server.variables,
            timeout=0,
            hear=self._hear,
        )
        process = await self._backend.start(command, self._over)
        try:
            to_sdk, reading = anyio.create_memory_object_stream[Any](0)
            writing, from_sdk = anyio.create_memory_object_stream[Any](0)
            tasks = [
                asyncio.create_task(self._pass_on(to_sdk), name=f"mcp {self._name} reads"),
                asyncio.create_task(self._write(process.id, from_sdk), name=f"mcp {self._name} writes"),
            ]
            try:
                yield reading, writing
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                for stream in (to_sdk, reading, writing, from_sdk):
                    stream.close()
        finally:
            await asyncio.shield(self._end(process.id))

    def _hear(self, line: bytes) -> None:
        """Takes a line. A program that floods, or writes one that is too long, is ended."""
        now = time.monotonic()
        if now - self._second > 1.0:
            self._second, self._left, self._room = now, _MOST_PER_SECOND, _BYTES_PER_SECOND
        self._left -= 1
        self._room -= len(line)
        if not line or self._left < 0 or self._room < 0:
            self.why = self.why or "it sent more than anybody can read, and was ended"
            raise ValueError(self.why)
        self._lines.put_nowait(line)

    async def _pass_on(self, to_sdk: Any) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while (line := await self._lines.get()) is not None:
                if (message := _read(line)) is not None:
                    await to_sdk.send(SessionMessage(message))
        to_sdk.close()

    async def _write(self, process: str, from_sdk: Any) -> None:
        with contextlib.suppress(HermesError, anyio.ClosedResourceError):
            async for wrapped in from_sdk:
                text = wrapped.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._backend.processes.write(self._session, process, text.encode() + b"\n")

    def _over(self, view: ProcessView) -> None:
        if not self._leaving:
            self.why = self.why or f"it ended with code {view.code}"
        self._ended.set()
        self._lines.put_nowait(None)

    async def _end(self, process: str) -> None:
        """Close its input, wait a moment, then end all of it; what it said last may say why."""
        processes, self._leaving = self._backend.processes, True
        with contextlib.suppress(HermesError):
            await processes.write(self._session, process, b"", close=True)
        with contextlib.suppress(HermesError):
            view = await processes.wait(self._session, process, _ENDING_SECONDS)
            if view.running:
                await processes.kill(self._session, process)
            if self.why and (words := one_line(view.output.strip()[-_LAST_WORDS:], _LAST_WORDS)):
                self.why = f"{self.why}: {words}"


def _read(line: bytes) -> Any:
    """A message; None for what servers print beside them. Texts that were cut in the middle of a character
    are mended, and an answer that is none becomes an error: else its call would wait in vain."""
    with contextlib.suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    try:
        message = storable_all(json.loads(line))
        if not isinstance(message, dict) or not isinstance(message.get("id"), int | str):
            return None
        with contextlib.suppress(ValueError):
            return jsonrpc_message_adapter.validate_python(message, by_name=False)
        fault = {"code": -32603, "message": "its answer breaks the protocol"}
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": fault}
        return None if "method" in message else jsonrpc_message_adapter.validate_python(answer, by_name=False)
    except (ValueError, RecursionError):
        return None
