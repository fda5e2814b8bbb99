"""Searching files: expressions as models know them, and one that would never end stops nobody."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import regex

from hermes.domain.errors import UserError
from hermes.domain.ports.world import FileSearch
from hermes.execution.files import candidates, ignoring, search
from hermes.execution.files.search import search_tree

ENDLESS = [r"(a|aa)+$", r"((a{1,30}){1,30}){1,30}$"]


@pytest.fixture(autouse=True)
def without_ripgrep(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it adds is judged in `test_candidates.py`."""
    monkeypatch.setattr(candidates, "_ripgrep", lambda: None)


def lines(folder: Path, pattern: str) -> list[str]:
    return [match.text for match in search_tree(str(folder), FileSearch(pattern=pattern)).matches]


@pytest.mark.parametrize("pattern", ENDLESS)
async def test_an_endless_expression_is_given_up_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr(search, "_FILE_SECONDS", 0.5)
    (tmp_path / "r.txt").write_text("a" * 60 + "!")
    turns, over = 0, threading.Event()

    async def turn() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await asyncio.sleep(0.001)

    turning = asyncio.create_task(turn())
    with pytest.raises(UserError) as caught:
        await asyncio.to_thread(search_tree, str(tmp_path), FileSearch(pattern=pattern))
    over.set()
    await turning
    assert "takes too long in r.txt" in str(caught.value) and caught.value.hint
    assert turns > 10, "nobody else could run meanwhile"


@pytest.mark.parametrize("pattern", [r"\w+\d", r"(x+x+)+y"])
def test_a_long_line_is_never_searched_at_a_stretch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """`regex` looks at its clock after so many steps, and a step may walk over all that it is given."""
    monkeypatch.setattr(search, "_FILE_SECONDS", 0.0)
    seen: list[int] = []
    compile = search._compile

    def watched(expression: str) -> SimpleNamespace:
        def finditer(data: bytes, begin: int, end: int, **rest: float) -> Iterator[regex.Match[bytes]]:
            seen.append(end - begin)
            return compile(expression).finditer(data, begin, end, **rest)

        return SimpleNamespace(finditer=finditer)

    monkeypatch.setattr(search, "_compile", watched)
    (tmp_path / "min.js").write_text("x" * 1_000_000)
    with pytest.raises(UserError, match="takes too long"):
        search_tree(str(tmp_path), FileSearch(pattern=pattern))
    assert seen and max(seen) <= 64 << 10


def test_what_crosses_windows_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{number} begin\nend\n{'-' * (number % 90)}\n" for number in range(500))
    (tmp_path / "a.txt").write_text(text)
    for pattern in (r"begin$\n^end", r"^\d+ begin$", r"-+$", r"(?<=\d )begin", r"\b\w", r"^"):
        search_all = FileSearch(pattern=pattern, limit=5000)
        monkeypatch.setattr(search, "_WINDOW", 10 * len(text))
        whole = search_tree(str(tmp_path), search_all)
        monkeypatch.setattr(search, "_WINDOW", 400)
        assert search_tree(str(tmp_path), search_all) == whole and len(whole.matches) > 400
    (tmp_path / "a.txt").write_text("x" * 3000 + "needle")
    assert len(search_tree(str(tmp_path), FileSearch(pattern="x+needle")).matches) == 1


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.ts", "a.ts src/b.ts src/deep/c.ts"),
        ("**/*.ts", "a.ts src/b.ts src/deep/c.ts"),
        ("src/**/*.ts", "src/b.ts src/deep/c.ts"),
        ("src/*.ts", "src/b.ts"),
        ("./src/*.ts", "src/b.ts"),
        ("{root}/src/*.ts", "src/b.ts"),
        ("*.{ts,tsx}", "a.ts d.tsx src/b.ts src/deep/c.ts"),
        ("{src,lib}/**", "src/b.ts src/deep/c.ts"),
        ("**/deep/**", "src/deep/c.ts"),
        ("!*.ts", "d.tsx odd{.x"),
        ("odd{*", "odd{.x"),
        ("[ad].ts*", "a.ts d.tsx"),
    ],
)
def test_globs_are_those_that_models_write(tmp_path: Path, glob: str, names: str) -> None:
    for name in ("a.ts", "src/b.ts", "src/deep/c.ts", "d.tsx", "odd{.x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    glob = glob.replace("{root}", str(tmp_path))
    for wanted in (FileSearch(pattern="x", glob=glob), FileSearch(pattern=glob, names=True)):
        found = [Path(match.path) for match in search_tree(str(tmp_path), wanted).matches]
        files = [str(path.relative_to(tmp_path)) for path in found if path.is_file()]
        assert files == names.split(), wanted


def test_what_a_repository_ignores_is_left_out_below_it_too(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("dist/\n*.log\n/web/tmp/\n")
    for name in ("web/a.js", "web/dist/a.js", "web/a.log", "web/tmp/a.js", "web/x/tmp/a.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = search_tree(str(tmp_path / "web"), FileSearch(pattern="x")).matches
    assert [Path(match.path).relative_to(tmp_path / "web").as_posix() for match in found] == [
        "a.js",
        "x/tmp/a.js",
    ]
    assert len(search_tree(str(tmp_path / "web"), FileSearch(pattern="x", unhidden=True)).matches) == 5


@pytest.mark.parametrize(
    ("rules", "inner", "hidden"),
    [
        ("*.log", "!keep.log", "a.log sub/a.log sub/deep/a.log"),
        ("/sub/*.log", "", "sub/a.log sub/keep.log"),
        ("sub/**", "", "sub/a.log sub/deep/a.log sub/keep.log"),
        ("**/deep", "", "sub/deep/a.log"),
        ("sub/**/a.log", "", "sub/a.log sub/deep/a.log"),
        ("*\n!*/\n!keep.*", "", "a.log sub/a.log sub/deep/a.log"),
        ("s*b/", "", "sub/a.log sub/deep/a.log sub/keep.log"),
        ("", "/deep/\n[ak]*", "sub/a.log sub/deep/a.log sub/keep.log"),
        ("s?b/{a,keep}.log\n\\#x", "", ""),
    ],
)
def test_what_is_ignored_is_what_git_ignores(tmp_path: Path, rules: str, inner: str, hidden: str) -> None:
    names = ["a.log", "sub/a.log", "sub/deep/a.log", "sub/keep.log"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text(rules)
    (tmp_path / "sub" / ".gitignore").write_text(inner)
    found = {match.path for match in search_tree(str(tmp_path), FileSearch(pattern="^x")).matches}
    ours = [name for name in names if str(tmp_path / name) not in found]
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    judged = subprocess.run([*git, "check-ignore", *names], capture_output=True, text=True, check=False)
    assert ours == judged.stdout.split() == hidden.split()


def test_a_gitignore_that_never_begins_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    os.mkfifo(tmp_path / ".gitignore")
    searching = threading.Thread(target=lambda: found.extend(lines(tmp_path, "x")), daemon=True)
    found: list[str] = []
    searching.start()
    searching.join(30)
    assert found == ["x"]


def test_the_whole_search_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SECONDS", 0.3)
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text("aa\n" + "a" * 60 + "!")
    found = search_tree(str(tmp_path), FileSearch(pattern=ENDLESS[0]))
    assert found.more and found.files < 20 and [match.text for match in found.matches] == ["aa"]


@pytest.mark.parametrize(
    ("pattern", "text", "other"),
    [
        (r"\${e}", "x = `${e}`", "anything else"),
        (r"arr{i}", "arr{i}", "arr"),
        (r"f\(\{s\}\)|{d<=1}", "f({s})", "f()"),
        (r"[{}]", "{", "("),
        (r"{}", "x = {}", "x"),
        (r"\d{2,}-\d{3}", "12-345", "1-2"),
        (r"a{,2}b$", "b", "c"),
        (r"\\{", "\\{", "{"),
        (r"(?i)todo", "ToDo", "done"),
        (r"^def \w+\(", "def f(x):", "define f(x)"),
        (r"[[:digit:]]", "7", "x"),
        (r"\p{Lu}x", "Ax", "ax"),
        ("ünder$", "Ünder ünder", "under"),
    ],
)
def test_expressions_are_those_that_models_write(tmp_path: Path, pattern: str, text: str, other: str) -> None:
    (tmp_path / "a.txt").write_text(f"{other}\n{text}\n")
    assert lines(tmp_path, pattern) == [text]


@pytest.mark.parametrize("pattern", ["(", "a**b(", "(" * 50, "[z-a]"])
def test_what_is_no_expression_is_said(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(UserError, match="is not a regular expression"):
        lines(tmp_path, pattern)


@pytest.mark.parametrize("pattern", ["(?:(?:a{999}){999}){3}", "(" * 3000 + ")" * 3000, "(" * 60 + ")" * 60])
def test_what_is_too_large_is_not_even_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    compiled: list[bytes] = []
    monkeypatch.setattr(regex, "compile", lambda text, *_: compiled.append(text))
    with pytest.raises(UserError, match="cannot be searched for: it"):
        lines(tmp_path, pattern)
    assert not compiled


def test_what_is_hidden_counts_against_the_time_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        (tmp_path / f"{number:03}.log").touch()
    (tmp_path / "z.txt").write_text("a")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert lines(tmp_path, "a") == ["a"]
    # Every look at the clock takes a second.
    ticks = itertools.count()
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    found = search_tree(str(tmp_path), FileSearch(pattern="a"))
    assert found.more and not found.matches and next(ticks) < 30


def test_the_rules_of_one_folder_do_not_outlast_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / ".gitignore").write_text("".join(f"{number}.log\n" for number in range(500)))
    ticks = itertools.count()
    for module in (search, ignoring):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    assert search_tree(str(tmp_path), FileSearch(pattern="a")).more and next(ticks) < 30


def test_no_more_rules_are_read_than_are_of_use(tmp_path: Path) -> None:
    rules = [f"{number}.log" for number in range(1000)]
    (tmp_path / "a.txt").write_text("a")
    for beyond, shown in ((["a.txt", *rules], []), ([*rules, "a.txt"], ["a"])):
        (tmp_path / ".gitignore").write_text("\n".join(beyond))
        assert lines(tmp_path, "^a$") == shown
