"""What moves while the agent works: a face, a verb and the seconds."""

from __future__ import annotations

from collections.abc import Sequence

_FACES = ("(⌐■_■)", "( ˘▽˘)", "(¬‿¬)", "(◕‿◕)", "(o_O)", "(^_^)", "(>_<)", "(._.)")
_VERBS = (
    "deliberating", "pondering", "mulling", "reasoning", "considering", "brewing", "musing", "weighing",
    "untangling", "sketching", "cogitating", "ruminating", "connecting dots", "chewing on it",
)  # fmt: skip
_CHANGES_AFTER = 6.0
_DOTS_PER_SECOND = 3
FRAMES_PER_SECOND = 4


def spinner_text(
    seconds: float, *, calm: bool, verbs: Sequence[str] = (), verb: str = "", seed: int = 0
) -> str:
    """Its words so many seconds after the work began."""
    told = f"{int(seconds)}s" if seconds >= 1 else ""
    if calm:
        return f"{verb or 'working'}… {told}".rstrip()
    known = verbs or _VERBS
    turn = seed + int(seconds / _CHANGES_AFTER)
    dots = "." * (1 + int(seconds * _DOTS_PER_SECOND) % 3)
    return f"{_FACES[turn % len(_FACES)]} {verb or known[turn * 7 % len(known)]}{dots:<3} {told}".rstrip()
