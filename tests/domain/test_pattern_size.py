"""A regular expression is measured before it is compiled: what is written out may not be large."""

from __future__ import annotations

import pytest

from hermes.domain.safety.pattern_size import why_too_large

TOO_LARGE = [
    "(?:(?:a{999}){999}){3}",
    "a{10001}",
    "a{10001,}",
    "(?:ab){99999,99999}",
    "(?:" * 20 + "a" + "){2}" * 20,
    "((((a{20}){20}b){20})){20}",
    "(?:(?:a{999})[)]){999}",
    "(?:(?:a{999})[]()]){999}",
    r"(?:(?:a{999})\(){999}",
    "(?:a{999})(?i){999}",
    "(?:a{999})(?i)(?s){999}",
    "(?:a{999})?{999}",
    "(?x)(?:a{999}) {999}",
    "(?sx-i)(?:a{999}) # )\n{999}",
    "(?:a{999})(?#)){999}",
    "(?:(?:a{999})[[:alpha:](?:]{2}){999}[[:alpha:])]",
    "(?V1)(?:(?:a{999})[a[b](?:]){999}[)]",
]


@pytest.mark.parametrize("pattern", TOO_LARGE)
def test_repetitions_within_repetitions_are_refused(pattern: str) -> None:
    assert why_too_large(pattern) == "its repetitions, written out, come to more than 10,000 characters"


def test_length_and_depth_are_bounded() -> None:
    assert why_too_large("a" * 1001) == "it is longer than 1,000 characters"
    assert why_too_large("(" * 51 + ")" * 51) == "its groups are nested more than 50 deep"
    assert not why_too_large("a" * 1000) and not why_too_large("(" * 50 + ")" * 50)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "(",
        "))))",
        "[",
        "{",
        "a{",
        r"\bhermes\b",
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"(?:\d{1,3}\.){3}\d{1,3}",
        r"(?x) \d{4} - \d{2} - \d{2}  # a date",
        "[[:digit:]]{4}-[[:digit:]]{2}",
        r"[\s\S]{0,99999}",
        "((a{1,30}){1,30}){1,30}$",
        "a{9999}",
        r"\${e}|{d<=1}|{}",
        "(?:a{0}){99}",
    ],
)
def test_what_people_write_is_taken(pattern: str) -> None:
    assert not why_too_large(pattern)
