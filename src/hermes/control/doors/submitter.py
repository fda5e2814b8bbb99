"""The entrance of doors that know who speaks and to which agent: their words are stored as a turn, and its
session's actor is woken, in this order. Words that begin a session are taken in the commit that stores them:
their actor starts with the claim in hand and has the model called one commit earlier."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from hermes.control.runtime import Runtime
from hermes.control.sessions.submission import SessionOpening, Submission, SubmittedTurn, SubmitTurn
from hermes.control.turn.actors import Actors
from hermes.control.workers import TaskSet
from hermes.domain.errors import HermesError
from hermes.domain.hooks import GATE_TURN
from hermes.domain.ports.store import Tx
from hermes.domain.turn import TurnAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitter:
    actors: Actors
    _catching_up: TaskSet = field(default_factory=TaskSet)

    async def ask(self, runtime: Runtime, words: Submission) -> SubmittedTurn:
        """Store the words; the feed of a new turn is open before this returns."""
        with self.actors.hold_place() as free:
            opening = await self._opening(runtime, words) if free else None
            core = self.actors.core
            now = core.clock.now()
            unit = SubmitTurn(words=words, settings=core.settings, now=now, opening=opening).unit
            try:
                submitted = await runtime.store.write(unit, first=True)
            except asyncio.CancelledError:
                self._catch_up()
                raise
            if submitted.fresh:
                self.actors.feeds.drive(submitted.turn.id)
                self._wake(runtime, submitted)
        core.hooks.tell_all(submitted.news)
        return submitted

    async def _opening(self, runtime: Runtime, words: Submission) -> SessionOpening | None:
        """None where the turn is to be taken by itself: its session is there already, files, hooks or a
        suspect come first, or its prompt is to tell of a chat."""
        given = words.input
        speaks = given.action is TurnAction.SAY and not given.confirm
        waits = self.actors.core.hooks.follows(GATE_TURN) or any(file.pending for file in given.attachments)
        held = not self.actors.quarantine.open
        if not (words.place.begins and speaks) or waits or held or words.source.is_chat:
            return None
        prompt = None if runtime.prompt is None else await runtime.prompt()
        return SessionOpening(prompt=prompt, epoch=self.actors.epoch)

    def _wake(self, runtime: Runtime, submitted: SubmittedTurn) -> None:
        if submitted.claim is None:
            self.actors.ring(submitted.turn.agent, submitted.turn.session, submitted.begun)
        else:
            self.actors.enter(submitted.claim, runtime)

    def _catch_up(self) -> None:
        """Whoever asked has gone, but what they asked may be stored all the same: look for it after that."""

        async def look() -> None:
            with contextlib.suppress(HermesError):
                await self.actors.core.store.write(_nothing)
            self.actors.search()

        self._catching_up.begin(look(), "catch up")


def _nothing(tx: Tx) -> None:
    """A unit that only comes after those that were handed in before it."""
