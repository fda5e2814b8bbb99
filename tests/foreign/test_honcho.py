"""Honcho: our provider works with its real SDK, and the SDK understands the fake."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from aiohttp import web

from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT, python_of
from tests.foreign.honcho_server import FakeHoncho

pytestmark = [pytest.mark.slow]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "honcho_memory.py"


async def run(tmp_path: Path, *words: str) -> tuple[int | None, str, str]:
    python = await asyncio.to_thread(python_of, "honcho")
    told = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        str(python), *words, env=told, cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()[-4000:]


async def test_honcho_learns_once_recalls_and_forgets_by_person_and_agent(tmp_path: Path) -> None:
    code, _, errors = await run(tmp_path, str(ROOT / "tools" / "link.py"), str(ROOT))
    assert code == 0, errors
    fake, port = FakeHoncho(key="hch-1"), free_port()
    runner = web.AppRunner(fake.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        url = f"http://127.0.0.1:{port}"
        code, output, errors = await run(tmp_path, str(CLIENT), url, "hch-1")
        assert code == 0, errors
        ann, other, forgotten, bob = json.loads(output)
        assert ann == "I like oolong\nI live in Ulm", "each once"
        assert other == "", "another agent does not know"
        assert forgotten == "" and bob == "I like coffee"
        code, _, errors = await run(tmp_path, str(CLIENT), url, "wrong")
        assert code and "Authentication" in errors
    finally:
        await runner.cleanup()
