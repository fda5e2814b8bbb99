"""Regular expressions that operators write, matched against what others send. Each search has a time limit
and runs in a thread. A pattern that takes too long matches nothing, and the log says so once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hermes.domain.chats.address import SourceKind
from hermes.domain.chats.message import Inbound
from hermes.domain.safety.pattern_size import why_too_large
from hermes.domain.text import plain_braces

log = logging.getLogger("hermes.patterns")
PATTERN_SECONDS = 0.05
_LOOKED_THROUGH = 2000
_MOST_TOLD = 1000
_told: set[str] = set()


class BadPattern(Exception):
    """It is no regular expression, or one too large to compile."""


@lru_cache(maxsize=256)
def read_pattern(text: str, *, any_case: bool = False) -> Any:
    """May take a moment: not on the loop."""
    import regex  # most gateways have no pattern at all

    if why := why_too_large(text):
        raise BadPattern(why)
    try:
        return regex.compile(plain_braces(text), regex.IGNORECASE if any_case else 0)
    except (regex.error, TypeError, RecursionError, OverflowError) as error:
        raise BadPattern(str(error)) from error


def finds(pattern: Any, text: str) -> bool:
    """`TimeoutError` if it takes too long. Other threads go on meanwhile."""
    return pattern.search(text, timeout=PATTERN_SECONDS, concurrent=True) is not None


def fits_one(patterns: Sequence[str], text: str) -> bool:
    """Whether one of them is found, in upper or lower case. May take a while: not on the loop."""
    return any(_fits(pattern, text[:_LOOKED_THROUGH]) for pattern in patterns)


def _fits(pattern: str, text: str) -> bool:
    try:
        return finds(read_pattern(pattern, any_case=True), text)
    except (TimeoutError, BadPattern) as error:
        if pattern not in _told and len(_told) < _MOST_TOLD:
            _told.add(pattern)
            why = "takes too long" if isinstance(error, TimeoutError) else f"cannot be used ({error})"
            log.warning("pattern.left_out pattern=%r: it %s, so it fits nothing", pattern, why)
        return False


async def is_named(inbound: Inbound, patterns: Sequence[str]) -> bool:
    """Whether a message in a group fits one of its `mention_patterns`."""
    if inbound.source.kind is SourceKind.PRIVATE:
        return False
    return await asyncio.to_thread(fits_one, patterns, inbound.text)
