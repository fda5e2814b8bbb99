"""OpenAI's own SDK judges the fake of pictures and speech that our requests are tested against."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.testing.media_server import KEY, WORDS, png
from tests.foreign.environments import ROOT, python_of
from tests.foreign.test_foreign_clients import CLIENTS, _heard

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]


def test_the_openai_sdk_understands_it(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(png())
    command = [sys.executable, "-m", "hermes.testing.media_server"]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        told = json.loads(_heard(python_of("openai"), CLIENTS / "media_sdk.py", url, KEY, str(picture)))
        child.terminate()
    assert told == {
        "made": len(png()),
        "usage": [11, 272],
        "edited": len(png()),
        "heard": WORDS,
        "heard_tokens": [11, 272],
        "spoken": "OggS",
        "chat": "data:image/png;base64,",
        "refused": "invalid_api_key",
    }
