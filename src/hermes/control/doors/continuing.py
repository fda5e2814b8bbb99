"""Clients that go on with a turn that waits: with the results of their own tools, or with words that answer
what it asked. One transaction; the gateway wakes the turn.

Told again under the same key, it is the same request and watches the same part of the turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hermes.control.sessions.submission import NewRequest, SubmittedTurn, add_request, asked_before
from hermes.control.turn.questions import answer, as_answer
from hermes.domain.address import Source
from hermes.domain.errors import UserError
from hermes.domain.event import Asked, QuestionKind, Verdict
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.session import session_key
from hermes.domain.text import storable
from hermes.domain.turn import Answer, Question, Turn


class AnswerExpected(UserError):
    """The session waits for an answer, and these words are none."""

    def __init__(self, question: Question) -> None:
        super().__init__(
            f"The session waits for an answer to {question.id} ({question.kind.value}).",
            hint=f"Answer it at /v1/questions/{question.id}, or stop its run.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedTurn:
    """The turn that goes on, and the record up to which its client knows it."""

    turn: Turn
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueTurn:
    """`mine` tells whose turns this client may go on with."""

    agent: AgentId
    source: Source
    mine: Callable[[Source | None], bool]
    now: datetime
    request: NewRequest | None = None

    def with_results(self, tx: Tx, results: Mapping[QuestionId, str]) -> ContinuedTurn | None:
        """Give the results of a client's own tools; None if nothing waits for any of them."""
        known = asked_before(tx, self.request)
        if known is not None:
            return _same_part(known)
        waiting = [question for question in map(tx.questions.get, results) if question and question.open]
        turn = tx.turns.get(waiting[0].turn) if waiting else None
        if turn is None or not self.mine(turn.source):
            return None
        asked = [one for one in tx.questions.of_turn(turn.id) if one.open]
        missing = [one for one in asked if one.id not in results or one.kind is not QuestionKind.CLIENT_TOOL]
        if missing:
            names = ", ".join(f"call_{one.id}" for one in missing)
            raise UserError(f"The turn waits for further results: {names}.", hint="Send all of them at once.")
        answers = [
            Answer(question=one.id, verdict=Verdict.REPLY, text=storable(results[one.id])) for one in asked
        ]
        return self._go_on(tx, turn, answers)

    def with_words(self, tx: Tx, session: SessionId | None, text: str) -> ContinuedTurn | None:
        """Take words as the answer of what their session waits for; None if it waits for nothing. Without an
        id the session is the one that the source is bound to."""
        known = asked_before(tx, self.request)
        if known is not None:
            return _same_part(known)
        wanted = session or tx.bindings.get(session_key(self.source, self.agent))
        waiting = [] if wanted is None else tx.questions.open_of(wanted)
        if not waiting:
            return None
        turns = {question.turn: tx.turns.get(question.turn) for question in waiting}
        mine = [question for question in waiting if self._is_mine(turns[question.turn])]
        given = as_answer(storable(text), mine, self.source.person, replies_to_us=False)
        turn = None if given is None else _turn_of(given.question, mine, turns)
        if given is None or turn is None:
            raise AnswerExpected(waiting[0])
        return self._go_on(tx, turn, [given])

    def _is_mine(self, turn: Turn | None) -> bool:
        return turn is not None and self.mine(turn.source)

    def _go_on(self, tx: Tx, turn: Turn, answers: Sequence[Answer]) -> ContinuedTurn | None:
        by = None if turn.source is None else turn.source.person
        closed = [answer(tx, replace(given, by=by), self.now).closed for given in answers]
        if not all(closed):
            return None
        asked = [entry.seq for entry in tx.journal.of_turn(turn.id) if isinstance(entry.record, Asked)]
        after = max(asked, default=0)
        if self.request is not None:
            named = replace(self.request, facts=json.dumps({"after": after}))
            # One turn is gone on with several times, each by a request of its own.
            add_request(tx, named, turn, self.now, part=f"-{after}")
        return ContinuedTurn(turn=turn, after=after)


def _same_part(known: SubmittedTurn) -> ContinuedTurn | None:
    """What the same request was given before; None if it went on with nothing and began a turn."""
    after = None if known.request is None else json.loads(known.request.facts).get("after")
    return ContinuedTurn(turn=known.turn, after=after) if isinstance(after, int) else None


def _turn_of(
    question: QuestionId, among: Sequence[Question], turns: Mapping[TurnId, Turn | None]
) -> Turn | None:
    return next((turns[one.turn] for one in among if one.id == question), None)
