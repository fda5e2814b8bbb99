"""Runs every check of the repository and says how each went; the work behind ./test.

Given a path or a pytest option it runs pytest alone, with those arguments."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

USAGE = """\
./test                 lint, types, import rules, shape and the tests
./test --all           the same at full scale, with what needs servers, root or patience
./test PATH -k WORD    pytest alone, with these arguments (after --all: at full scale)
./test --help          this text

Everything runs even if something fails; the exit status is 0 only if nothing did.
"""

LEFT_OUT = "not server and not root and not slow and not full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float

    @property
    def line(self) -> str:
        verdict = "FAILED" if self.failed else "ok"
        return f"  {self.name:<8} {verdict:<7} {self.seconds:7.1f} s"


def environment(scale: str) -> dict[str, str]:
    """What the tests may know of the person who runs them: no keys, no home of Hermes."""
    private = ("HERMES_", "OPENAI_", "OPENROUTER_", "ANTHROPIC_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
    return kept | {"HERMES_TEST_SCALE": scale, "PYTHONPATH": "", "PYTHONHASHSEED": "random"}


def run(command: list[str], scale: str) -> int:
    return subprocess.run(command, cwd=ROOT, env=environment(scale), check=False).returncode


def run_tool(name: str, scale: str, *command: str) -> Outcome:
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    failed = run([sys.executable, "-m", *command], scale) != 0
    return Outcome(name=name, passed=not failed, failed=failed, skipped=0, seconds=time.monotonic() - began)


def run_pytest(name: str, scale: str, *arguments: str) -> Outcome:
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hermes-test-") as folder:
        report = Path(folder) / "report.xml"
        command = [*pytest_command(scale), f"--junitxml={report}", *arguments]
        status = run(command, scale)
        total, failed, skipped = count(report)
    if status != 0:  # also when nothing was collected, or a worker died without a report
        failed = max(failed, 1)
    passed = max(total - failed - skipped, 0)
    return Outcome(name=name, passed=passed, failed=failed, skipped=skipped, seconds=time.monotonic() - began)


def count(report: Path) -> tuple[int, int, int]:
    if not report.exists():
        return 0, 0, 0
    suites = list(ET.parse(report).getroot().iter("testsuite"))

    def total(*names: str) -> int:
        return sum(int(suite.get(name, "0")) for suite in suites for name in names)

    return total("tests"), total("failures", "errors"), total("skipped")


def pytest_command(scale: str) -> list[str]:
    chosen = [] if scale == "full" else ["-m", LEFT_OUT]
    return [sys.executable, "-m", "pytest", "--tb=short", *chosen]


def run_all(scale: str) -> int:
    everywhere = ("--numprocesses=auto", "--dist=loadgroup", "-q")
    outcomes = [
        run_tool("lint", scale, "ruff", "check"),
        run_tool("format", scale, "ruff", "format", "--check"),
        run_tool("types", scale, "mypy"),
        run_pytest("shape", scale, "-q", "tests/shape"),
        run_pytest("tests", scale, *everywhere, "--ignore=tests/shape"),
    ]
    print("\n== summary")
    for outcome in outcomes:
        print(outcome.line)
    passed, failed, skipped = (
        sum(getattr(o, word) for o in outcomes) for word in ("passed", "failed", "skipped")
    )
    print(f"\n{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


def main(arguments: Sequence[str]) -> int:
    # Started from a background job, this process ignores SIGINT, and so would every program under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments and arguments[0] in ("--help", "-h"):
        print(USAGE, end="")
        return 0
    scale = "full" if "--all" in arguments else "sample"
    rest = [argument for argument in arguments if argument != "--all"]
    if not rest:
        return run_all(scale)
    return run([*pytest_command(scale), *rest], scale)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
