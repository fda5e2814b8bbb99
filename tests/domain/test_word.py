"""Words and settings are different classes; what works on fields takes both."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec import Struct

from hermes.domain.word import field_names, is_word, replace


class Word(Struct, frozen=True, kw_only=True):
    name: str
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    count: int = 0


@pytest.mark.parametrize("kind", [Word, Setting])
def test_both_kinds_are_words(kind: type[Word] | type[Setting]) -> None:
    thing = kind(name="a")
    assert is_word(kind) and is_word(thing)
    assert field_names(kind) == field_names(thing) == ("name", "count")
    assert replace(thing, count=2) == kind(name="a", count=2)
    assert thing == kind(name="a")
    with pytest.raises(TypeError):
        replace(thing, other=1)  # type: ignore[call-arg]


def test_what_has_no_fields_is_no_word() -> None:
    assert not any(is_word(value) for value in ("text", 7, {"name": "a"}, ("a",), object(), str))
