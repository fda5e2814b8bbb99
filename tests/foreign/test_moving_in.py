"""A home that Hermes Agent 0.19.0 made with its own store moves in: everything once, whatever stops it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import gateway, hermes
from tests.foreign.environments import ROOT, python_of

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.xdist_group("foreign")]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    home = tmp_path / "old"
    home.mkdir()
    program = ROOT / "tests" / "foreign" / "clients" / "old_home.py"
    subprocess.run([python_of("hermes-agent"), program, home], check=True, timeout=60)
    (home / "config.yaml").write_text("model: demo\n# mine\n")
    (home / "SOUL.md").write_text("You are old.")
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text("The cat is called Tea.\n")
    (home / "kanban.db").write_text("")
    return home


def told(home: Path, *words: str) -> str:
    said = hermes(home, *words)
    assert said.code == 0 and said.clean, said
    return said.out


def test_conversations_and_files_move_in_once(old: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "SOUL.md").write_text("You are new.")
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    planned = told(home, "migrate", str(old), "--dry-run")
    assert "2 conversations with 8 messages" in planned and not (home / "config.yaml").exists()
    done = told(home, "migrate", str(old), "-y")
    assert "2 conversations (0 were here already)" in done and "kanban.db: not known here" in done
    assert "SOUL.md (identity)" in done.partition("Kept")[2]
    assert (home / "SOUL.md").read_text() == "You are new." and "# mine" in (home / "config.yaml").read_text()
    assert (home / "memories" / "MEMORY.md").exists()
    assert {path: path.read_bytes() for path in old.rglob("*") if path in before} == before
    assert "0 conversations (2 were here already)" in told(home, "migrate", str(old), "-y")
    listed = told(home, "sessions", "list")
    assert "The garden" in listed and "20260101_090000_aaaaaa" in listed and "cccccc" not in listed
    shown = told(home, "sessions", "show", "20260101_090000_aaaaaa")
    assert "marmalade" in shown and "In the cellar." in shown and "And the picture?" in shown
    assert "marmalade" in told(home, "sessions", "search", "marmalade")
    with gateway(home):
        answer = told(home, "--resume", "20260102_100000_bbbbbb", "-q", "hello")
        assert "Hermes" in answer


def test_a_home_is_taken_over_where_it_stands(old: Path) -> None:
    assert "2 conversations" in told(old, "migrate", "-y")
    assert "The garden" in told(old, "sessions", "list") and "telegram:77" in told(old, "sessions", "list")
    with gateway(old):
        assert "(2 were here already)" in told(old, "migrate", "-y")


def test_what_is_no_home_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "state.db").write_bytes(b"no database at all, but long enough to be read" * 100)
    for place, says in (
        ("nosuch", "There is no folder"),
        ("empty", "no home of Hermes Agent"),
        ("bad", "cannot be read"),
    ):
        said = hermes(tmp_path / "home", "migrate", str(tmp_path / place), "-y")
        assert said.code == 1 and says in said.err and said.clean, said
