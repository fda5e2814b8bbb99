"""kingfisher, a scanner for secrets of another maker, looks for them in what the gateway wrote."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.settings.declaring import STAND_IN
from tests.foreign.environments import python_of
from tests.journeys.test_secret_sinks import tell_all
from tests.secret_corpus import foreign_secrets, loaded_secrets

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]


def findings(folder: Path) -> list[dict[str, Any]]:
    scanner = python_of("kingfisher").with_name("kingfisher")
    options = ("--no-validate", "--no-update-check", "--format", "json", "--quiet")
    told = subprocess.run([scanner, "scan", folder, *options], capture_output=True, check=False, timeout=120)
    found: list[dict[str, Any]] = json.loads(told.stdout)["findings"]
    return [each["finding"] for each in found]


async def test_a_scanner_finds_nothing_in_what_was_written(tmp_path: Path) -> None:
    foreign, loaded = dict(foreign_secrets(2)), loaded_secrets(120)
    text = "\n".join((*foreign.values(), *loaded.values()))
    places = await tell_all(tmp_path / "home", text, loaded)
    for name, written in {"as it is": text.encode(), **places}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.txt").write_bytes(written)
    assert len(findings(tmp_path / "as it is")) >= 60, "the scanner does not know these kinds"
    for place in ("log", "session logs", "hooks"):
        shown = [each["snippet"] for each in findings(tmp_path / place)]
        # It takes the sign that stands in a secret's place for one.
        assert not [snippet for snippet in shown if snippet != STAND_IN], place
    values = [*loaded.values()]
    for place in ("replies", "database"):
        shown = [each["snippet"] for each in findings(tmp_path / place)]
        assert not [snippet for snippet in shown if any(snippet in value for value in values)], place
