"""Patches of several files: judged by `git apply` and `patch`, all or nothing, and harmless when repeated."""

from __future__ import annotations

import difflib
import random
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.tools.patch_format import change_text, read_patch
from hermes.domain.errors import UserError
from tests.agent.tools.test_tools import Bench

SEVERAL = """*** Begin Patch
*** Update File: a.py
@@ def two():
-    return 2
+    return 22
*** Add File: new/b.txt
+one
+two
*** Delete File: old.txt
*** Update File: c.txt
*** Move to: d.txt
 here
-there
+everywhere
*** End Patch"""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.backend.close()


def lay_out(folder: Path) -> None:
    (folder / "a.py").write_text("def one():\n    return 2\n\ndef two():\n    return 2\n")
    (folder / "old.txt").write_text("old\n")
    (folder / "c.txt").write_text("here\nthere\n")


def files(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()}


AFTER = {
    "a.py": "def one():\n    return 2\n\ndef two():\n    return 22\n",
    "new/b.txt": "one\ntwo\n",
    "d.txt": "here\neverywhere\n",
}


async def test_files_are_updated_added_deleted_and_moved_by_one_patch(bench: Bench) -> None:
    lay_out(bench.folder)
    told = await bench.text("patch", patch=SEVERAL)
    assert files(bench.folder) == AFTER
    assert "Patched a.py." in told and "Added new/b.txt." in told and "Moved c.txt to d.txt." in told
    assert "Deleted old.txt." in told and "-    return 2" in told
    bench.repeated = True
    assert "nothing was written" in await bench.text("patch", patch=SEVERAL), "a repeat changes nothing"
    assert files(bench.folder) == AFTER


@pytest.mark.parametrize(("done", "gone"), [(0, False), (1, False), (2, False), (3, False), (3, True)])
async def test_a_patch_that_a_crash_cut_off_is_finished_by_its_repeat(
    bench: Bench, done: int, gone: bool
) -> None:
    lay_out(bench.folder)
    for path, text in list(AFTER.items())[:done]:
        (bench.folder / path).parent.mkdir(exist_ok=True)
        (bench.folder / path).write_text(text)
    if gone:
        (bench.folder / "c.txt").unlink()
    bench.repeated = True
    await bench.text("patch", patch=SEVERAL)
    assert files(bench.folder) == AFTER


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (SEVERAL.replace("-there", "-elsewhere"), "Change 1 of c.txt has no place"),
        (SEVERAL.replace("@@ def two():\n", ""), r"fits 2 places \(lines 2, 5\)"),
        (SEVERAL.replace("def two", "def three"), "stands below “def three\\(\\):”"),
        (SEVERAL.replace("Update File: a.py", "Update File: none.py"), "There is no none.py"),
        (SEVERAL.replace("Add File: new/b.txt", "Add File: old.txt"), "names old.txt twice"),
        (SEVERAL.replace("Add File: new/b.txt", "Add File: e.txt"), "e.txt is there already"),
        ("nothing of the sort", "belongs to no file"),
        ("", "needs a path, or a patch"),
        ("*** Update File: a.py\nwhat?", "begins with none of"),
        ("*** Update File: a.py", "says nothing about a.py"),
    ],
)
async def test_a_patch_is_applied_whole_or_not_at_all(bench: Bench, broken: str, words: str) -> None:
    lay_out(bench.folder)
    (bench.folder / "e.txt").write_text("mine\n")
    before = files(bench.folder)
    with pytest.raises(UserError, match=words):
        await bench.use("patch", patch=broken)
    assert files(bench.folder) == before


@pytest.mark.parametrize("other", ["./a.txt", "link.txt", "sub/../a.txt", "way/a.txt"])
async def test_a_file_by_two_names_is_refused(bench: Bench, other: str) -> None:
    (bench.folder / "a.txt").write_text("one\ntwo\n")
    (bench.folder / "link.txt").symlink_to("a.txt")
    (bench.folder / "way").symlink_to(".")
    text = f"*** Update File: a.txt\n-one\n+ONE\n*** Update File: {other}\n-two\n+TWO\n"
    with pytest.raises(UserError, match="are the same file"):
        await bench.use("patch", patch=text)
    assert (bench.folder / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    "text", ["*** Delete File: link.txt", "*** Update File: link.txt\n*** Move to: b.txt\n-one\n+ONE"]
)
async def test_a_link_is_neither_deleted_nor_moved_in_place_of_its_file(bench: Bench, text: str) -> None:
    (bench.folder / "a.txt").write_text("one\n")
    (bench.folder / "link.txt").symlink_to("a.txt")
    with pytest.raises(UserError, match=r"link\.txt is a link to"):
        await bench.use("patch", patch=text)
    assert files(bench.folder) == {"a.txt": "one\n", "link.txt": "one\n"}


async def test_files_are_put_back_if_a_later_one_cannot_be_written(bench: Bench) -> None:
    lay_out(bench.folder)
    (bench.folder / "c.txt").chmod(0o751)
    (bench.folder / "bytes").write_bytes(b"\xff\0")
    (bench.folder / "bytes").chmod(0o640)
    (bench.folder / "folder").mkdir()
    before = {one: (one.read_bytes(), one.stat().st_mode) for one in bench.folder.rglob("*") if one.is_file()}
    real, gone = bench.backend.files.write, []

    async def write(session: str, path: str, data: bytes | None, **more: Any) -> None:
        if path.endswith("/last"):
            raise UserError("last cannot be removed.")
        gone.append(path)
        await real(session, path, data, **more)

    (bench.folder / "last").write_text("")
    before[bench.folder / "last"] = (b"", (bench.folder / "last").stat().st_mode)
    bench.backend.files.write = write  # type: ignore[method-assign]
    text = SEVERAL.replace("*** End Patch", "*** Delete File: bytes\n*** Delete File: last\n")
    with pytest.raises(UserError, match=r"^last cannot be removed"):
        await bench.use("patch", patch=text)
    after = {one: (one.read_bytes(), one.stat().st_mode) for one in bench.folder.rglob("*") if one.is_file()}
    assert after == before
    assert len(gone) == 12, "six were written, and put back"


async def test_what_cannot_be_put_back_is_named(bench: Bench) -> None:
    (bench.folder / "a.txt").write_text("one\n")
    (bench.folder / "last").write_text("")
    real = bench.backend.files.write

    async def write(session: str, path: str, data: bytes | None, **more: Any) -> None:
        if data != b"ONE\n":
            raise UserError("The disk is full.")
        await real(session, path, data, **more)

    bench.backend.files.write = write  # type: ignore[method-assign]
    with pytest.raises(UserError, match=r"The disk is full\..* could not be put back: a\.txt"):
        await bench.use("patch", patch="*** Update File: a.txt\n-one\n+ONE\n*** Delete File: last\n")


async def test_a_file_that_is_moved_keeps_its_mode(bench: Bench) -> None:
    (bench.folder / "run.sh").write_text("echo 1\n")
    (bench.folder / "run.sh").chmod(0o755)
    await bench.text("patch", patch="*** Update File: run.sh\n*** Move to: bin/run.sh\n-echo 1\n+echo 2\n")
    assert (bench.folder / "bin/run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("text", "hunk"),
    [
        ("a\nb\n", "-zzz\n+b"),
        ("x = 5\ny\nx = 5\n", "-x = 3\n+x = 5"),
        ("def a():\n    y\n    b\n", "@@ def a():\n-    zzz\n+    b"),
    ],
)
def test_new_lines_that_stand_elsewhere_are_not_the_change(text: str, hunk: str) -> None:
    [change] = read_patch(f"*** Update File: f\n{hunk}\n")
    with pytest.raises(UserError, match="has no place"):
        change_text("f", text, change.hunks)


async def test_each_file_that_has_to_be_asked_for_is_named_in_one_question(bench: Bench) -> None:
    text = "*** Add File: ~/.bashrc\n+x\n*** Add File: fine.txt\n+y\n*** Delete File: ~/.ssh/config"
    asked = await bench.ask("patch", patch=text)
    assert asked is not None
    assert ".bashrc" in asked.text and ".ssh/config" in asked.text and "fine.txt\nIt" not in asked.text
    other = await bench.ask("patch", patch=text.replace("+x", "+z"))
    assert other is not None and other.digest != asked.digest
    assert await bench.ask("patch", patch="*** Add File: fine.txt\n+y") is None


def test_blanks_may_differ_and_lines_that_stay_are_kept_as_they_are() -> None:
    text = "if x:\n\treturn  1 \n\ndone\n"
    [change] = read_patch("*** Update File: a\n if x:\n-    return 1\n+\treturn 2\n \n done")
    assert change_text("a", text, change.hunks) == "if x:\n\treturn 2\n\ndone\n"


def test_windows_line_ends_stay() -> None:
    [change] = read_patch("*** Update File: a\r\n one\r\n-two\r\n+three\r\n")
    assert change_text("a", "one\r\ntwo\r\n", change.hunks) == "one\r\nthree\r\n"


# --- differential ---


def edited(rng: random.Random, lines: list[str]) -> list[str]:
    """The lines after a few edits; what comes in is new, so that each patch has one meaning."""
    after = list(lines)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(after) + 1)
        fresh = [f"new {rng.random():.12f}\n" for _ in range(rng.randint(0, 3))]
        gone = rng.randint(0, 2)
        if fresh or gone:
            after[at : at + gone] = fresh
    return after


def sections_of(diff: list[str]) -> str:
    """A unified diff of one file in the other format."""
    body = [("@@" if line.startswith("@@") else line.rstrip("\n")) for line in diff[2:]]
    return "\n".join(["*** Begin Patch", "*** Update File: f.txt", *body, "*** End Patch"])


@pytest.mark.parametrize("around", ["```\n{}\n```", "apply_patch <<'EOF'\n{}\nEOF\n", "Here it is:\n{}\n"])
def test_what_models_put_around_a_patch_is_left_out(around: str) -> None:
    text = "*** Begin Patch\n*** Update File: a\n@@\n-b\n+c\n*** End Patch"
    assert read_patch(around.format(text)) == read_patch(text)


@pytest.mark.parametrize("header", ["@@", "@@ ... @@", "@@ -1,9 +1,9 @@"])
def test_a_diff_in_a_fence_or_without_numbers_is_understood(header: str) -> None:
    (change,) = read_patch(f"```diff\n--- a/a\n+++ b/a\n{header}\n x\n-y\n+z\n```\n")
    assert change_text("a", "x\ny\n", change.hunks) == "x\nz\n"


def test_line_numbers_of_a_diff_are_understood_in_sections() -> None:
    text = "*** Update File: a\n@@ -5,2 +5,2 @@ def f():\n x\n-y\n+z\n"
    (change,) = read_patch(text)
    assert change_text("a", "x\ny\n\n\nx\ny\n", change.hunks) == "x\ny\n\n\nx\nz\n"


def git_diff(folder: Path, before: str, after: str, *options: str) -> str:
    for name, text in (("old", before), ("new", after)):
        (folder / name).write_bytes(text.encode())
    done = subprocess.run(
        ["git", "diff", "--no-index", *options, "--", "old", "new"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.replace("a/old", "a/f.txt").replace("b/new", "b/f.txt")


@pytest.mark.parametrize("seed", range(60))
def test_what_git_writes_is_read_as_git_reads_it(tmp_path: Path, seed: int) -> None:
    """Also where the last line has no newline, and where lines look like parts of a patch."""
    rng = random.Random(seed)
    words = (
        "a",
        "b",
        "",
        "}",
        "-- head",
        "++ x",
        "@@ z",
        "- 1",
        "+2",
        " q",
        "index 3",
        "diff --git",
        "\\ no",
        "--",
        "- ",
    )
    for _ in range(20):
        lines = [rng.choice(words) for _ in range(rng.randint(1, 12))]
        others = list(lines)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(others) + 1)
            others[at : at + rng.randint(0, 2)] = [rng.choice(words) for _ in range(rng.randint(0, 2))]
        before = "\n".join(lines) + rng.choice(("", "\n", "\n"))
        after = "\n".join(others) + rng.choice(("", "\n", "\n"))
        if before == after or not before or not after:
            continue
        diff = git_diff(tmp_path, before, after, f"-U{rng.choice((1, 3))}")
        for text in (
            diff,
            f"From 1234 Mon Sep 17\nSubject: x\n\n---\n f.txt | 2 +-\n\n{diff}-- \n2.39.5\n\n",
        ):
            [change] = read_patch(text)
            assert change.path == "f.txt" and not change.move_to
            assert change_text("f.txt", before, change.hunks) == after, text


RENAME = "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
UPDATE = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n"


async def test_renames_new_files_and_modes_of_git_are_done_too(bench: Bench) -> None:
    folder = bench.folder
    (folder / "old.py").write_bytes(b"\xff\0")
    for name in ("x", "é b.txt", "run.sh", "gone"):
        (folder / name).write_text("x\n" if name != "gone" else "")
    text = (
        f"{RENAME}{UPDATE}"
        "diff --git a/empty one b/empty one\nnew file mode 100644\nindex 0000000..e69de29\n"
        "diff --git a/new.sh b/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/new.sh\n"
        "@@ -0,0 +1 @@\n+echo\n"
        "\\ No newline at end of file\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\nindex e69de29..0000000\n"
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        'diff --git "a/\\303\\251 b.txt" "b/\\303\\251 b.txt"\nindex 1..2 100644\n'
        '--- "a/\\303\\251 b.txt"\n+++ "b/\\303\\251 b.txt"\n@@ -1 +1 @@\n-x\n+y\n'
    )
    for bench.repeated in (False, True):
        await bench.text("patch", patch=text)
        there = {one.name: one.read_bytes() for one in folder.iterdir()}
        assert there == {
            "new.py": b"\xff\0", "x": b"y\n", "empty one": b"", "new.sh": b"echo", "run.sh": b"x\n",
            "é b.txt": b"y\n",
        }  # fmt: skip
        modes = {one.name for one in folder.iterdir() if one.stat().st_mode & 0o100}
        assert modes == {"run.sh", "new.sh"}


@pytest.mark.parametrize(
    "other",
    [
        "diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n",
        "diff --git a/p.png b/p.png\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZ\n",
        "diff --git a/x b/p.png\nsimilarity index 100%\ncopy from x\ncopy to p.png\n",
        "diff --git a/p.png b/p.png\nnew file mode 120000\n--- /dev/null\n+++ b/p.png\n@@ -0,0 +1 @@\n+x\n",
    ],
)
async def test_what_is_not_possible_is_said_and_nothing_is_done(bench: Bench, other: str) -> None:
    (bench.folder / "x").write_text("x\n")
    with pytest.raises(UserError, match=r"changes p\.png in a way that is not possible here"):
        await bench.use("patch", patch=UPDATE + other)
    assert files(bench.folder) == {"x": "x\n"}


@pytest.mark.parametrize(
    ("text", "hunk", "after"),
    [
        ("q\n", "@@ -1 +1,2 @@\n q\n+\n", "q\n\n"),
        (
            "</div>\n</div>\n</body>\n",
            "@@ -2,2 +2,3 @@\n </div>\n+</div>\n </body>\n",
            "</div>\n" * 3 + "</body>\n",
        ),
        ("b\nb\nfoo\n", "@@ -2,2 +2,3 @@\n b\n+b\n foo\n", "b\nb\nb\nfoo\n"),
        ("-- head\nselect\n", "@@ -1,2 +1,2 @@\n--- head\n+++ x\n select\n", "++ x\nselect\n"),
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ -0,0 +1 @@\n+x\n", "x\na\nb\n"),
        ("a\nb\n", "@@ -1,9 +1,9 @@\n a\n-b\n+c\n", "a\nc\n"),
        ("a\nb\n\nc\n", "@@ -1 +1 @@\n a\n-b\n+x\n\n-c\n+y\n\n", "a\nx\n\ny\n"),
    ],
)
def test_lines_are_those_of_a_diff_whatever_stands_around_them(text: str, hunk: str, after: str) -> None:
    (change,) = read_patch(f"--- a/f\n+++ b/f\n{hunk}")
    assert change_text("f", text, change.hunks) == after
    first, second = read_patch(f"--- a/f\n+++ b/f\n{hunk}\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n")
    assert change_text("f", text, first.hunks) == after and second.path == "g"


async def test_a_deletion_that_was_done_before_a_crash_holds_up_nothing(bench: Bench) -> None:
    text = "*** Update File: m1\n@@\n-dead\n*** Update File: m2\n@@\n-x\n+y\n"
    (bench.folder / "m1").write_text("keep\n")
    (bench.folder / "m2").write_text("x\n")
    with pytest.raises(UserError, match="has no place"):
        await bench.use("patch", patch=text)
    bench.repeated = True
    await bench.use("patch", patch=text)
    assert files(bench.folder) == {"m1": "keep\n", "m2": "y\n"}


@pytest.mark.parametrize("seed", range(60))
def test_it_does_what_git_apply_and_patch_do(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    before = [f"{rng.choice(('alpha', 'beta', '', '    gamma'))} {n}\n" for n in range(rng.randint(1, 60))]
    after = edited(rng, before)
    diff = list(difflib.unified_diff(before, after, "a/f.txt", "b/f.txt", n=rng.choice((1, 3))))
    if not diff or not after:
        return
    for name, command in (
        ("git", ["git", "apply", "--unidiff-zero", "-"]),
        ("patch", ["patch", "-p1", "-s"]),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "f.txt").write_text("".join(before))
        assert shutil.which(command[0]), f"{command[0]} is not installed"
        subprocess.run(command, cwd=folder, input="".join(diff), text=True, check=True)
        judged = (folder / "f.txt").read_text()
        assert judged == "".join(after)
        for text in ("".join(diff), sections_of(diff)):
            [change] = read_patch(text)
            assert change_text("f.txt", "".join(before), change.hunks) == judged
            again = change_text("f.txt", judged, change.hunks, repeated=True)
            assert again == judged, "a repeat changes nothing"
