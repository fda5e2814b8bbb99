"""Patterns that operators write: found in any case, never for long, and told once when they are of no use."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import regex

from hermes.control.people.operator_patterns import BadPattern, fits_one, read_pattern
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.harness import Journey, open_settings

ENDLESS = r"(\w|\w\w)+bot$"
SLOW = "a" * 60 + "bot!"


def test_a_pattern_is_found_in_any_case() -> None:
    assert fits_one((r"nobody", r"\bhermes\b"), "hey HERMES, hi")
    assert not fits_one((r"\bhermes\b",), "thermesh") and not fits_one((), "hermes")


def test_one_that_takes_too_long_fits_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    endless = f"(?:{ENDLESS})"
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not fits_one((endless,), SLOW)
    assert [("takes too long" in record.message) for record in caplog.records] == [True]
    assert fits_one((endless, "bot!"), SLOW), "the others still count"


@pytest.mark.parametrize("text", ["(", "*", "(?P<a>x)(?P<a", "[z-a]"])
def test_what_is_no_pattern_fits_nothing(text: str) -> None:
    assert not fits_one((text,), text)
    with pytest.raises(BadPattern):
        read_pattern(text)


def test_one_that_is_too_large_is_not_even_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(regex, "compile", lambda text, *_: compiled.append(text))
    with caplog.at_level(logging.WARNING):
        assert not fits_one(("(?:(?:a{999}){999}){3}",), "a")
    assert not compiled and "cannot be used (its repetitions, written out" in caplog.text


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\${e}", "hello world", False),
        (r"\${e}", "it costs ${E}", True),
        (r"(?:bot){e<=2}", "hello", False),
        (r"^ba{2}$", "baa", True),
        (r"^ba{1,}d{,2}$", "baaadd", True),
        (r"\p{Lu}\N{DIGIT ONE}", "x1", True),
        (r"[{]x\{", "{x{", True),
    ],
)
def test_a_brace_that_counts_nothing_is_a_brace(pattern: str, text: str, found: bool) -> None:
    assert fits_one((pattern,), text) is found


async def test_a_group_with_an_endless_pattern_is_answered(tmp_path: Path) -> None:
    """The search is over before the transaction begins, and the store stays free."""
    block = PlatformSettings(
        allow_all_users=True, require_mention=True, mention_patterns=(ENDLESS, "^hey helper")
    )
    settings = replace(open_settings(), platforms={"fake": block})
    async with Journey(folder=tmp_path, settings=settings) as chat:
        chat.world.write(SLOW, chat="g", user="eve", kind="group")
        chat.world.write("Hey helper, are you there?", chat="g", user="bob", kind="group")
        await chat.until_seen("You said: Hey helper, are you there?", chat="g")
        await chat.until_idle()
        assert len(chat.world.seen("g")) == 1
