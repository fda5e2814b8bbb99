"""The backend `modal` with the real SDK, over a service whose sandboxes run their commands here."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.foreign.environments import ROOT, python_of

pytestmark = [pytest.mark.slow]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "modal_suite.py"


async def run(tmp_path: Path, *words: str) -> None:
    python = await asyncio.to_thread(python_of, "modal")
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(CLIENT), str(tmp_path / "t"), *words),
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-4000:]


async def test_conformance(tmp_path: Path) -> None:
    await run(tmp_path)


@pytest.mark.parametrize("name", ["again", "dies", "slow", "refused"])
async def test_what_only_it_does(tmp_path: Path, name: str) -> None:
    await run(tmp_path, name)
