"""Patching: which place is meant, what goes there, and that a second time changes nothing."""

from __future__ import annotations

import asyncio
import difflib
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.tools import patch as patching
from hermes.agent.tools import replacing
from hermes.agent.tools.difference import difference_of
from hermes.agent.tools.files import syntax_note
from hermes.agent.tools.replacing import apply_patch
from hermes.domain.errors import UserError
from tests.agent.tools.test_tools import Bench

TEXT = "def a():\n    return 1\n\n\ndef b():\n    x = 'it'\n    return 2\n"


def test_exact() -> None:
    assert apply_patch(TEXT, "return 1", "return 3") == TEXT.replace("return 1", "return 3")


def test_blanks_may_differ() -> None:
    patched = apply_patch(TEXT, "def b():\n  x = ‘it’\n  return  2", "def b():\n  return 9")
    assert patched == "def a():\n    return 1\n\n\ndef b():\n  return 9\n"


def test_the_indentation_of_the_file_is_kept() -> None:
    assert apply_patch(TEXT, "x = ‘it’\nreturn 2", "if x:\n    return 2\nreturn 3") == TEXT.replace(
        "    x = 'it'\n    return 2\n", "    if x:\n        return 2\n    return 3\n"
    )


def test_several_places() -> None:
    with pytest.raises(UserError, match=r"2 times \(lines 2, 7\)"):
        apply_patch(TEXT, "return ", "yield ")
    assert apply_patch(TEXT, "return ", "yield ", every=True).count("yield ") == 2


def test_no_place_shows_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        apply_patch(TEXT, "    y = 'it'\n    return 2", "z")
    assert "6|    x = 'it'" in str(caught.value)
    with pytest.raises(UserError, match="Nothing in the file is like it"):
        apply_patch(TEXT, "§§§§§§§§", "z")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"    x = 'it'\n    return 2", r"    x = \"on\"\n    return 3"),
        ("    x = \\'it\\'\n    return 2", '    x = \\"on\\"\n    return 3'),
        ("6|    x = 'it'\n7|    return 2", '6|    x = "on"\n7|    return 3'),
    ],
)
def test_what_a_model_added_to_both_is_taken_off(old: str, new: str) -> None:
    patched = apply_patch(TEXT, old, new)
    assert patched == TEXT.replace("x = 'it'\n    return 2", 'x = "on"\n    return 3')
    assert apply_patch(patched, old, new, repeated=True) == patched


def test_backslashes_of_the_text_itself_stay() -> None:
    text = r'say("a\n")' + "\nend\n"
    changed = text.replace('"a', '"b')
    assert apply_patch(text, r'"a\n"', r'"b\n"') == changed
    assert apply_patch(text, r"say(\"a\\n\")\nend", r"say(\"b\\n\")\nend") == changed


def test_empty_and_equal() -> None:
    for old, new in (("", "x"), ("x", "x")):
        with pytest.raises(UserError):
            apply_patch(TEXT, old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return 1", "return 3"),
        ("return 1", "return 1  # one"),
        ("return 1", "x = 1\n    return 1"),
        ("1", "11"),
    ],
)
def test_a_patch_that_is_there_is_recognised(old: str, new: str) -> None:
    once = apply_patch(TEXT, old, new)
    assert once != TEXT
    assert apply_patch(once, old, new, repeated=True) == once
    assert apply_patch(TEXT, old, new, repeated=True) == once


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("total = 15\nretries = 4\n", "retries = 3", "5"),
        ("total = 15\nretries = 4\n", "retries = 3", "retries"),
        ("total = 15\nretries = 50\n", "retries = 3", "retries = 5"),
        ("a\nb\n", "zzz", "b"),
        ("x = 5\nx = 5\n", "x = 3", "x = 5"),
    ],
)
def test_new_text_that_stands_elsewhere_is_not_the_change(text: str, old: str, new: str) -> None:
    with pytest.raises(UserError, match="old was not found"):
        apply_patch(text, old, new)


def test_a_place_that_is_only_alike_is_changed_although_the_new_text_stands_elsewhere() -> None:
    text = "if a:\n    retries  =  3\nretries = 5\n"
    once = apply_patch(text, "retries = 3", "retries = 5")
    assert once == "if a:\n    retries = 5\nretries = 5\n"


def test_a_change_of_blanks_is_not_repeated() -> None:
    once = apply_patch("if a:\n        x = 1\n", "        x = 1", "    x = 1")
    assert once == "if a:\n    x = 1\n"
    assert apply_patch(once, "        x = 1", "    x = 1", repeated=True) == once


@given(
    st.text("ab \n", max_size=30),
    st.text("ab\n", min_size=1, max_size=4),
    st.text("ab\n", min_size=1, max_size=6),
)
def test_repeating_never_changes_more(text: str, old: str, new: str) -> None:
    try:
        once = apply_patch(text, old, new)
        twice = apply_patch(once, old, new, repeated=True)
    except UserError:
        return
    assert twice == once or old in once


@given(st.text("ab \n", max_size=30), st.text("ab\n", min_size=1, max_size=4), st.text("ab\n", max_size=6))
def test_what_is_found_is_replaced_as_python_does(text: str, old: str, new: str) -> None:
    """Unless it is the repeat of a call, what stands around it says nothing."""
    if old in text and old != new:
        assert apply_patch(text, old, new, every=True) == text.replace(old, new)
        once = apply_patch(text, old, new, every=True, repeated=True)
        assert once in (text, text.replace(old, new)), "all places or none"


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("if a:\n  b\n  if c:\n    d\n", "  ", "    "),
        ("a\n\nb\nc\n", "\n", "\n\n"),
        ("it's ''q''", "'", "''"),
        ("  }\n}\nexport default f\n", "}\nexport default", "}\n}\nexport default"),
        ("</div>\n</div>\n</body>\n", "</div>\n</body>", "</div>\n</div>\n</body>"),
        ("import os\n\ndef b(): pass\n", "\ndef b", "\n\ndef b"),
    ],
)
def test_a_line_like_its_neighbour_is_added(text: str, old: str, new: str) -> None:
    every = text.count(old) > 1
    changed = apply_patch(text, old, new, every=every)
    assert changed == text.replace(old, new)
    assert apply_patch(changed, old, new, every=every, repeated=True) == changed


def test_what_a_model_remembers_wrongly_is_not_done() -> None:
    with pytest.raises(UserError, match="old was not found"):
        apply_patch("f(a)\n\nf(a, b)\n", "f(a,c)", "f(a)")


@pytest.mark.parametrize("name", ["patch", "write_file", "patch of several"])
async def test_calls_that_change_one_file_at_the_same_time_lose_nothing(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path)
    file = bench.folder / "f.txt"
    file.write_text("".join(f"{number}\n" for number in range(10)))
    (bench.folder / "link").symlink_to("f.txt")

    def change(number: int) -> dict[str, object]:
        path = ("f.txt", "link", "./f.txt")[number % 3]
        if name == "patch of several":
            other = f"*** Add File: {number}.txt\n+x\n"
            return {"patch": f"{other}*** Update File: {path}\n-{number}\n+new {number}"}
        return {"path": path, "old": f"{number}\n", "new": f"new {number}\n"}

    calls = [bench.text("patch", **change(number)) for number in range(10)]
    if name == "write_file":
        calls.insert(5, bench.text("write_file", path="f.txt", content=file.read_text() + "more\n"))
    told = await asyncio.gather(*calls)
    await bench.backend.close()
    if name == "write_file":
        assert "more" in file.read_text(), told
    else:
        assert [n for n in range(10) if f"new {n}\n" not in file.read_text()] == [], told


# --- large files ---


def test_looking_for_the_nearest_place_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Counting(difflib.SequenceMatcher[str]):
        def set_seq1(self, a: object) -> None:
            sizes.append(len(a))  # type: ignore[arg-type]
            super().set_seq1(a)  # type: ignore[arg-type]

    monkeypatch.setattr(difflib, "SequenceMatcher", Counting)
    with pytest.raises(UserError) as caught:
        apply_patch("var a=1;" + "ab" * 400_000, "ba" * 60 + "Z", "@")
    assert sizes and max(sizes) <= 200
    assert len(str(caught.value)) < 1000
    sizes.clear()
    monkeypatch.setattr(replacing, "_NEAR_SECONDS", -1)
    with pytest.raises(UserError):
        apply_patch("some words\n" * 5000, "some other words", "@")
    assert not any(sizes), "when the time is over, the search ends"


def test_every_place_of_a_large_file_is_changed_in_one_pass() -> None:
    assert apply_patch("a " * 500_000, "a", "b", every=True) == "b " * 500_000


@pytest.mark.parametrize("at", [0, 2500, 4999])
def test_the_difference_in_a_long_file_has_its_line_numbers(at: int) -> None:
    before = [f"line {n}" for n in range(5000)]
    after = [*before[:at], "other", *before[at + 1 :]]
    judged = "\n".join([*difflib.unified_diff(before, after, lineterm="", n=2)][2:])
    assert difference_of("\n".join(before), "\n".join(after)) == judged
    assert "too many lines" in difference_of("a\n" * 5000, "b\n" * 5000)


@pytest.mark.parametrize("change", [{"old": "one", "new": "two"}, {"patch": True}])
async def test_texts_are_compared_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    bench, threads = Bench(tmp_path), []
    for name in ("apply_patch", "change_text", "difference_of"):
        real = getattr(patching, name)

        def watched(*args: object, real=real, **more: object) -> object:  # type: ignore[no-untyped-def]
            threads.append(threading.current_thread())
            return real(*args, **more)

        monkeypatch.setattr(patching, name, watched)
    (bench.folder / "a.txt").write_text("one\n")
    given = {"patch": "*** Update File: a.txt\n-one\n+two\n"} if "patch" in change else change
    await bench.text("patch", **({"path": "a.txt"} | given))
    assert len(threads) == 2 and threading.main_thread() not in threads
    await bench.backend.close()


async def test_only_what_is_read_quickly_is_checked() -> None:
    assert "SyntaxError" in await syntax_note("a.py", "def")
    assert "JSONDecodeError" in await syntax_note("a.json", "[")
    assert "TOMLDecodeError" in await syntax_note("a.toml", "a =")
    assert "nested too deeply" in await syntax_note("a.py", "-" * 50_000 + "1")
    assert "nested too deeply" in await syntax_note("a.json", "[" * 100_000)
    for path, text in (
        ("a.py", "def\n" + "#\n" * 100_000),
        ("a.json", "[" + " " * 300_000),
        ("a.toml", "a =\n" + "#\n" * 150_000),
        ("a.toml", "a." * 20_000),
    ):
        assert await syntax_note(path, text) == ""


async def test_a_file_that_cannot_be_checked_is_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for size in (50_000, 100_000):
        assert "Wrote deep" in await bench.text("write_file", path=f"deep{size}.py", content="-" * size + "1")
    await bench.backend.close()
