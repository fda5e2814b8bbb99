"""Searching with ripgrep and without finds the same, in the same order, whatever is hidden or odd; and in
plain trees what ripgrep itself finds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hermes.domain.ports.world import FileSearch
from hermes.execution.files import candidates
from hermes.execution.files.search import search_tree
from tests.execution.beds import install

pytestmark = pytest.mark.server
PATTERNS = (
    "needle", r"needle\d+", "^x", "x$", "(?i)NEEDLE", r"a\s+b", r"\W", "[^a-z]", "é", r"(?<=x)y", r"(.)\1",
    "é{2}", r"\bword\b", "a{,3}b", "never there", ".",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    install("ripgrep", "rg")
    texts = {
        "a.txt": "needle1\nxy\nword a\n", "b/c.py": "a\n  b\nneedle22 x\n", "b-x/d": "éé x\n",
        "b.txt": "aab\n",
        "ignored.log": "needle\n", "sub/.gitignore": "*.tmp\n!keep.tmp\n/only/\n", "sub/x.tmp": "needle\n",
        "sub/keep.tmp": "needle\n", "sub/only/f": "needle\n", "deep/only/f": "needle\n",
        ".gitignore": "*.log\n",
        "node_modules/m.js": "needle\n", "x/node_modules/m.js": "needle\n", ".hidden/h": "needle\n",
        "closed/secret": "needle\n", "crlf": "needle\r\nx\r\n", "empty": "",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "binary").write_bytes(b"needle\0needle\n")
    (tmp_path / "latin").write_bytes("né needle\n".encode("latin-1"))
    (tmp_path / "utf16").write_bytes("needle\n".encode("utf-16"))
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("unhidden", [False, True])
def test_what_is_found_is_the_same_with_and_without_it(
    tree: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, unhidden: bool
) -> None:
    search = FileSearch(pattern=pattern, unhidden=unhidden, closed=(str(tree / "closed"),), glob="*")
    with_it = search_tree(str(tree), search)
    monkeypatch.setattr(candidates, "_ripgrep", lambda: None)
    without = search_tree(str(tree), search)
    assert (with_it.matches, with_it.more) == (without.matches, without.more)


@pytest.mark.parametrize("glob", ["*.{py,txt}", "b/**", "!*.txt", "[ab].txt", "sub/*/f", "**/only/**"])
def test_globs_mean_what_they_mean_to_ripgrep(tree: Path, glob: str) -> None:
    (tree / ".git").mkdir()
    found = search_tree(str(tree), FileSearch(pattern="[a-z]", glob=glob, limit=500))
    judged = subprocess.run(
        [
            "rg",
            "-l",
            "--sort=path",
            "--hidden",
            "--glob=!closed",
            "--glob=!**/node_modules/**",
            "-g",
            glob,
            "[a-z]",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
    )
    ours = sorted({str(Path(one.path).relative_to(tree)) for one in found.matches} - {"closed/secret"})
    assert ours == sorted(set(judged.stdout.splitlines()) - {"utf16"})


@pytest.mark.parametrize("with_it", [True, False])
@pytest.mark.parametrize(
    "pattern",
    [
        r"needle\d+", r"^\s*async def \w+", r"^\s*(import|from)\s+\w+", r"\s+#\s", r"[^a-z]class\s+\w+", "^$",
        r"[^#]*TODO", r"except\s+\w+:\s*$", r"\w+\s*\(\s*\)", '"""[^"]*$', "(?i)über", "^caf.$",
        r"\bstra.e\b", "M[üö]ller", r"caf\w$", "[ä-ö]", r"\W\w\W", r"[^\n]*\s$", r"\r", "^.",
    ],
)  # fmt: skip
def test_it_finds_what_ripgrep_finds(
    tree: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, with_it: bool
) -> None:
    if not with_it:
        monkeypatch.setattr(candidates, "_ripgrep", lambda: None)
    (tree / "b/words").write_text("Über uns\ncafé\nstraße \nMüller und Möller\nx ä\r\n\n\n")
    (tree / "b/mark").write_text("\ufeffimport os\n\n  # TODO: x\nend")
    for name in ("candidates", "search", "ignoring"):
        source = Path(candidates.__file__).with_name(f"{name}.py")
        (tree / "b" / source.name).write_bytes(source.read_bytes())
    found = search_tree(str(tree / "b"), FileSearch(pattern=pattern, limit=5000))
    judged = subprocess.run(
        ["rg", "-n", "--no-heading", "--sort=path", "-e", pattern, str(tree / "b")],
        capture_output=True,
        text=True,
        check=False,
    )
    theirs = [":".join(line.split(":")[:2]) for line in judged.stdout.split("\n")[:-1]]
    assert sorted(f"{one.path}:{one.line}" for one in found.matches) == sorted(theirs)
