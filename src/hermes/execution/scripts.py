"""The operator's scripts, in the home's `scripts` folder: text in on standard input, text out.

A script runs in its own process group, with an environment built from empty and the mark of a script
(`domain/process_mark.py`). When its time is up it is killed with everything it started. What its output
means is the caller's business."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

FOLDER = "scripts"
MOST_OUTPUT = 1 << 20
_INTERPRETERS = {".py": (sys.executable,), ".sh": ("/bin/sh",), ".bash": ("bash",)}
_SOURCES = str(Path(__file__).parents[2])
# The mark must be there before the script's first word, and no program that every system has can set it.
_START = (
    "import os, sys; sys.path.insert(0, sys.argv[1]); "
    "from hermes.domain.process_mark import SCRIPT, step_down; step_down(SCRIPT)\n"
    "try: os.execvp(sys.argv[2], sys.argv[2:])\n"
    "except OSError as error: sys.exit(f'it cannot be started ({error.strerror})')"
)
_MOST_COMPLAINT = 4000
_LAST_WORDS_SECONDS = 1.0
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnd:
    """How a script ended; no code means that its time was up or it said too much. `complaint` is the end of
    what it wrote to standard error."""

    code: int | None
    output: bytes = b""
    complaint: bytes = b""


class Scripts:
    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._folder = home / FOLDER
        self._environ = {name: environ[name] for name in KEPT if name in environ}

    def find(self, name: str) -> Path:
        """The script of this name. One that leads out of the folder is none."""
        folder = self._folder.resolve()
        path = (folder / name).resolve()
        if folder not in path.parents or not path.is_file():
            raise UserError(
                f"There is no script “{one_line(name, 60)}”.", hint=f"Put it into {self._folder}."
            )
        return path

    async def run(self, name: str, data: bytes, timeout: float, cwd: str = "") -> ScriptEnd:
        path = await asyncio.to_thread(self.find, name)
        loop = asyncio.get_running_loop()
        interpreter = _INTERPRETERS.get(path.suffix, ())
        if not interpreter and not await asyncio.to_thread(os.access, path, os.X_OK):
            raise UserError(
                f"The script “{one_line(name, 60)}” cannot be started.", hint="Make it executable: chmod +x"
            )
        try:
            transport, script = await loop.subprocess_exec(
                lambda: _ScriptProtocol(loop),
                *(sys.executable, "-I", "-S", "-c", _START, _SOURCES, *interpreter),
                str(path),
                stderr=subprocess.PIPE,
                cwd=cwd or self._folder,
                env=self._environ | {"HERMES_HOME": str(self._home)},
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(
                f"The script “{one_line(name, 60)}” cannot be started ({error.strerror})."
            ) from error
        try:
            async with asyncio.timeout(timeout):
                _feed(transport, data)
                await script.ended
        except TimeoutError:
            script.whole = False
        finally:
            _kill(transport.get_pid())
            # What left the group may hold the output open: it is not waited for.
            await asyncio.wait((script.silent,), timeout=_LAST_WORDS_SECONDS)
            transport.close()
        code = transport.get_returncode()
        complaint = bytes(script.complaint)
        if not script.whole:
            return ScriptEnd(code=None, complaint=complaint)
        return ScriptEnd(code=code, output=bytes(script.heard), complaint=complaint)


class _ScriptProtocol(asyncio.SubprocessProtocol):
    """Hears a script to its end, or until it has said too much."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.heard = bytearray()
        self.complaint = bytearray()
        self.whole = True
        self.ended: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.complaint += data
            del self.complaint[:-_MOST_COMPLAINT]
            return
        if len(self.heard) + len(data) <= MOST_OUTPUT:
            self.heard += data
            return
        self.whole = False
        _settle(self.ended)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            _settle(self.silent)

    def process_exited(self) -> None:
        _settle(self.ended)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _feed(transport: asyncio.SubprocessTransport, data: bytes) -> None:
    """A script that does not read its input to the end is none the worse for it."""
    # uvloop's transports are of no class of asyncio's.
    stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
    # A script that has ended already has closed it, which uvloop takes for a mistake of ours.
    with contextlib.suppress(RuntimeError):
        stdin.write(data)
        stdin.write_eof()


def _kill(pid: int) -> None:
    """The group, also after its leader has gone: what a script leaves behind goes with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
