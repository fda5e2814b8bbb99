#!/usr/bin/env python3
"""Can the tests fail? Makes small mistakes in the source, one at a time, and names those that no test sees.

A mutant is one module with one change: a dropped `not`, `and` for `or`, a missing term of a condition, a
flipped comparison or truth value, a missing call or assignment, a number that is one too large, another
member of an enumeration, a missing keyword argument. It lives in a copy of the tree, not in the checkout."""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = "src/hermes"
FOR_TESTS = f"{SOURCES}/testing/"
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "build", "dist")
SPARE_SECONDS = 30.0
MENTIONING = 6
"""So many test files that only mention a module, besides those that bear its name."""
FOLDERS = {"control": ("control", "journeys"), "app": ("cli",), "admin": ("admin", "cli")}
"""Where the tests of a layer are, if not in the folder of its name."""
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
USAGE = """\
examples:
  tools/mutate.py src/hermes/control/jobs/ticker.py --sample 10
  tools/mutate.py --since main --sample 30 --seed 2     only lines that changed since main
  tools/mutate.py src/hermes/state/store/tables/inbox.py --tests tests/state

Tests are chosen by convention: first the files that bear the module's name or that of its folder, then some
that import it, then the folder of its layer. `--tests` names others. They must pass without a change.
A mutant is `killed` by a test that fails. It counts as `timeout` if the tests take more than twice as long as
without it, and 30 s, or longer than `--seconds`. `survived`: no test noticed. Some mutants are no mistakes,
so look at each. The exit status is 0 whatever survives.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one module: `text` instead of what stands from `start` to `end`, counted in bytes."""

    file: str
    line: int
    change: str
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


# --- making mutants --------------------------------------------------------------------------------


def make_mutants(file: str, source: bytes) -> list[Mutant]:
    """Every mutant of a module that is still a program, in the order of its lines."""
    tree = ast.parse(source)
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    members = _members(tree)
    found: dict[tuple[int, int, str], Mutant] = {}
    for node in _walk(tree):
        for what, instead in _changes(node, members):
            text = "pass" if instead is None else ast.unparse(instead)
            if isinstance(instead, ast.expr) and not isinstance(instead, ast.Constant | ast.Attribute):
                text = f"({text})"  # the operators around it must not bind otherwise than before
            assert node.end_lineno is not None and node.end_col_offset is not None
            start = offsets[node.lineno - 1] + node.col_offset
            end = offsets[node.end_lineno - 1] + node.end_col_offset
            before = " ".join(source[start:end].decode().split())
            change = f"{what}: {_short(before)} → {_short(text)}"
            mutant = Mutant(file=file, line=node.lineno, change=change, start=start, end=end, text=text)
            if _is_program(mutant.apply(source)):
                found.setdefault((start, end, text), mutant)
    return sorted(found.values(), key=lambda mutant: (mutant.line, mutant.start, mutant.text))


def _short(text: str) -> str:
    return text if len(text) <= 70 else f"{text[:67]}…"


def _is_program(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _walk(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Everything that does something: no annotations, decorators or texts."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _walk(child)


def _members(tree: ast.AST) -> dict[str, list[str]]:
    """The members of each enumeration that a module names, by the way they are written."""
    members: defaultdict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if _is_member(node):
            members[node.value.id].add(node.attr)  # type: ignore[attr-defined]
    return {name: sorted(names) for name, names in members.items()}


def _is_member(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    name = node.value.id
    return name[0].isupper() and not name.isupper() and node.attr.isupper() and isinstance(node.ctx, ast.Load)


def _changes(node: ast.AST, members: dict[str, list[str]]) -> Iterator[tuple[str, ast.AST | None]]:
    """What may stand in the place of a node; nothing (None) only for a statement."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "drop not", operand
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "swap and/or", ast.BoolOp(op=other, values=values)
            for place in range(len(values)):
                rest = values[:place] + values[place + 1 :]
                yield "drop a term", rest[0] if len(rest) == 1 else ast.BoolOp(op=op, values=rest)
        case ast.Compare(ops=[op]):
            yield "flip comparison", _with(node, ops=[FLIPPED[type(op)]()])
        case ast.Constant(value=bool() as value):
            yield "flip truth", ast.Constant(value=not value)
        case ast.Constant(value=int() as value):
            yield "one more", ast.Constant(value=value + 1)
        case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
            if not _is_log(call):
                yield "drop call", None
        case ast.Assign(targets=[ast.Attribute()]) | ast.AugAssign(target=ast.Attribute()):
            yield "drop assignment", None
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if _is_member(node):
            for other_member in [member for member in members[name] if member != attr][:2]:
                yield "other member", _with(node, attr=other_member)
        case ast.Call(keywords=keywords) if not _is_log(node):
            for place, keyword in enumerate(keywords):
                if keyword.arg is not None:
                    yield (
                        f"drop {keyword.arg}=",
                        _with(node, keywords=keywords[:place] + keywords[place + 1 :]),
                    )


def _with(node: ast.AST, **changes: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _is_log(call: ast.Call) -> bool:
    """What is only logged needs no test."""
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ("log", "logging")


# --- choosing: modules, lines, tests ---------------------------------------------------------------


def changed_lines(diff: str) -> dict[str, set[int]]:
    """The lines of each module that are new or other than before, read off a diff without context."""
    lines: defaultdict[str, set[int]] = defaultdict(set)
    file = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ ").removeprefix("b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines[file] |= set(range(first, first + count))
    return {file: chosen for file, chosen in lines.items() if chosen and not file.startswith(FOR_TESTS)}


def diff_since(revision: str) -> str:
    command = ["git", "diff", "-U0", "--no-ext-diff", "--no-color", revision, "--", f"{SOURCES}/*.py"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def find_tests(file: str, tests: Path) -> list[str]:
    """Tests for a module: files that bear its name or that of its folder, some that import it (those that
    import little come first), and the folder of its layer."""
    module = file.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    layer, *inside = module.split(".")[1:] or [""]
    names = {name for stem in inside for name in (stem, f"{stem}s", stem.removesuffix("s"))}
    named, mentioning = [], []
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if names & set(path.stem.split("_")[1:]):
            named.append(path)
        elif re.search(rf"\b{re.escape(module)}\b", text):
            mentioning.append((text.count("\nfrom hermes."), path))
    further = [path for _, path in sorted(mentioning)[:MENTIONING]]
    folders = [tests / name for name in FOLDERS.get(layer, (layer,)) if (tests / name).is_dir()]
    return [str(path.relative_to(tests.parent)) for path in [*named, *further, *folders]]


# --- running ---------------------------------------------------------------------------------------


class Bench:
    """A copy of the tree in which mutants are tried."""

    def __init__(self, tree: Path, seconds: float | None) -> None:
        self._tree = tree
        self._seconds = seconds
        self._limits: dict[tuple[str, ...], float] = {}

    def limit(self, tests: Sequence[str]) -> float:
        """How long these tests may take with a mutant; they are run once without one."""
        key = tuple(tests)
        if key not in self._limits:
            began = time.monotonic()
            status, words = self._run(tests, self._seconds)
            took = time.monotonic() - began
            if status != 0:
                raise SystemExit(f"Without a change they do not pass in time: {' '.join(tests)}\n{words}")
            self._limits[key] = self._seconds or 2 * took + SPARE_SECONDS
        return self._limits[key]

    def try_out(self, mutant: Mutant, tests: Sequence[str]) -> str:
        limit = self.limit(tests)
        path = self._tree / mutant.file
        source = path.read_bytes()
        path.write_bytes(mutant.apply(source))
        try:
            status, _ = self._run(tests, limit)
        finally:
            path.write_bytes(source)
        return "timeout" if status is None else "killed" if status else "survived"

    def _run(self, tests: Sequence[str], seconds: float | None) -> tuple[int | None, str]:
        """The exit status of the tests, None if they took too long, and the end of what they said."""
        python = ROOT / ".venv-test" / "bin" / "python"
        command = [str(python if python.exists() else sys.executable), "-P", "tools/check.py"]
        running = subprocess.Popen(
            [*command, *tests, "-x", "-q", "-p", "no:cacheprovider"],
            cwd=self._tree,
            # A mutant may be as long as the module and as old: no compiled copy may stand in for it.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            words, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(running)
            return None, ""
        except KeyboardInterrupt:
            _end(running)
            raise
        return running.returncode, words[-1500:]


def _end(running: subprocess.Popen[str]) -> None:
    """Let pytest put away what it has begun; then be firm."""
    for sign, patience in ((signal.SIGINT, 10.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(running.pid, sign)
            running.communicate(timeout=patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
        return


# --- the command -----------------------------------------------------------------------------------


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="modules below src/hermes")
    parser.add_argument("--since", metavar="REV", help="instead: the lines that changed since a revision")
    parser.add_argument("--sample", type=int, metavar="N", help="so many, chosen at random (default: all)")
    parser.add_argument("--seed", default="1", metavar="S", help="chooses another sample (default: 1)")
    parser.add_argument("--tests", default="", metavar="EXPR", help="what pytest is to run instead")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long the tests may take")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    chosen = parser.parse_args(given)
    if bool(chosen.files) == bool(chosen.since):
        parser.error("name modules, or a revision with --since")
    return chosen


def choose_mutants(chosen: argparse.Namespace) -> list[Mutant]:
    named = {str(Path(file).resolve().relative_to(ROOT)) for file in chosen.files}
    lines = changed_lines(diff_since(chosen.since)) if chosen.since else dict.fromkeys(named)
    mutants = [
        mutant
        for file, wanted in sorted(lines.items())
        for mutant in make_mutants(file, (ROOT / file).read_bytes())
        if wanted is None or mutant.line in wanted
    ]
    if chosen.sample is not None and chosen.sample < len(mutants):
        picked = random.Random(chosen.seed).sample(range(len(mutants)), chosen.sample)
        mutants = [mutants[number] for number in sorted(picked)]
    return mutants


def main(given: Sequence[str]) -> int:
    chosen = read_arguments(given)
    mutants = choose_mutants(chosen)
    results: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="hermes-mutants-") as folder:
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT, symlinks=True)
        bench = None if chosen.list else Bench(tree, chosen.seconds)
        for mutant in mutants:
            tests = chosen.tests.split() or find_tests(mutant.file, ROOT / "tests")
            result = "" if bench is None else bench.try_out(mutant, tests) if tests else "survived"
            results[result] += 1
            print(f"{result:<9} {mutant.file}:{mutant.line}  {mutant.change}", flush=True)
    total = len(mutants)
    if chosen.list or not total:
        print(f"{total} mutants")
        return 0
    counts = ", ".join(f"{results[word]} {word}" for word in ("killed", "timeout", "survived"))
    print(f"\n{total} mutants: {counts}; {100 * (total - results['survived']) / total:.0f} % noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
