"""Keeps keys that were meant for a message from answering an approval that has just come up.

Nothing is answered until no key has come for a second. If a message was put aside for the question, its
writer may go on with it after a pause: Enter and numbers count only after an arrow key then; words do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

_QUIET_SECONDS = 1.0


class Timer(Protocol):
    def cancel(self) -> None: ...


class AnswerGuard:
    """`later` calls something after so many seconds, `settled` is told when answers count."""

    def __init__(
        self, settled: Callable[[], None], later: Callable[[float, Callable[[], None]], Timer]
    ) -> None:
        self._on_settled = settled
        self._later = later
        self._timer: Timer | None = None
        self._settled = self._chosen = True

    def begin(self, *, aside: bool) -> None:
        """An approval is drawn; something may have been put `aside` for it."""
        self._settled, self._chosen = False, not aside
        self._wait()

    def end(self) -> None:
        self._settled = self._chosen = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def press(self) -> None:
        """Any key."""
        if not self._settled:
            self._wait()

    def move(self) -> None:
        """An arrow key."""
        self._chosen = self._chosen or self._settled

    def takes(self, text: str = "") -> bool:
        """Whether Enter answers with the text, or a number or the chosen entry does without one."""
        return self._settled and (self._chosen or bool(text.strip() and not text.strip().isdigit()))

    @property
    def help(self) -> str:
        if not self._settled:
            return "one moment: Enter and numbers count when you pause"
        if not self._chosen:
            return "your message is put aside · an arrow key first, then Enter; or write the word"
        return "↑ ↓ and Enter, the number, or the word answers"

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._later(_QUIET_SECONDS, self._settle)

    def _settle(self) -> None:
        self._timer, self._settled = None, True
        self._on_settled()
