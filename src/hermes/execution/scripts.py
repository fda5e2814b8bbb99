"""Scripts of an operator's own, in the home's `scripts` folder: words in on standard input, words out.

A script runs in a process group of its own, with an environment built from nothing, and is killed with all it
started when its time is up. What to do with its words is the caller's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

FOLDER = "scripts"
MOST_OUTPUT = 1 << 20
_INTERPRETERS = {".py": (sys.executable,), ".sh": ("/bin/sh",)}
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnd:
    """How a script ended; no code means that its time was up or it said too much."""

    code: int | None
    output: bytes = b""


class Scripts:
    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._folder = home / FOLDER
        self._environ = {name: environ[name] for name in _KEPT if name in environ}

    def find(self, name: str) -> Path:
        """The script of this name. One that leads out of the folder is none."""
        folder = self._folder.resolve()
        path = (folder / name).resolve()
        if folder not in path.parents or not path.is_file():
            raise UserError(
                f"There is no script “{one_line(name, 60)}”.", hint=f"Put it into {self._folder}."
            )
        return path

    async def run(self, name: str, data: bytes, timeout: float) -> ScriptEnd:
        path = await asyncio.to_thread(self.find, name)
        try:
            process = await asyncio.create_subprocess_exec(
                *_INTERPRETERS.get(path.suffix, ()),
                str(path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=self._folder,
                env=self._environ | {"HERMES_HOME": str(self._home)},
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(
                f"The script “{one_line(name, 60)}” cannot be started ({error.strerror}).",
                hint="Make it executable: chmod +x",
            ) from error
        output: bytes | None = None
        try:
            async with asyncio.timeout(timeout):
                output = await _talk(process, data)
                if output is not None:
                    return ScriptEnd(code=await process.wait(), output=output)
        except TimeoutError:
            pass
        finally:
            _kill(process)
            await process.wait()
        return ScriptEnd(code=None)


async def _talk(process: asyncio.subprocess.Process, data: bytes) -> bytes | None:
    """What the script says until it closes its output; None if that is too much."""
    assert process.stdin is not None and process.stdout is not None
    feeding = asyncio.create_task(_feed(process.stdin, data), name="script input")
    heard = bytearray()
    try:
        while piece := await process.stdout.read(1 << 16):
            heard += piece
            if len(heard) > MOST_OUTPUT:
                return None
        return bytes(heard)
    finally:
        feeding.cancel()
        await asyncio.wait((feeding,))


async def _feed(stdin: asyncio.StreamWriter, data: bytes) -> None:
    """A script that does not read its input to the end is none the worse for it."""
    with contextlib.suppress(ConnectionError):
        stdin.write(data)
        await stdin.drain()
    stdin.close()


def _kill(process: asyncio.subprocess.Process) -> None:
    """The group, also after its leader has gone: what a script leaves behind goes with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
