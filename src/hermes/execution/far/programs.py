"""A program of this machine, run to its end: what it wrote, and what it complained of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct

from hermes.domain.errors import Unreachable


class ProgramEnd(Struct, frozen=True, kw_only=True):
    code: int
    output: bytes
    complaint: str


async def run_program(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> ProgramEnd:
    """An `Unreachable` if it cannot be started or takes longer; it is killed then.

    What it writes goes into files: a process that it leaves behind, like a container's monitor, may hold a
    pipe open for as long as it lives."""
    with await asyncio.to_thread(TemporaryFile) as output, await asyncio.to_thread(TemporaryFile) as errors:
        code = await _wait_for(argv, env, seconds, output, errors)
        words, complaint = await asyncio.to_thread(lambda: (_read(output), _read(errors)))
    return ProgramEnd(code=code, output=words, complaint=complaint.decode("utf-8", "replace").strip())


async def _wait_for(
    argv: Sequence[str], env: Mapping[str, str], seconds: float, output: IO[bytes], errors: IO[bytes]
) -> int:
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=errors, env=dict(env), cwd="/",
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Unreachable(f"{argv[0]} cannot be started ({error.strerror})") from error
    try:
        async with asyncio.timeout(seconds):
            return await child.wait()
    except TimeoutError:
        raise Unreachable(f"{argv[0]} did not answer within {seconds:g} s") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
