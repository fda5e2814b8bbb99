"""`tools/mutate.py`: which mutants it makes, how it finds tests, and that it works beside the checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import mutate

FILE = "src/hermes/control/some.py"
PLACE = "src/hermes/control/sums.py"


def changes(text: str) -> list[str]:
    return [mutant.change for mutant in mutate.make_mutants(FILE, text.encode())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = not a", ["drop not: not a → a"]),
        (
            "x = a and b and c",
            [
                "drop a term: a and b and c → (a and b)",
                "drop a term: a and b and c → (a and c)",
                "swap and/or: a and b and c → (a or b or c)",
                "drop a term: a and b and c → (b and c)",
            ],
        ),
        ("x = a < b", ["flip comparison: a < b → (a >= b)"]),
        ("x = a is None", ["flip comparison: a is None → (a is not None)"]),
        ("x = a in b", ["flip comparison: a in b → (a not in b)"]),
        ("x = True", ["flip truth: True → False"]),
        ("x = 41", ["one more: 41 → 42"]),
        ("f(x)", ["drop call: f(x) → pass"]),
        ("async def g():\n    await f(x)", ["drop call: await f(x) → pass"]),
        ("self.x = y", ["drop assignment: self.x = y → pass"]),
        ("self.x += y", ["drop assignment: self.x += y → pass"]),
        ("x = y", []),
        ("x = f(a, b=c, **d)", ["drop b=: f(a, b=c, **d) → (f(a, **d))"]),
        (
            "x = State.ON\ny = State.OFF",
            ["other member: State.ON → State.OFF", "other member: State.OFF → State.ON"],
        ),
    ],
)
def test_what_mutants_are_made(text: str, expected: list[str]) -> None:
    assert [change.replace("(a)", "a") for change in changes(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "def f(a: 'x | None' = None) -> bool: ...",
        "x: Literal[1]",
        '"""A text of 3 lines."""',
        "@dataclass(frozen=True)\nclass A: ...",
        "x = f'{a and 3:>4}'",
        "log.info('done %d', b, extra=c)",
    ],
)
def test_what_does_nothing_is_left_alone(text: str) -> None:
    assert changes(text) == []


def test_a_change_is_made_in_its_place_and_binds_as_before() -> None:
    source = "ä = 'ö'; x = a and not (b or c)  # ü\n".encode()
    (mutant,) = [one for one in mutate.make_mutants(FILE, source) if one.change.startswith("drop not")]
    assert mutant.apply(source).decode() == "ä = 'ö'; x = a and (b or c)  # ü\n"
    assert (mutant.file, mutant.line) == (FILE, 1)


def test_only_programs_are_mutants() -> None:
    assert changes("match x:\n    case a.b | a.c if y: ...") == []
    assert changes("def f():\n    for x in y:\n        if x: continue\n        return") == []


def test_lines_that_changed() -> None:
    diff = (
        "--- a/src/hermes/a.py\n+++ b/src/hermes/a.py\n"
        "@@ -1,2 +3,2 @@ def f\n@@ -9 +12 @@\n@@ -20,4 +24,0 @@\n"
        "--- a/src/hermes/gone.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n"
        "--- a/src/hermes/testing/b.py\n+++ b/src/hermes/testing/b.py\n@@ -1 +1 @@\n"
    )
    assert mutate.changed_lines(diff) == {"src/hermes/a.py": {3, 4, 12}}


def test_tests_are_found_by_name_by_import_and_by_layer(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    for name, text in {
        "journeys/test_doors.py": "",
        "journeys/test_other.py": "",
        "cli/test_imports.py": "from hermes.control.door import open\n",
        "cli/test_not.py": "from hermes.control.doorway import open\n",
        "control/test_door_keys.py": "",
    }.items():
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / name).write_text(text)
    found = mutate.find_tests("src/hermes/control/door.py", tests)
    named = ["tests/control/test_door_keys.py", "tests/journeys/test_doors.py"]
    assert found == [*named, "tests/cli/test_imports.py", "tests/control", "tests/journeys"]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small product with a test that sees only half of it."""
    tree = tmp_path / "product"
    plain = "-p no:schemathesis -p no:hypothesispytest -p no:asyncio"
    for name, text in {
        "src/hermes/__init__.py": "",
        "src/hermes/control/__init__.py": "",
        PLACE: "def larger(a, b):\n    return a > b\n\n\ndef smaller(a, b):\n    return a < b\n",
        "tests/control/test_sums.py": "from hermes.control.sums import larger\n\n\n"
        "def test_larger():\n    assert larger(2, 1)\n",
        "pytest.ini": f"[pytest]\npythonpath = src\naddopts = {plain}\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    shutil.copytree(mutate.ROOT / "tools", tree / "tools", ignore=mutate.LEFT_OUT)
    monkeypatch.setattr(mutate, "ROOT", tree)
    return tree


def look(tree: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def test_mutants_are_tried_beside_the_checkout(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = look(tree)
    assert mutate.main([str(tree / PLACE)]) == 0
    assert look(tree) == before
    assert capsys.readouterr().out.splitlines() == [
        f"killed    {PLACE}:2  flip comparison: a > b → (a <= b)",
        f"survived  {PLACE}:6  flip comparison: a < b → (a >= b)",
        "",
        "2 mutants: 1 killed, 0 timeout, 1 survived; 50 % noticed",
    ]


def test_a_mutant_that_hangs_is_ended(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = "import time\n\n\ndef test_hangs():\n    time.sleep(600)\n"
    (tree / "tests" / "control" / "test_hangs.py").write_text(hangs)
    bench = mutate.Bench(tree, 2.0)
    monkeypatch.setattr(bench, "limit", lambda tests: 2.0)
    mutant = mutate.make_mutants(PLACE, (tree / PLACE).read_bytes())[0]
    assert bench.try_out(mutant, ["tests/control/test_hangs.py"]) == "timeout"


def test_tests_that_fail_anyway_are_refused(tree: Path) -> None:
    (tree / "tests" / "control" / "test_sums.py").write_text("def test_bad(): assert False\n")
    with pytest.raises(SystemExit, match="Without a change"):
        mutate.main([str(tree / PLACE), "--sample", "1"])


def test_a_sample_is_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    module = str(mutate.ROOT / "src/hermes/control/jobs/ticker.py")
    said = []
    for seed in ("1", "1", "2"):
        mutate.main([module, "--list", "--sample", "5", "--seed", seed])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2] and said[0].endswith("5 mutants\n")


@pytest.mark.parametrize("given", [[], ["--since", "main", "src/hermes/cli.py"]])
def test_modules_or_a_revision(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        mutate.main(given)
    assert "name modules, or a revision with --since" in capsys.readouterr().err
