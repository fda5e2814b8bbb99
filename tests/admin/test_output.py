"""What commands print: fits, is safe, and can be copied."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from hermes.admin.shell.output import CliConsole, ago
from hermes.domain.errors import UserError
from hermes.domain.text import width


def console(**more: object) -> tuple[CliConsole, io.StringIO]:
    out = io.StringIO()
    return CliConsole(out=out, err=io.StringIO(), **more), out  # type: ignore[arg-type]


def test_a_table_fits_and_keeps_its_first_column() -> None:
    there, out = console(width=44)
    there.table(["ID", "WHEN", "TEXT"], [["20260105_120000_abcdef12", "2 h ago", "long " * 40]])
    lines = out.getvalue().splitlines()
    assert all(width(line) <= 44 for line in lines) and "20260105_120000_abcdef12" in lines[1]
    assert lines[1].endswith("…")


def test_what_is_to_be_read_whole_goes_on_below() -> None:
    there, out = console(width=30)
    there.words("✗ " + "word " * 12, "  ")
    there.facts([("Tried against", "word " * 12), ("Name", "x")])
    there.table(["ID", "TEXT"], [["one", "word " * 12], ["two", "漢字 " * 9]], wrap=True)
    lines = out.getvalue().splitlines()
    assert all(width(line) <= 30 for line in lines) and "…" not in out.getvalue()
    assert out.getvalue().count("word") == 36 and out.getvalue().count("漢字") == 9
    assert lines[:2] == ["✗ word word word word word", "  word word word word word"]
    assert "               word" in out.getvalue(), "under its own beginning"


def test_a_pipe_gets_everything() -> None:
    there, out = console()
    there.table(["A", "B"], [["x", "word " * 30]])
    assert "word " * 29 in out.getvalue()


def test_wide_characters_take_two_columns() -> None:
    there, out = console(width=20)
    there.table(["A", "B"], [["漢字", "漢字" * 20], ["ab", "x"]])
    lines = out.getvalue().splitlines()
    assert all(width(line) <= 20 for line in lines)
    assert lines[2].index("x") == 6


def test_nothing_steers_the_terminal() -> None:
    there, out = console()
    there.line("a\x1b[31mb\x07\u202ec")
    there.table(["A\x1b"[:1]], [["x\x1b]0;t\x07\ny"]])
    there.json({"a": "\x1b\ud800"})
    there.facts([("name", "v\x1bw")])
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(out.getvalue())


def test_nobody_can_confirm_a_pipe() -> None:
    there, _ = console()
    with pytest.raises(UserError, match="--yes"):
        there.confirm("Sure?")


@pytest.mark.parametrize("secret", [True, False])
def test_who_leaves_a_question_leaves_its_line(monkeypatch: pytest.MonkeyPatch, secret: bool) -> None:
    def leave(*asked: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("getpass.getpass", leave)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(readline=leave))
    there, _ = console()
    with pytest.raises(KeyboardInterrupt):
        there.ask("Token:", secret=secret)
    assert isinstance(there.err, io.StringIO) and there.err.getvalue().endswith("\n")


@pytest.mark.parametrize(
    ("typed", "done"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_only_a_yes_is_a_yes(monkeypatch: pytest.MonkeyPatch, typed: str, done: bool) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    there, _ = console(interactive=True)
    if done:
        there.confirm("Sure?")
    else:
        with pytest.raises(UserError, match="Nothing was changed"):
            there.confirm("Sure?")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "just now"), (59, "just now"), (60, "1 min ago"), (3599, "59 min ago"), (7200, "2 h ago"),
     (86_400, "1 d ago"), (29 * 86_400, "29 d ago"), (400 * 86_400, "2024-12-01")],
)  # fmt: skip
def test_ago(seconds: float, said: str) -> None:
    now = datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert ago(now - timedelta(seconds=seconds), now) == said
