"""How hard a key is to guess. A rough judgement that errs on the strict side: what people think up (words,
rows of a keyboard, repetitions) counts little, what a program draws counts in full."""

from __future__ import annotations

import math
import re
from itertools import pairwise

from hermes.domain.safety.late_pattern import late_pattern

LEAST_CHARS = 16
LEAST_LEFT = 8
WIDE_BITS = 100
"""Less than 16 random bytes have, for their letters may look like words; the keys made here have more."""
_WORDS = """password passwort passwd passphrase secret changeme change letmein welcome qwertyuiop asdfghjkl
    zxcvbnm qwertz qwerty azerty 1q2w3e4r administrator admin master default example sample hermes gateway
    server service token bearer apikey api key login access private test demo root user guest monkey dragon
    iloveyou sunshine princess football baseball superman trustno correcthorsebatterystaple"""
_KNOWN = late_pattern("|".join(sorted(_WORDS.split(), key=len, reverse=True)), re.IGNORECASE)
_WORD = late_pattern(r"(?:(?=[AEIOUY]|[A-Z][a-z]*[aeiouy])[A-Z][a-z]{1,12}){6,}|[A-Za-z]?[a-z]{5,}")
"""A long word, or six ShortOnesThatCanBeSpoken."""
_DATE = late_pattern(
    r"(?:19|20)\d\d(?:[-./_]?(?:0[1-9]|1[0-2])(?:[-./_]?(?:0[1-9]|[12]\d|3[01]))?)?"
    r"|(?:0[1-9]|[12]\d|3[01])[-./_](?:0?[1-9]|1[0-2])[-./_](?:19|20)?\d\d|T?\d\d:\d\d(?::\d\d)?Z?"
)
_SUBSTITUTED = str.maketrans("@4310$57!", "aaeiostti")
_REPEATED = 4
"""From this length on, what stood there before adds nothing."""
_HEX = late_pattern(r"[0-9a-f]+", re.IGNORECASE)
_WORD_BITS = 1.5
"""What a letter of a sentence is worth."""


def is_guessable(key: str) -> bool:
    """Whether it was thought up without care: too short, a repetition, a row, well-known words."""
    return (
        len(key) < LEAST_CHARS
        or len(set(key)) < LEAST_LEFT - 2
        or _is_periodic(key)
        or _is_row(key)
        or _is_little(_KNOWN.sub("", key))
    )


def bits_of(key: str) -> float:
    """An upper estimate of what a guesser does not know."""
    rest = "".join(_without_habits(key).split())
    if not (any(char.isdigit() for char in key) or any(char.isupper() for char in key)) or " " in key:
        return len(rest) * _WORD_BITS
    # A hexadecimal number may hold a known word by chance, so it counts as it is.
    plain = key.replace("-", "")
    if _HEX.fullmatch(plain) and not plain.isdigit():
        return len(plain) * 4.0
    kinds = ((str.islower, 26), (str.isupper, 26), (str.isdigit, 10))
    pool = sum(size for is_kind, size in kinds if any(map(is_kind, key))) or 10
    letters = sum(map(len, _WORD.findall(rest)))
    return letters * _WORD_BITS + (len(rest) - letters) * math.log2(pool)


def _without_habits(key: str) -> str:
    """The key without well-known words (also with digits for letters), dates, rows and repetitions."""
    spelled = key.lower().translate(_SUBSTITUTED) if key.isascii() else key
    # Short words come about by chance once digits count as letters, too.
    words = (found for found in _KNOWN.finditer(spelled) if len(found[0]) > _REPEATED)
    finds = (*words, *_KNOWN.finditer(key), *_DATE.finditer(key))
    known = {place for found in finds for place in range(*found.span())}
    for end in range(_REPEATED, len(key) + 1):
        piece = key[end - _REPEATED : end].lower()
        steps = {ord(other) - ord(one) for one, other in pairwise(piece)}
        if steps in ({1}, {0}, {-1}) or piece in key[: end - _REPEATED].lower():
            known.update(range(end - _REPEATED, end))
    return "".join(char for place, char in enumerate(key) if place not in known)


def _is_little(unknown: str) -> bool:
    """Digits behind a word are the first that a guesser tries, so a digit counts half."""
    rest = "".join(filter(str.isalnum, unknown))
    return _is_row(rest, 0.8) or 2 * len(rest) - sum(map(str.isdigit, rest)) < 2 * LEAST_LEFT


def _is_periodic(key: str) -> bool:
    return any(key[size:] == key[:-size] for size in range(1, len(key) // 2 + 1))


def _is_row(key: str, share: float = 2 / 3) -> bool:
    """Mostly neighbours of the alphabet or the digits, or the same again: `abcdefgh…`, `aaaabbbb…`."""
    steps = [abs(ord(one) - ord(other)) for one, other in pairwise(key)]
    return sum(step <= 1 for step in steps) > share * len(steps)
