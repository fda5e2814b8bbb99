"""The border to foreign code. What is no `Exception` (an exit, an interrupt, a cancellation that nobody here
asked for) would end more than the call that met it: the loop passes it on to the whole gateway, or waits for
ever. Behind the border it is an error like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


class ForeignError(Exception):
    """What foreign code raised, in words that may be told."""


class ForeignExit(ForeignError):
    """Foreign code raised something that is meant to end the program or the task."""


class Border:
    """Around what a plugin does, awaited or not: what it raises comes out as an `Exception`, except for the
    cancellation of our own task while it was in there."""

    def __init__(self) -> None:
        self._cancelled = 0

    def __enter__(self) -> None:
        self._cancelled = _cancellations()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Exception | GeneratorExit):
            return
        if isinstance(error, asyncio.CancelledError) and _cancellations() > self._cancelled:
            return
        raise ForeignExit(f"it raised {type(error).__name__}") from error


async def contain(work: Awaitable[T]) -> T:
    """Await what foreign code does, across the border."""
    with Border():
        return await work


def describe(error: BaseException) -> str:
    """The kind of an error and its words, where it has some that can be read."""
    try:
        with Border():
            words = str(error)
    except Exception:  # its own text may be code, too
        words = ""
    if isinstance(error, ForeignError):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _cancellations() -> int:
    """How often the cancellation of this task was asked for. Off the loop there is no task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()
