"""Patching: which place is meant, what goes there, and that a second time changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.tools.patch import apply_patch
from hermes.domain.errors import UserError

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
    assert apply_patch(once, old, new) == once


@given(
    st.text("ab \n", max_size=30),
    st.text("ab\n", min_size=1, max_size=4),
    st.text("ab\n", min_size=1, max_size=6),
)
def test_repeating_never_changes_more(text: str, old: str, new: str) -> None:
    try:
        once = apply_patch(text, old, new)
        twice = apply_patch(once, old, new)
    except UserError:
        return
    assert twice == once or old in once
