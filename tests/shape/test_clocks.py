"""No test measures its own speed: a busy machine would decide. bench/ measures, tests/effort.py counts."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
STOPWATCHES = ("perf" + "_counter", "process" + "_time", "time" + "it")


def test_no_test_has_a_stopwatch() -> None:
    with_one = [
        f"{file.relative_to(TESTS)}: {word}"
        for file in TESTS.rglob("*.py")
        for word in STOPWATCHES
        if word in file.read_text(encoding="utf-8")
    ]
    assert with_one == []
