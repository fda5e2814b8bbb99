"""Who uses the gateway: the terminals that are connected now. A gateway that a terminal started leaves when
the last one has gone and its work is done; one that was started to stay, or is told to, does not."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A terminal loads this for its words alone.
    from hermes.domain.chats.rows import OpenWork
    from hermes.domain.clock import Clock

ASKED_TO_STOP = "asked to stop"
UNUSED = "no terminal uses it any more"
"""Why a gateway has ended; a terminal starts again what nobody asked to stop."""
LINGER_SECONDS = 5.0
"""How long it waits for the next terminal: a script that calls `hermes -q` again and again finds it warm."""
_LOOK_SECONDS = 0.5
_LOOKS = 10


class GatewayUse:
    """`stays`: whether it goes on without a terminal. `told_to_stay` is called when that changes,
    `left_alone` when it makes way for another."""

    def __init__(self, *, stays: bool = True) -> None:
        self.stays = stays
        self.told_to_stay: Callable[[], None] = lambda: None
        self.left_alone: Callable[[], None] = lambda: None
        self._terminals = 0

    @contextlib.contextmanager
    def terminal(self) -> Iterator[None]:
        """A terminal is connected."""
        self._terminals += 1
        try:
            yield
        finally:
            self._terminals -= 1

    def stay(self) -> bool:
        """Stay from now on; whether that is new."""
        if self.stays:
            return False
        self.stays = True
        self.told_to_stay()
        return True

    async def make_way(self, work: Callable[[], Awaitable[OpenWork]], clock: Clock) -> bool:
        """Leave now, for a terminal that would start another gateway; not if anybody else uses this one. One
        that has just left may still be on its way out."""
        for _ in range(_LOOKS):
            if self.stays:
                return False
            if self._terminals <= 1 and not _is_busy(await work()):
                self.left_alone()
                return True
            await clock.sleep(_LOOK_SECONDS / _LOOKS)
        return False

    async def over(self, work: Callable[[], Awaitable[OpenWork]], clock: Clock) -> bool:
        """Wait until nobody uses the gateway and nothing is left to do; False if it stays after all. What
        waits for a person's answer goes on with the next start."""
        unused = clock.monotonic()
        while not self.stays:
            await clock.sleep(_LOOK_SECONDS)
            if self._terminals or (clock.monotonic() - unused >= LINGER_SECONDS and _is_busy(await work())):
                unused = clock.monotonic()
            elif clock.monotonic() - unused >= LINGER_SECONDS:
                return not self.stays
        return False


def _is_busy(work: OpenWork) -> bool:
    turns = sum(work.turns.get(state, 0) for state in ("accepted", "running"))
    return bool(turns or work.inbox or sum(work.outbox.values()))
