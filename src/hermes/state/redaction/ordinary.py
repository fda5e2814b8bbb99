"""Which loaded values are ordinary words, numbers or paths. Hiding such a value protects nothing, for anybody
guesses it, and would change every text in which it stands by chance."""

from __future__ import annotations

import re
from itertools import pairwise

from hermes.domain.safety.late_pattern import late_pattern

_MOST_LETTERS = 11
_MOST_DIGITS = 11
_NUMBER = late_pattern(r"[\d.,:+/ -]{1,24}")
_PATH = late_pattern(r"(?:~|\.{1,2})?(?:/[\w.@ -]{1,23}){1,20}/?")
_WORDS = late_pattern(r"(?:[A-Z]?[a-z]{1,20}|[A-Z]{2,20})(?:[-_. ]?(?:[A-Z]?[a-z]{2,20}|[A-Z]{2,20})){0,2}")
_EACH_WORD = late_pattern(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBERED = late_pattern(r"([a-z]{3,12})[0-9]{1,4}!?")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """admin changeme demo dev docker empty example foo guest hermes letmein local localhost login mysql
        none null pass passwd password postgres prod python qwerty rabbitmq redis root secret server staging
        test testing token user welcome""",
    )
)
_NO_KEYS = frozenset(
    re.findall(
        r"[\w-]+",
        """ollama llama lmstudio lm-studio vllm local localhost dummy empty none null nokey no-key not-needed
        notneeded not-required unused anything placeholder""",
    )
)
_PAIRS = frozenset(
    row[0] + second
    for row in re.findall(
        r"\w+",
        """abcdgiklmnprstuvwy baeilorsuy cacehiklmortu dadeilorsu eabcdefgilmnoprstvwxy faefilorsu gaehilnrsu
        haeiot iabcdefglmnoprstvxz keis ladeilostuy mabeimopsu nacdefgiklnopstuv oabcdfgiklmnoprstuvw qu ze
        paeiloprstuy racdegiklmnorstuy sacehilopstuy tacdefhilmoprstuy uabceilmnprst vaei waeinor xeipt
        ypst""",
    )
    for second in row[1:]
)
"""The 250 pairs of letters of which English words mostly consist: nine in ten words have at most one other,
of random letters one text in thirty (of eight)."""


def is_ordinary(value: str) -> bool:
    """Whether a value may stand in any text by chance."""
    plain = value.strip().lower()
    if is_no_key(plain) or plain in _COMMON:
        return True
    if _NUMBER.fullmatch(plain):
        return sum(map(str.isdigit, plain)) <= _MOST_DIGITS
    if numbered := _NUMBERED.fullmatch(plain):
        return numbered[1] in _COMMON
    if _PATH.fullmatch(value):
        return all(sum(map(str.isdigit, part)) < 5 for part in value.split("/"))
    letters = sum(map(str.isalpha, plain))
    return letters <= _MOST_LETTERS and _WORDS.fullmatch(value.strip()) is not None and _is_spoken(value)


def is_no_key(value: str) -> bool:
    """Whether it is what people put in where a program insists on a key and nobody asks for one."""
    return value.strip().lower() in _NO_KEYS


def _is_spoken(value: str) -> bool:
    words = [word.lower() for word in _EACH_WORD.findall(value)]
    return sum(a + b not in _PAIRS for word in words for a, b in pairwise(word)) <= 1
