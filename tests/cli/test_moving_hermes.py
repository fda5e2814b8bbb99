"""A home of Hermes Agent that is not quite whole moves in: all that can, and the rest is named. (A home that
its own release made: tests/foreign/test_moving_in.py.)"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.cli.command import hermes

TABLES = """
CREATE TABLE sessions (id TEXT, started_at REAL, ended_at REAL, session_key TEXT, title TEXT, model TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_calls TEXT,
    tool_call_id TEXT, timestamp REAL);
INSERT INTO sessions VALUES
    ('s1', 1e9, 2e9, NULL, 'The garden', 'm'), ('s2', NULL, 2e9, NULL, 'The cellar', 'm');
INSERT INTO messages (session_id, role, content, tool_calls, timestamp) VALUES
    ('s1', 'user', 'Where is the marmalade?', NULL, 1e9),
    ('s1', 'assistant', 'I look.', '[{"id": "c1", "fun', NULL),
    ('s1', 'tool', 'on the shelf', NULL, 1e9), ('s2', 'user', 'Is it cold?', NULL, 1e9);
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    old = tmp_path / "old"
    (old / "memories").mkdir(parents=True)
    (old / "memories" / "MEMORY.md").symlink_to(tmp_path / "dotfiles.md")
    (old / "skills").mkdir()
    (old / "skills" / "knots").symlink_to(tmp_path)
    (old / "cron" / "output" / "job").mkdir(parents=True)
    (old / "cron" / "output" / "job" / "1.md").write_text("It was done.")
    (old / "cron" / "ticks").write_text("1")
    (old / ".env").write_text("OPENAI_API_KEY=sk-old-0123456789\nANTHROPIC_API_KEY=sk-ant-0123456789\n")
    with closing(apsw.Connection(str(old / "state.db"))) as db:
        db.execute(TABLES)
    return old


def told(home: Path, *words: str) -> str:
    said = hermes(home, *words)
    assert said.code == 0 and said.clean, said
    return said.out


def test_what_is_damaged_or_a_link_is_named_and_the_rest_moves(old: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".env").write_text("OPENAI_API_KEY=sk-mine-0123456789\n")
    planned = told(home, "migrate", str(old), "-n")
    done = told(home, "migrate", str(old), "-y")
    assert "2 conversations with 4 messages" in planned and "2 conversations (0 were here" in done
    for report in (planned, done):
        left = report.partition("Left out:")[2]
        assert "memories/MEMORY.md: a link to" in left and "skills/knots: a link to" in left
        assert "1 × what tools were asked to do in a message: damaged" in left
        assert "cron/ticks: not known here" in left
        assert "OPENAI_API_KEY" in report.partition("Kept")[2] and "ANTHROPIC_API_KEY (.env)" in report
    assert (home / ".env").read_text().split() == [
        "OPENAI_API_KEY=sk-mine-0123456789",
        "ANTHROPIC_API_KEY=sk-ant-0123456789",
    ]
    assert (home / "cron/output/job/1.md").read_text() == "It was done."
    assert "marmalade" in told(home, "sessions", "show", "s1") and "s2" in told(home, "sessions", "list")


def test_the_report_is_printed_though_the_conversations_cannot_be_read(old: Path, tmp_path: Path) -> None:
    (old / "state.db").write_bytes(b"no database at all, but long enough to be read" * 100)
    said = hermes(tmp_path / "home", "migrate", str(old), "-y")
    assert said.code == 1 and "cannot be read" in said.err and said.clean, said
    assert "Taken:" in said.out and "Left out:" in said.out
