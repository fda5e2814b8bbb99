"""Files: what reading one and searching 50,000 takes, the latter beside ripgrep where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.figure import Figure
from hermes.domain.ports.world import FileSearch
from hermes.execution.files.search import search_tree
from hermes.execution.files.work import read_file

_LINES = "def greet():\n    return 1\n" * 20


def measure(folder: Path, quick: bool) -> list[Figure]:
    tree = folder / "tree"
    for number in range(5_000 if quick else 50_000):
        place = tree / str(number % 100)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.py").write_text(_LINES + ("needle\n" if number % 1000 == 0 else ""))
    ours = _best(lambda: search_tree(str(tree), FileSearch(pattern="needle")))
    read = _best(lambda: read_file(str(tree / "0" / "0.py"), 0, 1 << 20, follow=False))
    figures = [
        Figure(bench="files", name="read a file", value=read * 1e3, unit="ms", target=2.0),
        Figure(bench="files", name="search all files", value=ours * 1e3, unit="ms"),
    ]
    program = shutil.which("rg")
    if program is not None:
        command = [program, "-n", "needle", str(tree)]
        theirs = _best(lambda: subprocess.run(command, capture_output=True, check=False))
        ratio = ours / theirs
        figures.append(Figure(bench="files", name="search, × ripgrep", value=ratio, unit="×", target=2.0))
    return figures


def _best(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best
