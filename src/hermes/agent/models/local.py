"""A model that runs on this machine, from a GGUF file that the user brings.

Its process is started by the first call and ended with the gateway; one that died is started anew by the next
call. It listens on loopback for a key that only this provider has, and ends by itself when the pipe to it
does, so that a killed gateway leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ports.agent import ModelPiece, ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import LOCAL_WINDOW, ModelSettings
from hermes.domain.text import one_line
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.agent.models.endpoint import HttpProvider

CHILD = Path(__file__).with_name("local_child.py")
INSTALL = "hermes platforms install local"
_MAGIC = b"GGUF"
_START_SECONDS = 600.0
_STOP_SECONDS = 5.0
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")


def gguf_problem(path: str) -> str:
    """Why a file cannot be a model; empty if it looks like one."""
    shown = one_line(path, 200)
    try:
        with Path(path).expanduser().open("rb") as file:
            start = file.read(8)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        return f"The model file {shown} cannot be read ({reason})"
    if start[:4] != _MAGIC or len(start) < 8 or not 2 <= int.from_bytes(start[4:8], "little") <= 16:
        return f"{shown} is no model in GGUF format"
    return ""


class LocalModelProvider:
    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._path = str(Path(settings.path).expanduser())
        self._process: asyncio.subprocess.Process | None = None
        self._http: HttpProvider | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        http = await self._started()
        pieces = cast(AsyncGenerator[ModelPiece], http.call(request))
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        self._closed = True
        async with self._starting:
            await self._end()

    async def _started(self) -> HttpProvider:
        async with self._starting:
            if self._closed:
                raise ModelFault("The model is being stopped.", kind=FaultKind.BROKEN)
            if self._http is None or self._process is None or self._process.returncode is not None:
                await self._end()
                self._http = await self._start()
            return self._http

    async def _start(self) -> HttpProvider:
        from hermes.agent.models.builtin import make_openai_compatible

        problem = await asyncio.to_thread(gguf_problem, self._path)
        if problem:
            raise _unusable(problem, "Check model.path, or fetch the file anew.")
        key = secrets.token_urlsafe(24)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(CHILD),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            start_new_session=True,  # Ctrl-C at the gateway's terminal is the gateway's business
        )
        order = {"path": self._path, "key": key, "window": self._settings.context_length or LOCAL_WINDOW}
        try:
            answer = await self._ask(order)
        except BaseException:
            await self._end()
            raise
        if "url" not in answer:
            await self._end()
            raise _refusal(answer, self._path)
        reached = replace(self._settings, base_url=str(answer["url"]), api_key=Secret(key), api_mode="")
        return make_openai_compatible(reached)

    async def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        incoming, outgoing = self._process.stdout, self._process.stdin
        assert incoming is not None and outgoing is not None
        try:
            outgoing.write(json.dumps(order).encode() + b"\n")
            await outgoing.drain()
            async with asyncio.timeout(_START_SECONDS):
                line = await incoming.readline()
            answer = json.loads(line)
        except (OSError, ValueError, TimeoutError):
            answer = None
        return answer if isinstance(answer, dict) else {"error": "broken"}

    async def _end(self) -> None:
        http, self._http = self._http, None
        process, self._process = self._process, None
        if http is not None:
            await http.close()
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _refusal(answer: dict[str, Any], path: str) -> ModelFault:
    if answer.get("error") == "missing":
        return _unusable("The engine for models on this machine is not installed", f"Run: {INSTALL}")
    why = f"{one_line(path, 200)} could not be loaded: it is damaged, of a kind that the engine does not know"
    return _unusable(f"{why}, or needs more memory than there is", "Try another file, or a smaller one.")


def _unusable(words: str, hint: str) -> ModelFault:
    return ModelFault(f"No model answers: {words}.", kind=FaultKind.NO_MODEL, hint=hint)
