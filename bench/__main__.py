"""`python -m bench`: runs the benches, each run in a process of its own, and prints a table (or JSON)."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.figure import Better, Figure, choose, gather, table
from bench.machine import machine

ROOT = Path(__file__).resolve().parent.parent
BENCHES = (
    "budget",
    "path",
    "stream",
    "http",
    "start",
    "chat",
    "accept",
    "burst",
    "turns",
    "memory",
    "recovery",
    "feed",
    "hooks",
    "sandboxes",
    "platforms",
    "text",
    "redaction",
    "danger",
    "files",
    "history",
    "memory_recall",
    "mcp",
    "agents",
)


def main() -> int:
    chosen = _arguments()
    facts = machine(chosen.folder)
    runs: list[list[Figure]] = []
    failed = False
    for name in chosen.names or BENCHES:
        for number in range(chosen.runs):
            print(f"{name} {number + 1}/{chosen.runs} …", file=sys.stderr, flush=True)
            figures = _run(name, chosen.quick, chosen.folder)
            failed = failed or figures is None
            runs.append(figures or [])
    together = gather(runs)
    best = [choose(figures) for figures in together]
    if chosen.json:
        values = [
            asdict(one) | {"runs": [run.value for run in all_]}
            for one, all_ in zip(best, together, strict=True)
        ]
        print(json.dumps({"machine": facts, "quick": chosen.quick, "figures": values}, indent=2))
    else:
        print(" · ".join(f"{name} {value}" for name, value in facts.items()))
        quick = "quick, " if chosen.quick else ""
        print(f"{quick}best of {chosen.runs}; of faults the worst, of × the middle\n")
        print(table(best))
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures the gateway; never judges."
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"what to measure: {', '.join(BENCHES)} (all)"
    )
    parser.add_argument(
        "--runs", type=int, default=3, metavar="N", help="runs of each; the best is shown (3)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller loads: to see that it works, not to compare"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with the value of every run")
    parser.add_argument("--folder", type=Path, help="where databases are put (the system's temporary folder)")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    if chosen.runs < 1:
        parser.error("--runs is at least 1")
    return chosen


def _run(name: str, quick: bool, place: Path | None) -> list[Figure] | None:
    """The figures of one run; None, with the reason on stderr, if it could not be measured."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir=place, ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "bench.child", name, folder, *(["--quick"] if quick else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False)
    if done.returncode != 0:
        print(f"{name} could not be measured (exit {done.returncode})", file=sys.stderr)
        return None
    return [Figure(**row | {"better": Better(row["better"])}) for row in json.loads(done.stdout)]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
