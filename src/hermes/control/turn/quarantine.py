"""How a turn that may have brought the process down is tried again: alone.

A suspect waits until each turn that has begun has added a record, and no other turn begins until the suspect
has added one itself. So a crash in that time has one possible cause, and the next life can count it. Both
waits are short: a slow model must not hold up everybody else, and a crash among several is not counted."""

from __future__ import annotations

import asyncio
import contextlib

from hermes.domain.ids import SessionId

ALONE_SECONDS = 3.0
"""How long others wait for a suspect, and it for them. What kills a process does so at once, as a rule."""


class Quarantine:
    def __init__(self) -> None:
        self._one_suspect = asyncio.Lock()
        self._suspect: SessionId | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._fresh: set[SessionId] = set()
        self._none_fresh = asyncio.Event()
        self._none_fresh.set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def open(self) -> bool:
        """Whether turns may begin: no suspect is alone, or about to be."""
        return self._open.is_set()

    async def begin(self, session: SessionId) -> None:
        """A turn of this session is about to begin; waits while a suspect of another is alone."""
        # Waits for this suspect, not for the next one too: many suspects must not starve everybody else.
        if session != self._suspect:
            await self._open.wait()
        self.note(session)

    def note(self, session: SessionId) -> None:
        """A turn of this session has begun."""
        self._fresh.add(session)
        self._none_fresh.clear()

    async def isolate(self, session: SessionId) -> None:
        """Wait for a suspect's turn to be alone; it is until `settle`, or until its time is over."""
        await self._one_suspect.acquire()
        self._suspect = session
        self._open.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALONE_SECONDS):
                    await self._none_fresh.wait()
        except asyncio.CancelledError:
            self._let_go()
            raise
        self._timer = asyncio.get_running_loop().call_later(ALONE_SECONDS, self._let_go)

    def settle(self, session: SessionId) -> None:
        """The turn of this session has added a record, or does not run (any more)."""
        self._fresh.discard(session)
        if not self._fresh:
            self._none_fresh.set()
        if session == self._suspect:
            self._let_go()

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._suspect = self._timer = None
        self._open.set()
        self._one_suspect.release()
