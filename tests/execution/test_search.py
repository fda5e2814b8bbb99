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
    monkeypatch.setattr(search, "_FILE_SECONDS", 0.1)
    seen: list[int] = []
    compile = search._compile

    def watched(expression: str) -> SimpleNamespace:
        def finditer(text: str, begin: int, end: int, **rest: float) -> Iterator[regex.Match[str]]:
            seen.append(end - begin)
            return compile(expression).finditer(text, begin, end, **rest)

        return SimpleNamespace(finditer=finditer, pattern=expression)

    monkeypatch.setattr(search, "_compile", watched)
    (tmp_path / "min.js").write_text("x" * 1_000_000)
    with pytest.raises(UserError, match="takes too long"):
        search_tree(str(tmp_path), FileSearch(pattern=pattern))
    assert seen and max(seen) <= 64 << 10


def test_what_crosses_windows_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{number} begin\nend\n{'-' * (number % 90)}\n" for number in range(500))
    (tmp_path / "a.txt").write_text(text)
    for pattern in (r"begin$\n^end", r"^\d+ begin$", r"-+$", r"(?<=\d )begin", r"\b\w", r"^", r"[^x]+d"):
        search_all = FileSearch(pattern=pattern, limit=5000)
        monkeypatch.setattr(search, "_WINDOW", 10 * len(text))
        monkeypatch.setattr(search, "_CHUNK", 10 * len(text))
        whole = search_tree(str(tmp_path), search_all)
        monkeypatch.setattr(search, "_WINDOW", 400)
        monkeypatch.setattr(search, "_CHUNK", 100)
        assert search_tree(str(tmp_path), search_all) == whole and len(whole.matches) > 400
    (tmp_path / "a.txt").write_text("x" * 3000 + "needle")
    assert len(search_tree(str(tmp_path), FileSearch(pattern="x+needle")).matches) == 1


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        (r"^\s*def \w+", [4, 8]),
        (r"^\s*(import|def)\s", [1, 4, 8]),
        (r"\s+return", [5]),
        (r"os[^.]", []),
        (r"[^#]*foo", [4, 9]),
        (r"\)\W", [4, 8]),
        (r"[^a-z]*$\W*", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("^$", [2, 3, 6, 7]),
        (r"\s*+$", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (r"foo\b(?!\W)", []),
        (r":(?!\s)", [4, 8]),
        (r":\s*return", []),
        (r":\n\s*return", [4]),
        (r"(?s)return.*bar", [5]),
        (r"import[\s\S]*?return", [1]),
        (r"foo[^\n]*\W", [4, 9]),
        (r"\Adef", [4, 8]),
        ("(?i)über", [10]),
        ("caf.$", [10]),
        (r"\bstra.e\b", [10]),
        ("M[üö]ller", [10]),
        ("[ä-ö]", [10]),
        ("^[^a]ber", [10]),
    ],
)
def test_lines_are_searched_each_for_itself_and_as_characters(
    tmp_path: Path, pattern: str, numbers: list[int]
) -> None:
    text = "import os\n\n\ndef foo():\n    return 1\n\n\ndef bar():\n    call(foo)\nÜber Müller straße café\n"
    for mark in ("", "\ufeff"):
        (tmp_path / "a.py").write_text(mark + text)
        found = search_tree(str(tmp_path), FileSearch(pattern=pattern))
        assert [match.line for match in found.matches] == numbers


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
        ("*.log", "!keep.log", "a.log|sub/a.log|sub/deep/a.log"),
        ("/sub/*.log", "", "sub/a.log|sub/keep.log"),
        ("sub/**", "", "sub/a.log|sub/deep/a.log|sub/keep.log"),
        ("**/deep", "", "sub/deep/a.log"),
        ("sub/**/a.log", "", "sub/a.log|sub/deep/a.log"),
        ("*\n!*/\n!keep.*", "", "a.log|sub/a.log|sub/deep/a.log"),
        ("s*b/", "", "sub/a.log|sub/deep/a.log|sub/keep.log"),
        ("", "/deep/\n[ak]*", "sub/a.log|sub/deep/a.log|sub/keep.log"),
        ("s?b/{a,keep}.log\n\\#x", "", ""),
        ("\\#h\n\\!k\n \nsp\\ ace \n\\[z\\]\nq\\?\n\\*.log\nt\\ ", "", "#h|!k|[z]|q?|sp ace|t "),
        ("  a.log\n  #h\nt ", "", ""),
    ],
)
def test_what_is_ignored_is_what_git_ignores(tmp_path: Path, rules: str, inner: str, hidden: str) -> None:
    names = ["a.log", "sub/a.log", "sub/deep/a.log", "sub/keep.log"]
    if "a.log" not in hidden:
        names = ["#h", "!k", "[z]", "q?", "q1", "sp ace", "t ", *names]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text(rules)
    (tmp_path / "sub" / ".gitignore").write_text(inner)
    found = {match.path for match in search_tree(str(tmp_path), FileSearch(pattern="^x")).matches}
    ours = [name for name in names if str(tmp_path / name) not in found]
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    judged = subprocess.run(
        [*git, "check-ignore", "-z", "--stdin"],
        input="\0".join(names),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ours == judged.stdout.split("\0")[:-1] == [name for name in hidden.split("|") if name]


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


@pytest.mark.parametrize(
    "pattern",
    [
        "(?R)?b",
        "(a(?1)?)b",
        "(?P<x>a(?&x)?)",
        "(?:(?:a{999}){999}){3}",
        "(" * 3000 + ")" * 3000,
        "(" * 60 + ")" * 60,
    ],
)
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
