"""The bench measures what there is: each part of it still runs. Its figures are nobody's business here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import BENCHES
from tests.cli.command import ROOT

_SECONDS = 300


@pytest.mark.full
@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_still_runs(name: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    command = [sys.executable, "-P", "-m", "bench.child", name, str(tmp_path), "--quick"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert isinstance(json.loads(done.stdout), list)
