"""Runs every check of the repository and says how each went; the work behind ./test.

Tests that fail are run once more at the end, alone: those that pass then are named as flaky, and do not fail
the run. Given a path or a pytest option it runs pytest alone, with those arguments, and nothing twice."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

USAGE = """\
./test                 lint, types, import rules, shape and the tests
./test --all           the same at full scale, with what needs servers, root or patience
./test PATH -k WORD    pytest alone, with these arguments (after --all: at full scale)
./test --help          this text

Everything runs even if something fails; the exit status is 0 only if nothing did. Tests that fail are run
once more at the end, alone; what passes then is named as flaky. A run must leave no files behind.
"""

MEMORY_BYTES = 4 * 2**30
LEFT_OUT = "not server and not root and not slow and not full"
MOST_AGAIN = 50
"""Where more tests fail than this, it is no accident: none is run again."""
LOST_WORKER = "crashed while running"
CACHES = ("__pycache__", "node_modules", "build", "dist")
HOME_PLACES = (".hermes", ".local/state/hermes", ".config/hermes", ".cache/hermes")
"""Where the program would write by itself, below the real home of whoever runs the tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    output: str = ""
    """What it said, if that was not shown while it ran."""
    again: tuple[str, ...] = ()
    """The tests that failed and may be run once more, once for each failure."""

    @property
    def line(self) -> str:
        verdict = "FAILED" if self.failed else "ok"
        return f"  {self.name:<8} {verdict:<7} {self.seconds:7.1f} s"


def environment(scale: str) -> dict[str, str]:
    """What the tests may know of the person who runs them: no keys, no home of Hermes."""
    private = ("HERMES_", "OPENAI_", "OPENROUTER_", "ANTHROPIC_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
    told = {"HERMES_TEST_SCALE": scale, "PYTHONPATH": "", "PYTHONHASHSEED": "random"}
    if not kept.keys() & {"LANG", "LC_ALL"}:
        # Python would choose this by itself, and tell it to no child whose environment a test has made.
        kept.pop("LC_CTYPE", None)
        told["LANG"] = "C.UTF-8"
    memory = Path("/dev/shm")
    if "TMPDIR" not in kept and memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES:
        told["TMPDIR"] = str(memory)  # no test asks the disk itself whether it kept what it was given
    return kept | told


def run(command: list[str], scale: str, *, quiet: bool = False) -> tuple[int, str]:
    """Exit status, and what it said if it was not to say it at once."""
    out, err = (subprocess.PIPE, subprocess.STDOUT) if quiet else (None, None)
    told = environment(scale)
    done = subprocess.run(command, cwd=ROOT, env=told, stdout=out, stderr=err, text=True, check=False)
    return done.returncode, done.stdout or ""


def run_tool(name: str, scale: str, *command: str, quiet: bool = False) -> Outcome:
    began = announce(name, quiet)
    status, output = run([sys.executable, "-m", *command], scale, quiet=quiet)
    return Outcome(
        name=name,
        passed=status == 0,
        failed=status != 0,
        skipped=0,
        seconds=time.monotonic() - began,
        output=output,
    )


def run_pytest(name: str, scale: str, *arguments: str, quiet: bool = False) -> Outcome:
    began = announce(name, quiet)
    with tempfile.TemporaryDirectory(prefix="hermes-test-") as folder:
        report = Path(folder) / "report.xml"
        command = [*pytest_command(scale), f"--junitxml={report}", *arguments]
        status, output = run(command, scale, quiet=quiet)
        total, failed, skipped = count(report)
        again = failures(report)
    if status != 0:  # also when nothing was collected, or a worker died without a report
        failed = max(failed, 1)
    return Outcome(
        name=name,
        passed=max(total - failed - skipped, 0),
        failed=failed,
        skipped=skipped,
        seconds=time.monotonic() - began,
        output=output,
        again=again if status == 1 else (),
    )


def run_again(outcomes: Sequence[Outcome], scale: str) -> tuple[list[Outcome], list[str]]:
    """Run what failed once more, one test after the other; the outcomes with what passed then counted so, and
    the names of these tests."""
    names = sorted({name for outcome in outcomes for name in outcome.again})
    if not names or len(names) > MOST_AGAIN:
        return list(outcomes), []
    second = run_pytest("again", scale, "-q", *names)
    # Fewer passed than were asked for if one failed, or if one could not even be found.
    still = set(names) if second.failed and not second.again else set(second.again)
    flaky = [name for name in names if name not in still]
    mended = []
    for outcome in outcomes:
        count = sum(name in flaky for name in outcome.again)
        mended.append(replace(outcome, passed=outcome.passed + count, failed=outcome.failed - count))
    return mended, flaky


def announce(name: str, quiet: bool) -> float:
    if not quiet:
        print(f"\n== {name}", flush=True)
    return time.monotonic()


def count(report: Path) -> tuple[int, int, int]:
    if not report.exists():
        return 0, 0, 0
    suites = list(ET.parse(report).getroot().iter("testsuite"))

    def total(*names: str) -> int:
        return sum(int(suite.get(name, "0")) for suite in suites for name in names)

    return total("tests"), total("failures", "errors"), total("skipped")


def failures(report: Path) -> tuple[str, ...]:
    """The names of tests that failed, as pytest takes them. Not those that could not be collected, nor those
    with which a worker died: another try would hide that."""
    if not report.exists():
        return ()
    found = []
    for case in ET.parse(report).getroot().iter("testcase"):
        faults = [fault for kind in ("failure", "error") for fault in case.iter(kind)]
        told = " ".join(f"{fault.get('message')} {fault.text}" for fault in faults)
        collected = case.get("file") is not None and "collection failure" not in told
        if faults and collected and LOST_WORKER not in told:
            found.append(node_id(case))
    return tuple(found)


def node_id(case: ET.Element) -> str:
    file, name = case.get("file", ""), case.get("name", "")
    # A test that has to run beside others of its group has the group's name behind its own.
    head, bracket, _ = name.rpartition("]")
    name = head + bracket if bracket else name.partition("@")[0]
    module = file.removesuffix(".py").replace("/", ".")
    inside = case.get("classname", "").removeprefix(module).strip(".")
    return "::".join([file, *(inside.split(".") if inside else ()), name])


def present(folder: Path, home: Path) -> set[Path]:
    """The files of the checkout, and those of the program in the home of whoever runs the tests."""
    files = set()
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in CACHES]
        files |= {Path(top, name) for name in names if not name.endswith(".pyc")}
    for place in HOME_PLACES:
        files |= {Path(top, name) for top, _, names in os.walk(home / place) for name in names}
    return files


def check_tidy(before: set[Path], after: set[Path]) -> Outcome:
    left = sorted(map(str, after - before))
    words = "".join(f"left behind: {path}\n" for path in left)
    return Outcome(name="tidy", passed=not left, failed=bool(left), skipped=0, seconds=0.0, output=words)


def pytest_command(scale: str) -> list[str]:
    chosen = [] if scale == "full" else ["-m", LEFT_OUT]
    return [sys.executable, "-m", "pytest", "--tb=short", "-o", "junit_family=xunit1", *chosen]


def workers() -> int:
    """Two more than there are cores: many tests wait, and somebody should work meanwhile."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (cores or 1) + 2


def run_all(scale: str) -> int:
    everywhere = [f"--numprocesses={workers()}", "--dist=loadgroup", "-q", "--ignore=tests/shape"]
    if scale == "full":
        everywhere.append("--costs=15")
    before = present(ROOT, Path.home())
    outcomes = [
        run_tool("lint", scale, "ruff", "check"),
        run_tool("format", scale, "ruff", "format", "--check"),
    ]
    with ThreadPoolExecutor(1) as aside:  # these use one core; the tests use what is left
        types = aside.submit(run_tool, "types", scale, "mypy", quiet=True)
        shape = aside.submit(run_pytest, "shape", scale, "-q", "tests/shape", quiet=True)
        tests = run_pytest("tests", scale, *everywhere)
        for done in (types.result(), shape.result()):
            print(f"\n== {done.name}\n{done.output}", end="", flush=True)
            outcomes.append(done)
    outcomes, flaky = run_again([*outcomes, tests], scale)
    outcomes.append(check_tidy(before, present(ROOT, Path.home())))
    print("\n== summary")
    for outcome in outcomes:
        print(outcome.line)
    print(outcomes[-1].output, end="")
    for name in flaky:
        print(f"  flaky: {name}")
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
    return run([*pytest_command(scale), *rest], scale)[0]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
