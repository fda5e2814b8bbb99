"""A program of this machine, run to its end: what it wrote, and what it complained of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes.domain.errors import Unreachable


class ProgramEnd(Struct, frozen=True, kw_only=True):
    code: int
    output: bytes
    complaint: str


async def run_program(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> ProgramEnd:
    """An `Unreachable` if it cannot be started or takes longer; it is killed then."""
    pipe = asyncio.subprocess.PIPE
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=dict(env), cwd="/",
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Unreachable(f"{argv[0]} cannot be started ({error.strerror})") from error
    try:
        async with asyncio.timeout(seconds):
            output, complaint = await child.communicate()
    except TimeoutError:
        raise Unreachable(f"{argv[0]} did not answer within {seconds:g} s") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    code = child.returncode or 0
    return ProgramEnd(code=code, output=output, complaint=complaint.decode("utf-8", "replace").strip())
