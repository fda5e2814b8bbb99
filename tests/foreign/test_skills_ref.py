"""`skills-ref`, the validator of the Agent Skills standard, judges what is shipped and written here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hermes.state.skills.manifest import write_manifest
from hermes.state.skills.places import BUNDLED, OPTIONAL
from tests.foreign.environments import python_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]


def validate(folder: Path) -> subprocess.CompletedProcess[str]:
    program = python_of("skills-ref").with_name("agentskills")
    return subprocess.run(
        [program, "validate", folder], capture_output=True, text=True, check=False, timeout=60
    )


def test_every_shipped_skill_is_valid() -> None:
    folders = [path.parent for root in (BUNDLED, OPTIONAL) for path in root.rglob("SKILL.md")]
    assert len(folders) == 14
    for folder in folders:
        judged = validate(folder)
        assert judged.returncode == 0, f"{folder.name}: {judged.stdout}{judged.stderr}"


def test_what_is_written_here_is_valid_and_the_judge_can_say_no(tmp_path: Path) -> None:
    folder = tmp_path / "my-way"
    folder.mkdir()
    (folder / "SKILL.md").write_text(
        write_manifest("my-way", 'Says: "hi" # not \\ a comment – ünïcode', "1. Do.")
    )
    assert validate(folder).returncode == 0
    (folder / "SKILL.md").write_text("---\nname: my_way\ndescription: d\nversion: 1\n---\n")
    assert validate(folder).returncode != 0
