"""The agent's own files: three names."""

from __future__ import annotations

from pathlib import Path

from hermes.state.memory.files import PLACES, MemoryFiles


def test_each_name_has_its_place(tmp_path: Path) -> None:
    memory = MemoryFiles(tmp_path)
    assert [memory.read(name) for name in PLACES] == ["", "", ""]
    (tmp_path / "memories").mkdir()
    for path in ("SOUL.md", "memories/MEMORY.md", "memories/USER.md"):
        (tmp_path / path).write_text(f"I am {path}. Größe: 🦊", "utf-8")
        assert memory.read(path.rpartition("/")[2]) == f"I am {path}. Größe: 🦊"


def test_a_link_is_followed_and_bad_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.md").write_bytes(b"caf\xe9")
    (tmp_path / "SOUL.md").symlink_to(tmp_path / "elsewhere.md")
    assert MemoryFiles(tmp_path).read("SOUL.md") == "caf\ufffd"
