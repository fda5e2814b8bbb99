"""Titles as models give them, and as they are made without one."""

from __future__ import annotations

import pytest

from hermes.agent.models.titles import LONGEST, clean_title, local_title


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Trip to Rome", "Trip to Rome"),
        ('\n  "Trip to Rome."\n\nLet me know!', "Trip to Rome"),
        ("**Title: Trip to Rome**", "Trip to Rome"),
        ("# Titel: „Reise nach Rom“", "Reise nach Rom"),
        ("Trip\u200b to\x00 \x1b[31mRome", "Trip to [31mRome"),
        ("- - -", ""),
        ("", ""),
        ("one " * 50, " ".join(["one"] * 12)),
    ],
)
def test_a_title_is_one_clean_line(answer: str, title: str) -> None:
    assert clean_title(answer) == title


def test_no_title_is_too_long() -> None:
    assert len(clean_title("x" * 5000)) <= LONGEST and len(local_title("x" * 5000)) <= LONGEST


def test_without_a_model_the_first_words_do() -> None:
    assert (
        local_title("  Please\nlook at *this* file and tell me all of it")
        == "Please look at *this* file and tell…"
    )
    assert local_title("hello") == "hello"
    assert local_title("\n") == ""
