"""Passwords that somebody at a terminal of this machine gives while a command waits for one. Requests and
words are live only: they are in no row, event, record or log. A word is kept in memory for its session and a
while, and dropped as soon as it proves wrong."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.settings.declaring import Secret

ANSWER_SECONDS = 45.0
KEPT_SECONDS = 900.0


class PasswordRequest(Struct, frozen=True, kw_only=True):
    """`id` is what the word is given for, once."""

    id: str
    text: str


class PasswordDesk:
    def __init__(self) -> None:
        self._watchers: dict[TurnId, set[asyncio.Queue[PasswordRequest]]] = {}
        self._open: dict[str, asyncio.Future[Secret]] = {}
        self._kept: dict[SessionId, Secret] = {}

    def is_watched(self, turn: TurnId) -> bool:
        """Whether somebody would be asked."""
        return turn in self._watchers

    async def ask(self, session: SessionId, turn: TurnId, wrong: int) -> str:
        """The password of whoever watches the turn; a `UserError` if there is none."""
        if wrong:
            self._kept.pop(session, None)
        elif session in self._kept:
            return self._kept[session].reveal()
        word = await self._ask(turn, "Wrong. The password for sudo" if wrong else "The password for sudo")
        if not word:
            raise UserError("No password was given for sudo.")
        self._kept[session] = word
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, session, word)
        return word.reveal()

    async def _ask(self, turn: TurnId, text: str) -> Secret:
        request = PasswordRequest(id=secrets.token_hex(16), text=text)
        answer: asyncio.Future[Secret] = asyncio.get_running_loop().create_future()
        self._open[request.id] = answer
        for watcher in self._watchers.get(turn, ()):
            watcher.put_nowait(request)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            raise UserError(f"Nobody gave sudo a password within {ANSWER_SECONDS:g} s.") from None
        finally:
            del self._open[request.id]

    def _forget(self, session: SessionId, word: Secret) -> None:
        if self._kept.get(session) is word:
            del self._kept[session]

    def give(self, request: str, word: Secret) -> bool:
        """False if nothing waits for it (any more)."""
        waiting = self._open.get(request)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(word)
        return True

    async def follow(self, turn: TurnId) -> AsyncGenerator[PasswordRequest]:
        """What a turn asks for from now on, until whoever listens leaves."""
        queue: asyncio.Queue[PasswordRequest] = asyncio.Queue()
        self._watchers.setdefault(turn, set()).add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            with contextlib.suppress(KeyError):
                self._watchers[turn].discard(queue)
                if not self._watchers[turn]:
                    del self._watchers[turn]
