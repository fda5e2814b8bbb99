"""What one watcher was shown of the open model call, and what is left to show."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.domain.event import Ending, ModelSaid
from hermes.domain.thoughts import ThoughtFilter

SAID_AGAIN = "— interrupted, saying it again —"
"""What a face that cannot take words back says before words that replace earlier ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingText:
    """What is left to show; if `void`, instead of what was shown and not after it."""

    text: str
    void: bool = False


class ShownText:
    """What one watcher was shown of the open model call."""

    __slots__ = ("_filter", "_shown")

    def __init__(self) -> None:
        self._filter = ThoughtFilter()
        self._shown: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._shown)

    def more(self, delta: str) -> str:
        """The part of a delta that is to be shown now."""
        words = self._filter.feed(delta)
        if not self._shown:
            words = words.lstrip("\n")
        if words:
            self._shown.append(words)
        return words

    def catch_up(self, whole: str) -> RemainingText:
        """The call's text so far is `whole`, whatever was heard of it."""
        before = self.text
        self.reset()
        self.more(whole)
        return _difference(before, self.text)

    def close(self, reply: str) -> RemainingText:
        """The call is over, and `reply` is what it said besides its thoughts."""
        before = self.text
        self.reset()
        return _difference(before, reply.lstrip("\n"))

    def reset(self) -> bool:
        """The call's words are void; true if any were shown."""
        heard = bool(self._shown)
        self._filter = ThoughtFilter()
        self._shown = []
        return heard


def _difference(before: str, now: str) -> RemainingText:
    if now.startswith(before):
        return RemainingText(text=now[len(before) :])
    if now.strip() == before.strip():
        return RemainingText(text="")
    return RemainingText(text=now, void=True)


def was_cut(reply: ModelSaid) -> bool:
    """The reply ended in the middle, so what the model says next goes on in the same paragraph."""
    return not reply.calls and reply.ending in (Ending.LENGTH, Ending.BROKEN)
