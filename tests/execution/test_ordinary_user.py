"""Sandboxes of a gateway that is an ordinary user's: these tests run as root, and step down."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution.beds import install

ROOT = Path(__file__).parents[2]
NOBODY = 65534
CONFORMANCE = """
import asyncio, sys, traceback
from pathlib import Path
from hermes.testing.backend_suite import CHECKS
from tests.execution.beds import make_bed

async def main(kind, folder):
    failed = []
    for name, check in CHECKS.items():
        bed = make_bed(kind, (folder / name))
        await bed.backend.open()
        try:
            await check(bed)
        except BaseException:
            failed.append(name)
            traceback.print_exc()
        finally:
            await bed.backend.close()
    assert not failed, failed

folder = Path(sys.argv[2])
for name in CHECKS:
    (folder / name).mkdir()
asyncio.run(main(sys.argv[1], folder))
"""
FORKS = """
import asyncio, sys
from pathlib import Path
from hermes.domain.ports.world import Command
from tests.execution.beds import make_bed

async def main(folder):
    bed = make_bed("bubblewrap", folder)
    await bed.backend.open()
    text = "for i in $(seq 900); do sleep 20 & done; echo; ls -d /proc/[0-9]* | wc -l"
    told = await bed.run(text, timeout=60)
    counted = await bed.run("true; echo fine", session="after")
    await bed.backend.close()
    print(told.output[-300:])
    assert "fork" in told.output and counted.output == "fine\\n", told.output[-300:]

asyncio.run(main(Path(sys.argv[2])))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that another user can reach."""
    made = Path(tempfile.mkdtemp(prefix="hermes-user-"))
    os.chown(made, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


def as_nobody(script: str, kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run by the system's Python, since the one of these tests may lie in a home."""
    packages = sysconfig.get_path("purelib")
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}/src:{packages}:{ROOT}", "HOME": str(folder)}
    step_down = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    python = [*step_down, "/usr/bin/python3"]
    look = f"import sys, msgspec, regex; assert sys.version_info[:2] == {sys.version_info[:2]}"
    if subprocess.run([*python, "-c", look], env=environ, capture_output=True, check=False).returncode:
        pytest.skip("no Python that another user can start has our packages")
    return subprocess.run(
        [*python, "-W", "error", "-c", script, kind, str(folder)],
        env=environ, cwd="/", capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.mark.root
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_conformance(kind: str, folder: Path) -> None:
    install("bubblewrap", "bwrap")
    done = as_nobody(CONFORMANCE, kind, folder)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.root
def test_processes_are_counted(folder: Path) -> None:
    install("bubblewrap", "bwrap")
    done = as_nobody(FORKS, "bubblewrap", folder)
    assert done.returncode == 0, done.stderr[-4000:]
