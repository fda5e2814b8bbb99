"""Runs a program with matrix-nio in the environment that has it."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from tests.foreign.environments import ROOT, python_of


async def heard(client: str, *arguments: str) -> dict[str, Any]:
    """What a client printed; it gets our sources and nothing else of our surroundings but the path."""
    python = await asyncio.to_thread(python_of, "matrix")
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(ROOT / "tests" / "foreign" / "clients" / client),
        *arguments,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 180)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-4000:]
    return json.loads(out)
