"""Patterns that are compiled when they are first used. A gateway has hundreds, and a start that compiled them
all would spend a tenth of its time on that."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")


class _LatePattern:
    def __init__(self, text: str, flags: int) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet; from then on the pattern's methods are this object's own."""
        if name not in _METHODS:
            raise AttributeError(name)
        pattern = re.compile(*self._given)
        self.__dict__.update((method, getattr(pattern, method)) for method in _METHODS)
        return self.__dict__[name]


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, for a constant that is used by its methods alone."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))
