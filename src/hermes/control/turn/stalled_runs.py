"""How long a run may stand still: `agent.gateway_timeout` seconds without an event, then it is given up. One
timer of the loop for a turn; what is not waited for, like a commit or a person's answer, does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class IdleTimer:
    """`give_up` is called once, while something is waited for. No seconds: never."""

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    @property
    def reason(self) -> str:
        return f"No sign of life for {self._seconds:g} s, so it was given up (agent.gateway_timeout)."

    @contextmanager
    def watch(self) -> Iterator[None]:
        self._arm(self._seconds)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def waiting(self) -> None:
        """From now on something is waited for."""
        self._since = asyncio.get_running_loop().time()

    def heard(self) -> None:
        self._since = None

    def _arm(self, seconds: float) -> None:
        if self._seconds > 0:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        quiet = 0.0 if self._since is None else asyncio.get_running_loop().time() - self._since
        if quiet < self._seconds:
            self._arm(self._seconds - quiet)
            return
        self.expired = True
        self._give_up()
