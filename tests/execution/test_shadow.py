"""Shadow stores, judged by real git: what they keep, and that nobody's repository or settings notice."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.execution.checkpoints import shadow as shadow_module
from hermes.execution.checkpoints.shadow import ShadowStore, SnapshotLimits, StateNotes
from hermes.execution.checkpoints.walk import list_files
from tests.execution.beds import install

LIMITS = SnapshotLimits(file=1 << 20, whole=1 << 24)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    install("git", "git")
    folder = tmp_path / "project"
    folder.mkdir()
    return Path(os.path.realpath(folder))


def make(tmp_path: Path, root: Path) -> ShadowStore:
    return ShadowStore(tmp_path / "shadow", str(root), os.environ)


def git(folder: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *args], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_states_hold_bytes_modes_and_odd_names(tmp_path: Path, root: Path) -> None:
    (root / "sub").mkdir()
    odd = 'a "quoted\\ name\nwith lines é'
    (root / "sub" / odd).write_bytes(b"\r\n\0\xff")
    (root / ".gitattributes").write_text("* text eol=lf ident filter=evil\n")
    (root / "run.sh").write_text("#!/bin/sh\n$Id$\r\n")
    (root / "run.sh").chmod(0o755)
    store = make(tmp_path, root)
    first = store.snapshot("one", LIMITS)
    (root / "sub" / odd).unlink()
    (root / "sub").rmdir()
    (root / "sub").write_text("a file now")
    (root / "run.sh").chmod(0o644)
    second = store.snapshot("two", LIMITS)
    changes = store.changes(first, second)
    assert set(changes) == {f"sub/{odd}", "sub", "run.sh"}
    (mode, object_id), gone = changes[f"sub/{odd}"]
    assert (mode, gone) == ("100644", ("", ""))
    assert store.read(object_id) == b"\r\n\0\xff"
    assert [version[0] for version in changes["run.sh"]] == ["100755", "100644"]
    assert store.read(changes["run.sh"][0][1]) == b"#!/bin/sh\n$Id$\r\n"


def test_a_change_at_the_same_moment_and_size_is_seen(tmp_path: Path, root: Path) -> None:
    store = make(tmp_path, root)
    states = []
    for number in range(5):
        (root / "a").write_text(f"{number}")
        (root / f"short-{number}").touch()
        (root / f"short-{number - 1}").unlink(missing_ok=True)
        states.append(store.snapshot(f"s{number}", LIMITS))
    assert store.snapshot("same", LIMITS) and not store.changes(states[-1], store.snapshot("again", LIMITS))
    for number, (old, new) in enumerate(pairwise(states)):
        assert set(store.changes(old, new)) == {"a", f"short-{number}", f"short-{number + 1}"}


def test_the_users_repository_notices_nothing(tmp_path: Path, root: Path) -> None:
    git(root, "init", "-q")
    hook = root / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (root / "a").write_text("1")
    nested = root / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "b").write_text("inside another repository")
    before = {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")}
    store = make(tmp_path, root)
    first = store.snapshot("one", LIMITS)
    (nested / "b").write_text("changed")
    assert set(store.changes(first, store.snapshot("two", LIMITS))) == {"nested/b"}
    assert {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")} == before
    assert git(root, "status", "--porcelain") == "?? a\n?? nested/\n"
    assert not (tmp_path / "hooked").exists()


def test_what_is_left_out(tmp_path: Path, root: Path) -> None:
    for name in (".env", "key.pem", "node_modules/x.js", "__pycache__/y.py", "ok.py", "link"):
        (root / name).parent.mkdir(exist_ok=True)
        if name != "link":
            (root / name).write_text("x")
    (root / "link").symlink_to("/etc/passwd")
    (root / "huge").write_bytes(b"x" * ((1 << 20) + 1))
    (root / "build").mkdir()
    (root / "build" / "report").write_text("x")
    found, left = list_files(str(root), 1 << 20)
    assert set(found) == {"ok.py"}
    assert set(left) == {
        ".env",
        "key.pem",
        "node_modules",
        "__pycache__",
        "link",
        "huge",
        "build",
        "build/report",
    }


def test_states_that_nobody_names_go_and_the_next_is_whole(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("1")
    (root / "b").write_bytes(os.urandom(200_000))
    store = make(tmp_path, root)
    store.snapshot("one", LIMITS)
    (root / "b").write_text("small")
    second = store.snapshot("two", LIMITS)
    store.keep({second})
    assert store.size() > 200_000, "a young state may have its row on the way"
    monkeypatch.setattr(shadow_module, "_YOUNG", -60)
    store.keep({second})
    assert store.size() < 100_000
    (root / "c").write_text("3")
    third = store.snapshot("three", LIMITS)
    assert set(store.changes(second, third)) == {"c"}
    assert "c" in store.diff(second, third)
    git(tmp_path, "--git-dir", str(tmp_path / "shadow"), "fsck", "--strict")


def test_a_name_that_is_no_text_is_left_out(tmp_path: Path, root: Path) -> None:
    (root / "a").write_text("1")
    (root / os.fsdecode(b"caf\xe9")).write_text("1")
    (root / os.fsdecode(b"d\xe9")).mkdir()
    (root / os.fsdecode(b"d\xe9") / "b").write_text("1")
    store = make(tmp_path, root)
    first = store.snapshot("one", LIMITS)
    for file in [*root.glob("*"), *root.glob("*/b")]:
        if file.is_file():
            file.write_text("2")
    assert set(store.changes(first, store.snapshot("two", LIMITS))) == {"a"}


def test_what_a_git_left_that_was_cut_off_stops_nobody(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("1")
    store = make(tmp_path, root)
    store.snapshot("one", LIMITS)
    for name in ("packed-refs.lock", "refs/checkpoints/two.lock"):
        (tmp_path / "shadow" / name).touch()
    (root / "a").write_text("2")
    second = store.snapshot("two", LIMITS)
    (tmp_path / "shadow" / "packed-refs.lock").touch()
    monkeypatch.setattr(shadow_module, "_YOUNG", -60)
    store.keep({second})
    assert git(tmp_path, "--git-dir", str(tmp_path / "shadow"), "for-each-ref").count("checkpoints") == 1


def test_why_there_is_none(tmp_path: Path, root: Path) -> None:
    (root / "a").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match="git is not installed"):
        ShadowStore(tmp_path / "none", str(root), {"PATH": "/nowhere"}).snapshot("x", LIMITS)
    with pytest.raises(UserError, match="MB that would have to be kept"):
        make(tmp_path, root).snapshot("x", SnapshotLimits(file=1000, whole=50))
    with pytest.raises(UserError, match="gone or damaged"):
        make(tmp_path, root).read("0" * 40)


def test_a_lost_base_is_made_anew(tmp_path: Path, root: Path) -> None:
    (root / "a").write_text("1")
    store = make(tmp_path, root)
    store.snapshot("one", LIMITS)
    seen = (tmp_path / "shadow" / "seen").read_bytes()
    tree = git(
        tmp_path, "--git-dir", str(tmp_path / "shadow"), "rev-parse", "refs/checkpoints/one^{tree}"
    ).strip()
    (tmp_path / "shadow" / "seen").write_bytes(seen.replace(tree.encode(), b"1" * 40))
    state = store.snapshot("two", LIMITS)
    assert not store.changes(store.snapshot("three", LIMITS), state)


def test_a_state_of_an_earlier_version_tells_nothing_beside_its_files(tmp_path: Path, root: Path) -> None:
    (root / "a").write_text("1")
    store = make(tmp_path, root)
    tree = git(tmp_path / "shadow", "rev-parse", f"{store.snapshot('one', LIMITS)}^{{tree}}").strip()
    git(tmp_path / "shadow", "config", "user.name", "hermes")
    git(tmp_path / "shadow", "config", "user.email", "hermes")
    old = git(tmp_path / "shadow", "commit-tree", "-m", "1700000000000000000", tree).strip()
    assert (store.moment(old), store.notes(old)) == (1700000000000000000, StateNotes())
