"""Replies that say nothing on purpose: `SILENT` and `NO_REPLY`. Nobody is sent them."""

from __future__ import annotations

_SILENCES = ("SILENT", "NO_REPLY", "NO REPLY")
_AROUND_SILENCE = " \t\n\r[](){}<>*_`'\"“”.,:;!?…-—"
_LONGEST_SILENCE = 64


def is_silence(text: str) -> bool:
    """The whole text is a marker that says: deliver nothing."""
    return len(text) <= _LONGEST_SILENCE and text.strip(_AROUND_SILENCE) in _SILENCES


def may_be_silence(text: str) -> bool:
    """The text is a silence marker or the beginning of one, so it is too early to show it."""
    core = text.strip(_AROUND_SILENCE)
    return len(text) <= _LONGEST_SILENCE and any(marker.startswith(core) for marker in _SILENCES)
