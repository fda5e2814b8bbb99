"""`tools/check.py`: what fails is tried once more, what a run leaves behind is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools import check

COUNTING = """
import pathlib, pytest
marks = pathlib.Path(__file__).with_name("marks")

def times():
    with marks.open("a") as file:
        file.write("x")
    return len(marks.read_text())
"""
Run = Callable[..., list[check.Outcome]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a file of tests as `./test` does, with whatever fails run again."""
    plain = "-p no:cacheprovider -p no:schemathesis -p no:hypothesispytest -p no:asyncio"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = --import-mode=importlib {plain}\n")
    (tmp_path / "tests").mkdir()
    monkeypatch.setattr(check, "ROOT", tmp_path)

    def run(text: str, *arguments: str) -> list[check.Outcome]:
        (tmp_path / "tests" / "test_some.py").write_text(COUNTING + text)
        return [check.run_pytest("tests", "full", "-q", *arguments)]

    return run


def test_a_test_that_passes_alone_is_flaky_and_counts_as_passed(run: Run) -> None:
    first = run(
        "class TestSome:\n"
        "    @pytest.mark.parametrize('case', ['a', 'x@y'])\n"
        "    @pytest.mark.xdist_group('together')\n"
        "    def test_now_and_then(self, case):\n"
        "        assert case == 'a' or times() > 1\n"
        "def test_good(): pass\n"
        "def test_skipped(): pytest.skip('not here')\n",
    )
    assert (first[0].passed, first[0].failed, first[0].skipped) == (2, 1, 1)
    (mended,), flaky = check.run_again(first, "full")
    assert flaky == ["tests/test_some.py::TestSome::test_now_and_then[x@y]"]
    assert (mended.passed, mended.failed, mended.skipped) == (3, 0, 1)


def test_names_of_groups_are_no_part_of_a_test_s_name(run: Run) -> None:
    text = "@pytest.mark.xdist_group('together')\ndef test_now_and_then(): assert times() > 1\n"
    first = run(text, "--numprocesses=1", "--dist=loadgroup")
    (mended,), flaky = check.run_again(first, "full")
    assert flaky == ["tests/test_some.py::test_now_and_then"] and mended.failed == 0


def test_what_fails_again_fails_the_run(run: Run) -> None:
    first = run("def test_bad(): assert times() > 9\ndef test_flaky(): assert times() > 2\n")
    (mended,), flaky = check.run_again(first, "full")
    assert flaky == ["tests/test_some.py::test_flaky"]
    assert (mended.passed, mended.failed) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "if times() == 1: raise ValueError('at the first reading')\ndef test_good(): pass\n",
        "def test_good(): pass\ndef test_dies():\n    import os\n    times() > 1 or os._exit(3)\n",
    ],
    ids=["collection", "worker"],
)
def test_a_failing_collection_and_a_dead_worker_get_no_second_try(run: Run, text: str) -> None:
    first = run(text, "--numprocesses=1")
    assert first[0].failed
    (mended,), flaky = check.run_again(first, "full")
    assert flaky == [] and mended.failed == first[0].failed


def test_where_everything_fails_nothing_is_tried_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MOST_AGAIN", 2)
    first = run("@pytest.mark.parametrize('n', range(3))\ndef test_bad(n): assert times() > 3\n")
    assert check.run_again(first, "full") == (first, [])


def test_the_summary_names_what_is_flaky(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = check.Outcome(name="lint", passed=1, failed=0, skipped=0, seconds=0.0)
    monkeypatch.setattr(check, "workers", lambda: 1)
    monkeypatch.setattr(check, "run_tool", lambda name, *more, **options: fine)
    (tmp_path / "tests" / "shape").mkdir()
    (tmp_path / "tests" / "shape" / "test_shape.py").write_text("def test_fine(): pass\n")
    run("def test_now_and_then(): assert times() > 2\n")
    assert check.run_all("sample") == 0
    out = capsys.readouterr().out
    assert "  flaky: tests/test_some.py::test_now_and_then\n" in out
    assert out.endswith("\n6 passed, 0 failed\n")


def test_files_that_a_run_leaves_behind_are_named(tmp_path: Path) -> None:
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    for folder in (checkout / "src", checkout / ".pytest_cache", home / ".hermes"):
        folder.mkdir(parents=True)
    (checkout / "src" / "old.py").write_text("")
    before = check.present(checkout, home)
    assert check.check_tidy(before, check.present(checkout, home)).passed
    for path in ("checkout/.pytest_cache/x", "checkout/src/__pycache__/old.pyc", "home/photo.jpg"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    assert check.check_tidy(before, check.present(checkout, home)).passed
    new = [checkout / "src" / "gateway.db", home / ".hermes" / "log"]
    for path in new:
        path.write_text("")
    tidy = check.check_tidy(before, check.present(checkout, home))
    assert tidy.failed and tidy.output == "".join(f"left behind: {path}\n" for path in sorted(map(str, new)))
