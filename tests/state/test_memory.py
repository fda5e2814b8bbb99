"""The agent's own files: three names, replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.state.memory.files import PLACES, MemoryFiles


def test_what_is_written_is_read(tmp_path: Path) -> None:
    memory = MemoryFiles(tmp_path)
    for name in PLACES:
        assert memory.read(name) == ""
        memory.write(name, f"I am {name}. Größe: 🦊")
        memory.write(name, f"I am {name}, again \ud800")
        assert memory.read(name) == f"I am {name}, again \ufffd"
    kept = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file())
    assert kept == ["SOUL.md", "memories/MEMORY.md", "memories/USER.md"]


def test_other_names_are_refused(tmp_path: Path) -> None:
    for name in ("../config.yaml", "memories/MEMORY.md", "", "/etc/passwd"):
        with pytest.raises(UserError, match="not a memory file"):
            MemoryFiles(tmp_path).write(name, "x")
        with pytest.raises(UserError):
            MemoryFiles(tmp_path).read(name)


def test_a_link_keeps_pointing_and_bad_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.md").write_bytes(b"caf\xe9")
    (tmp_path / "SOUL.md").symlink_to(tmp_path / "elsewhere.md")
    memory = MemoryFiles(tmp_path)
    assert memory.read("SOUL.md") == "caf\ufffd"
    memory.write("SOUL.md", "new")
    assert (tmp_path / "SOUL.md").is_symlink()
    assert (tmp_path / "elsewhere.md").read_text() == "new"
