"""What callers that say who they are (terminal, HTTP, scripts) do with a turn they began: continue it when it
waits, with the results of their own tools or with words that answer its question, in one transaction after
which the gateway wakes it; watch it to its end; come back to it as a run.

Every continuation is a request of its own for another part of the same turn. Repeated under the same key it
is the same request and watches the same part."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from hermes.control.feed import Feed, Feeds
from hermes.control.sessions import submission
from hermes.control.sessions.submission import NewRequest, NotFound, SubmittedTurn
from hermes.control.turn.questions import answer, as_answer
from hermes.domain.address import Source
from hermes.domain.errors import UserError
from hermes.domain.event import Asked, Entry, Failed, FeedItem, QuestionKind, Stopped, Verdict
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId, client_call_id
from hermes.domain.ports.store import Store, Tx
from hermes.domain.session import session_key
from hermes.domain.text import storable
from hermes.domain.turn import Answer, Question, Request, Turn, TurnState
from hermes.stream.faces.responses import parts_before

ToolResults = Mapping[QuestionId, str]
"""What a client's tools returned, by the question that asked for each."""


class AnswerExpected(UserError):
    """The session waits for an answer, and these words are none."""

    def __init__(self, question: Question) -> None:
        super().__init__(
            f"The session waits for an answer to {question.id} ({question.kind.value}).",
            hint=f"Answer it at /v1/questions/{question.id}, or stop its run.",
        )


def part_name(prefix: str, turn: Turn, part: int) -> str:
    """The name of a part of a turn at a door: the turn's, and from the second on its number."""
    return submission.id_for(prefix, turn.id) + _suffix(part)


def _suffix(part: int) -> str:
    return "" if part == 1 else f"_{part}"


def calls_open(tx: Tx, turn: Turn) -> list[Question]:
    """The calls of its own tools that a turn waits for its client to make."""
    return [question for question in _open_questions(tx, turn) if question.kind is QuestionKind.CLIENT_TOOL]


def _open_questions(tx: Tx, turn: Turn) -> list[Question]:
    return [question for question in tx.questions.of_turn(turn.id) if question.open]


def _answer_all(tx: Tx, turn: Turn, answers: Iterable[Answer], now: datetime) -> bool:
    """Answer in the name of whoever the turn belongs to; whether every answer was accepted."""
    person = None if turn.source is None else turn.source.person
    accepted = [answer(tx, replace(given, by=person), now).closed for given in answers]
    return all(accepted)


def _as_answers(questions: Iterable[Question], results: ToolResults) -> list[Answer]:
    return [
        Answer(question=question.id, verdict=Verdict.REPLY, text=storable(results[question.id]))
        for question in questions
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeToolResults:
    """Take all results that a response waits for, or none of them. The same results once more are the same
    request; other ones for a call that has its result are refused."""

    results: ToolResults
    now: datetime
    request: NewRequest | None = None

    def unit(self, tx: Tx) -> SubmittedTurn:
        repeated = submission.asked_before(tx, self.request)
        if repeated is not None:
            return repeated
        questions = self._questions(tx)
        turn = tx.turns.get(questions[0].turn)
        if turn is None:
            raise NotFound("The turn that asked for these results no longer exists.")
        for question in calls_open(tx, turn):
            if question.id not in self.results:
                raise UserError(f"There is no result for the call {client_call_id(question.id)}.")
        fresh = [question for question in questions if question.open]
        _answer_all(tx, turn, _as_answers(fresh, self.results), self.now)
        part = 1 + parts_before(tx.journal.of_turn(turn.id), questions[0].id)
        return SubmittedTurn(turn=turn, request=self._request(tx, turn, part), fresh=bool(fresh), part=part)

    def _questions(self, tx: Tx) -> list[Question]:
        questions: list[Question] = []
        for ident, text in self.results.items():
            question = tx.questions.get(ident)
            if question is None or question.kind is not QuestionKind.CLIENT_TOOL:
                raise NotFound(f"No call {client_call_id(ident)} was made here.")
            if not question.open and (question.verdict, question.answer) != (Verdict.REPLY, storable(text)):
                raise submission.TurnUnfinished(
                    f"The call {client_call_id(ident)} waits for no result any more."
                )
            questions.append(question)
        if len({question.turn for question in questions}) > 1:
            raise UserError("These results belong to calls of different responses.")
        return questions

    def _request(self, tx: Tx, turn: Turn, part: int) -> Request | None:
        if self.request is None:
            return None
        kept = tx.requests.get(part_name(self.request.prefix, turn, part))
        return kept or submission.add_request(tx, self.request, turn, self.now, part=_suffix(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedTurn:
    """The turn that continues, and the record up to which its client has seen it."""

    turn: Turn
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueTurn:
    """Continue whatever turn waits for what a request brings; `mine` says whose turns its client may
    continue."""

    agent: AgentId
    source: Source
    mine: Callable[[Source | None], bool]
    now: datetime
    request: NewRequest | None = None

    def with_results(self, tx: Tx, results: ToolResults) -> ContinuedTurn | None:
        """Give the results of a client's own tools; None if nothing waits for any of them."""
        repeated = submission.asked_before(tx, self.request)
        if repeated is not None:
            return _same_part(repeated)
        waiting = [question for question in map(tx.questions.get, results) if question and question.open]
        turn = self._my_turn(tx, waiting[0]) if waiting else None
        if turn is None:
            return None
        questions = _open_questions(tx, turn)
        missing = [
            f"call_{question.id}"
            for question in questions
            if question.id not in results or question.kind is not QuestionKind.CLIENT_TOOL
        ]
        if missing:
            raise UserError(
                f"The turn waits for further results: {', '.join(missing)}.", hint="Send all of them at once."
            )
        return self._continue(tx, turn, _as_answers(questions, results))

    def with_words(self, tx: Tx, session: SessionId | None, text: str) -> ContinuedTurn | None:
        """Take words as the answer to what their session waits for; None if it waits for nothing. Without an
        id the session is the one that the source is bound to."""
        repeated = submission.asked_before(tx, self.request)
        if repeated is not None:
            return _same_part(repeated)
        wanted = session or tx.bindings.get(session_key(self.source, self.agent))
        waiting = [] if wanted is None else tx.questions.open_of(wanted)
        if not waiting:
            return None
        mine = {question.id: turn for question in waiting if (turn := self._my_turn(tx, question))}
        questions = [question for question in waiting if question.id in mine]
        given = as_answer(storable(text), questions, self.source.person, replies_to_us=False)
        if given is None:
            raise AnswerExpected(waiting[0])
        return self._continue(tx, mine[given.question], [given])

    def _my_turn(self, tx: Tx, question: Question) -> Turn | None:
        turn = tx.turns.get(question.turn)
        return turn if turn is not None and self.mine(turn.source) else None

    def _continue(self, tx: Tx, turn: Turn, answers: Sequence[Answer]) -> ContinuedTurn | None:
        if not _answer_all(tx, turn, answers, self.now):
            return None
        asked = [entry.seq for entry in tx.journal.of_turn(turn.id) if isinstance(entry.record, Asked)]
        after = max(asked, default=0)
        if self.request is not None:
            named = replace(self.request, facts=json.dumps({"after": after}))
            submission.add_request(tx, named, turn, self.now, part=f"-{after}")
        return ContinuedTurn(turn=turn, after=after)


def _same_part(repeated: SubmittedTurn) -> ContinuedTurn | None:
    """What the same request was given before; None if it continued nothing and began a turn."""
    after = None if repeated.request is None else json.loads(repeated.request.facts).get("after")
    return ContinuedTurn(turn=repeated.turn, after=after) if isinstance(after, int) else None


# --- following a turn --------------------------------------------------------------------------------


class ApiRunStatus(StrEnum):
    """How far a run has come."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting_for_approval"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_STATUS = {
    TurnState.ACCEPTED: ApiRunStatus.QUEUED,
    TurnState.RUNNING: ApiRunStatus.RUNNING,
    TurnState.WAITING: ApiRunStatus.WAITING,
    TurnState.DONE: ApiRunStatus.COMPLETED,
    TurnState.FAILED: ApiRunStatus.FAILED,
    TurnState.STOPPED: ApiRunStatus.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as it is now. `asked` is the turn that the client made; `turn` the one that answers it, which is
    another if its words were taken into a turn that ran already."""

    asked: Turn
    turn: Turn
    entries: tuple[Entry, ...]
    questions: tuple[Question, ...]
    request: Request | None

    @property
    def status(self) -> ApiRunStatus:
        turn = self.turn
        return ApiRunStatus.STOPPING if turn.state.open and turn.stop is not None else _STATUS[turn.state]

    @property
    def updated_at(self) -> datetime:
        return self.entries[-1].at if self.entries else self.turn.created_at

    @property
    def error(self) -> str | None:
        last = self.entries[-1].record if self.entries else None
        return last.reason if isinstance(last, Failed | Stopped) else None


def read_run(tx: Tx, asked: Turn, name: str) -> RunView:
    """`name` is the run's id, under which its request may be kept."""
    turn = answering_turn(tx, asked)
    return RunView(
        asked=asked,
        turn=turn,
        entries=tuple(tx.journal.of_turn(turn.id)),
        questions=tuple(tx.questions.of_turn(turn.id)),
        request=tx.requests.get(name),
    )


def answering_turn(tx: Tx, asked: Turn) -> Turn:
    turn = asked
    while turn.absorbed_by is not None:
        into = tx.turns.get(turn.absorbed_by)
        if into is None:
            return turn
        turn = into
    return turn


def recent_runs(tx: Tx, owner: str, prefix: str, limit: int) -> list[tuple[Request, Turn]]:
    """The latest runs that somebody asked for, newest first; those whose turn was deleted are left out."""
    found: list[tuple[Request, Turn]] = []
    for request in tx.requests.find(owner, prefix=prefix, limit=limit):
        turn = tx.turns.get(TurnId(request.turn))
        if turn is not None:
            found.append((request, turn))
    return found


async def watch_turn(
    feeds: Feeds, store: Store, turn: TurnId, after: int, *, live: bool = True
) -> AsyncIterator[FeedItem]:
    """From record `after` on; without `live`, records alone."""
    wanted: TurnId | None = turn
    while wanted is not None:
        feed = feeds.open(wanted)
        state = None if feed.driven else await _join(feeds, store, feed)
        if state is None or (not feed.ended and state.state.open):
            async for seen in feed.watch(after, live=live):
                yield seen
            feeds.release(wanted)
            wanted = feed.follow
            continue
        feeds.release(wanted)
        for entry in await _records(store, wanted):
            if entry.seq > after:
                yield entry
        wanted = state.absorbed_by or feed.follow


async def _join(feeds: Feeds, store: Store, feed: Feed) -> Turn:
    """The turn of a feed as it is; if nobody runs it now, the feed is filled from the store."""
    feed.watchers += 1  # an actor that parks the turn meanwhile must not throw the feed away
    try:
        state = await store.read(lambda tx: tx.turns.get(feed.turn))
        if state is not None and state.state is TurnState.WAITING and not feed.entries:
            entries = await _records(store, feed.turn)
            if not feed.entries:
                feed.preload(entries)
    finally:
        feed.watchers -= 1
    if state is None:
        feeds.release(feed.turn)
        raise NotFound(f"There is no turn “{feed.turn}”.")
    return state


async def _records(store: Store, turn: TurnId) -> list[Entry]:
    return await store.read(lambda tx: tx.journal.of_turn(turn))
