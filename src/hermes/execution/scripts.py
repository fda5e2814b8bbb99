"""The operator's scripts, in the home's `scripts` folder: text in on standard input, text out.

A script runs in its own process group, with an environment built from empty and the mark of a script
(`domain/system/process_mark.py`). When its time is up it is killed with everything it started. What its
output means is the caller's business."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.execution.process_tree import kill_group

FOLDER = "scripts"
MOST_OUTPUT = 1 << 20
_INTERPRETERS = {".py": (sys.executable,), ".sh": ("/bin/sh",), ".bash": ("bash",)}
_SOURCES = str(Path(__file__).parents[2])
# The mark must be there before the script's first word, and no program that every system has can set it.
_START = (
    "import os, sys; sys.path.insert(0, sys.argv[1]); "
    "from hermes.domain.system.process_mark import SCRIPT, step_down; step_down(SCRIPT)\n"
    "try: os.execvp(sys.argv[2], sys.argv[2:])\n"
    "except OSError as error: sys.exit(f'it cannot be started ({error.strerror})')"
)
MARKED = (sys.executable, "-I", "-S", "-c", _START, _SOURCES)
"""What a command begins with that gets the mark."""
_MOST_COMPLAINT = 4000
_LAST_WORDS_SECONDS = 1.0
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


def own_environment(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an operator's script or hook, from nothing: no key of the gateway is among them."""
    return {name: environ[name] for name in _KEPT if name in environ} | {"HERMES_HOME": str(home)}


class ScriptEnd(Struct, frozen=True, kw_only=True):
    """How a script ended; no code means that its time was up or it said too much. `complaint` is the end of
    what it wrote to standard error."""

    code: int | None
    output: bytes = b""
    complaint: bytes = b""


class Scripts:
    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._folder = home / FOLDER
        self._environ = own_environment(home, environ)

    def find(self, name: str) -> Path:
        """The script of this name. One that leads out of the folder is none."""
        folder = self._folder.resolve()
        path = folder if "\0" in name else (folder / name).resolve()
        if folder not in path.parents or not path.is_file():
            raise UserError(
                f"There is no script “{one_line(name, 60)}”.", hint=f"Put it into {self._folder}."
            )
        return path

    async def run(self, name: str, data: bytes, timeout: float, cwd: str = "") -> ScriptEnd:
        path = await asyncio.to_thread(self.find, name)
        interpreter = _INTERPRETERS.get(path.suffix, ())
        if not interpreter and not await asyncio.to_thread(os.access, path, os.X_OK):
            raise UserError(
                f"The script “{one_line(name, 60)}” cannot be started.", hint="Make it executable: chmod +x"
            )
        command = (*MARKED, *interpreter, str(path))
        try:
            return await run_program(command, data, timeout, cwd=cwd or self._folder, environ=self._environ)
        except OSError as error:
            raise UserError(
                f"The script “{one_line(name, 60)}” cannot be started ({error.strerror})."
            ) from error


async def run_program(
    command: Sequence[str],
    data: bytes,
    timeout: float,
    *,
    environ: Mapping[str, str],
    cwd: str | Path = "/",
    most: int = MOST_OUTPUT,
) -> ScriptEnd:
    """Run it to its end, or until its time is up or it has said more than `most` bytes; then it is killed
    with all it started."""
    transport, script = await asyncio.get_running_loop().subprocess_exec(
        lambda: _ScriptProtocol(most),
        *command,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environ,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout):
            feed(transport, data, last=True)
            await script.ended.wait()
    except TimeoutError:
        script.whole = False
    finally:
        # The group, also after its leader has gone: what a script leaves behind goes with it. What left
        # the group may hold the output open: it is not waited for.
        kill_group(transport.get_pid())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await script.silent.wait()
                await script.gone.wait()
        transport.close()
    complaint = bytes(script.complaint)
    if not script.whole:
        return ScriptEnd(code=None, complaint=complaint)
    return ScriptEnd(code=transport.get_returncode(), output=bytes(script.output), complaint=complaint)


class _ScriptProtocol(asyncio.SubprocessProtocol):
    """Hears a script to its end, or until it has said too much."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.output = bytearray()
        self.complaint = bytearray()
        self.whole = True
        self.ended = asyncio.Event()
        self.silent = asyncio.Event()
        self.gone = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.complaint += data
            del self.complaint[:-_MOST_COMPLAINT]
        elif len(self.output) + len(data) <= self._most:
            self.output += data
        else:
            self.whole = False
            self.ended.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.silent.set()

    def process_exited(self) -> None:
        self.ended.set()
        self.gone.set()


def feed(transport: asyncio.SubprocessTransport, data: bytes, *, last: bool = False) -> None:
    """Write to a process that need not read its input to the end."""
    # uvloop's transports are of no class of asyncio's.
    stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
    # A process that has ended already has closed it, which uvloop takes for a mistake of ours.
    with contextlib.suppress(RuntimeError):
        stdin.write(data)
        if last:
            stdin.write_eof()
