"""Continuing a turn that waits: with the results of the caller's own tools, or with words that answer its
question, in one transaction after which the gateway wakes it.

Every continuation is a request of its own for another part of the same turn. Repeated under the same key it
is the same request and watches the same part."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256

import msgspec
from msgspec import Struct

from hermes.control.sessions import repeats, submission
from hermes.control.sessions.repeats import NewRequest, SubmittedTurn
from hermes.control.sessions.submission import NotFound
from hermes.control.turn.questions import answer, as_answer
from hermes.domain.chats.address import Source
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import UserError
from hermes.domain.ids import QuestionId, SessionId, client_call_id
from hermes.domain.models.call_options import CallOptions
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line, storable, storable_all
from hermes.domain.turns.event import Asked, Entry, QuestionKind, Verdict
from hermes.domain.turns.session import make_turn
from hermes.domain.turns.turn import (
    Answer,
    BusyMode,
    Cause,
    EarlierMessage,
    Question,
    Request,
    Speaker,
    Turn,
    TurnInput,
    TurnState,
)
from hermes.domain.word import replace
from hermes.stream.fold.questions import answer_words, is_printed

ToolResults = Mapping[QuestionId, str]
"""What a client's tools returned, by the question that asked for each."""


_NOTHING = EarlierMessage(by=Speaker.USER)


class AnswerExpected(UserError):
    """The session waits for an answer, and these words are none. Who `may_say` it is told the words: a person
    in a chat program reads this and can call no endpoint."""

    def __init__(self, question: Question, *, may_say: bool) -> None:
        if may_say and question.kind in (QuestionKind.APPROVAL, QuestionKind.CONFIRM):
            super().__init__(
                f"The session waits for an answer to: {one_line(question.text, 300)} ({question.id}).",
                hint=f"Answer {answer_words(question)}.",
            )
            return
        super().__init__(
            f"The session waits for an answer to {question.id} ({question.kind.value}).",
            hint=f"Answer it at /v1/questions/{question.id}, or stop its run.",
        )


def part_name(prefix: str, turn: Turn, part: int) -> str:
    """The name of a part of a turn at a door: the turn's, and from the second on its number."""
    return repeats.id_for(prefix, turn.id) + _suffix(part)


def _suffix(part: int) -> str:
    return "" if part == 1 else f"_{part}"


def calls_open(tx: Tx, turn: Turn) -> list[Question]:
    """The calls of its own tools that a turn waits for its client to make."""
    questions = tx.questions.of_turn(turn.id)
    return [question for question in questions if question.open and question.kind is QuestionKind.CLIENT_TOOL]


def _answer_all(tx: Tx, turn: Turn, answers: Iterable[Answer], now: datetime) -> bool:
    """Answer in the name of whoever the turn belongs to; whether every answer was accepted."""
    person = None if turn.source is None else turn.source.person
    accepted = [answer(tx, replace(given, by=person), now).closed for given in answers]
    return all(accepted)


def take_options(tx: Tx, turn: Turn, options: CallOptions | None, heard: str = "") -> None:
    """What a request brings to a turn that it continues counts for the turn from here on."""
    now = tx.turns.get(turn.id)
    given = None if now is None else replace(now.input, options=options, heard=heard)
    if now is not None and given is not None and now.state.open and now.input != given:
        tx.turns.save(replace(now, input=given), attempt=now.attempt)


def messages_digest(messages: Sequence[EarlierMessage]) -> str:
    """What a client said, and says was said, in one short text, as it is stored. Instructions do not count:
    their place changes, and many programs write the time into them. They prove nothing either: whoever has
    the key chooses them, while the printed question with its random id was shown in one conversation only."""
    said = [
        replace(message, attachments=tuple(_named_only(file) for file in message.attachments))
        for message in messages
        if message.by is not Speaker.SYSTEM
    ]
    return sha256(msgspec.json.encode(storable_all(said))).hexdigest()


def _named_only(file: Attachment) -> Attachment:
    """What became of a file since it was sent does not count."""
    return Attachment(kind=MediaKind.FILE, ref=file.ref)


def heard_digest(turn: Turn) -> str:
    """The digest of the messages that the client sent with its latest request to this turn."""
    given, guidance = turn.input, turn.input.guidance
    if given.heard:
        return given.heard
    now = EarlierMessage(by=Speaker.USER, text=given.text, attachments=given.attachments)
    messages = guidance.history if now == _NOTHING else (*guidance.history, now)
    return messages_digest(messages)


def _as_answers(questions: Iterable[Question], results: ToolResults) -> list[Answer]:
    return [
        Answer(question=question.id, verdict=Verdict.REPLY, text=storable(results[question.id]))
        for question in questions
    ]


class TakeToolResults(Struct, frozen=True, kw_only=True):
    """Take all results that a response waits for, or none of them. The same results once more are the same
    request; other ones for a call that has its result are refused. `words` were said with them."""

    results: ToolResults
    now: datetime
    request: NewRequest | None = None
    options: CallOptions | None = None
    words: TurnInput | None = None

    def unit(self, tx: Tx) -> SubmittedTurn:
        repeated = repeats.asked_before(tx, self.request)
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
        if fresh:
            take_options(tx, turn, self.options)
            _add_words(tx, turn, self.words, self.now)
        return _next_part(tx, turn, questions[0], self.request, self.now)

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


class TakeAnswer(Struct, frozen=True, kw_only=True):
    """Take a person's answers to what a response waits for, all of them or none. The same once more is the
    same request; one that comes too late is told what became of the question. `words` were said with them."""

    given: Sequence[Answer]
    now: datetime
    request: NewRequest | None = None
    options: CallOptions | None = None
    words: TurnInput | None = None
    heard: str = ""

    def unit(self, tx: Tx) -> SubmittedTurn:
        repeated = repeats.asked_before(tx, self.request)
        if repeated is not None:
            return repeated
        questions = [tx.questions.get(given.question) for given in self.given]
        asked = [question for question in questions if question is not None]
        turn = tx.turns.get(asked[0].turn) if asked else None
        if turn is None or turn.source is None or len(asked) < len(questions):
            raise NotFound("There is no such question (any more).")
        if any(question.turn != turn.id for question in asked):
            raise UserError("These answers belong to questions of different responses.")
        for question, given in zip(asked, self.given, strict=True):
            self._take(tx, question, replace(given, by=turn.source.person))
        if any(question.open for question in asked):
            take_options(tx, turn, self.options, self.heard)
            _add_words(tx, turn, self.words, self.now)
        entries = tx.journal.of_turn(turn.id)
        last = max(asked, key=lambda question: _parts_before(entries, question))
        return _next_part(tx, turn, last, self.request, self.now)

    def _take(self, tx: Tx, question: Question, given: Answer) -> None:
        if question.open:
            outcome = answer(tx, given, self.now)
            if not outcome.closed:
                raise submission.TurnUnfinished(outcome.text)
        elif question.verdict is None or question.verdict.allows != given.verdict.allows:
            raise submission.TurnUnfinished(
                "This question was answered otherwise, or nobody answered in time."
            )


class AnswerQuestion(Struct, frozen=True, kw_only=True):
    """Close a question for who was asked; one that is closed is told what became of it."""

    given: Answer
    now: datetime

    def unit(self, tx: Tx) -> SubmittedTurn:
        question = tx.questions.get(self.given.question)
        turn = None if question is None else tx.turns.get(question.turn)
        outcome = answer(tx, self.given, self.now)
        if turn is None or not outcome.closed:
            raise submission.TurnUnfinished(outcome.text)
        return SubmittedTurn(turn=turn, resumed=_is_resumed(tx, turn))


def _add_words(tx: Tx, turn: Turn, words: TurnInput | None, now: datetime) -> None:
    """What was said with an answer joins the turn that continues, before its model is called."""
    if words is not None and any(file.pending for file in words.attachments):
        raise UserError("An answer is words and pictures.", hint="Send the file in a message after it.")
    session = None if words is None else tx.sessions.get(turn.session)
    if words is None or session is None:
        return
    given = replace(words, text=storable(words.text))
    joining = make_turn(session, Cause.MESSAGE, given, now, source=turn.source, busy=BusyMode.STEER)
    tx.turns.add(replace(joining, ephemeral=turn.ephemeral))


def _parts_before(entries: Sequence[Entry], question: Question) -> int:
    from hermes.stream.faces.responses.fold import parts_before  # large, and only answers need it

    return parts_before(entries, question.id)


def _next_part(
    tx: Tx, turn: Turn, answered: Question, named: NewRequest | None, now: datetime
) -> SubmittedTurn:
    """The part of a turn that begins with the answer to this question, under its own name."""
    part = 1 + _parts_before(tx.journal.of_turn(turn.id), answered)
    request: Request | None = None
    if named is not None:
        kept = tx.requests.get(part_name(named.prefix, turn, part))
        request = kept or repeats.add_request(tx, named, turn, now, part=_suffix(part))
    return SubmittedTurn(
        turn=turn, request=request, fresh=answered.open, resumed=_is_resumed(tx, turn), part=part
    )


def _is_resumed(tx: Tx, before: Turn) -> bool:
    """Whether a turn that waited goes on with what was given to it in this transaction."""
    now = tx.turns.get(before.id)
    return before.state is TurnState.WAITING and now is not None and now.state is TurnState.RUNNING


class ContinueTurn(Struct, frozen=True, kw_only=True):
    """Continue whatever turn waits for what a request brings; `mine` says whose turns its client may
    continue."""

    source: Source
    mine: Callable[[Source | None], bool]
    now: datetime
    request: NewRequest | None = None
    options: CallOptions | None = None
    heard: str = ""
    pictured: Collection[QuestionId] = ()
    """Results that bring pictures, which a waiting call does not take."""
    shown: TurnInput | None = None
    """Pictures that come with words that answer; they join the turn."""

    def with_results(self, tx: Tx, results: ToolResults) -> SubmittedTurn | None:
        """Give the results of a client's own tools; None if nothing waits for any of them."""
        repeated = repeats.asked_before(tx, self.request)
        if repeated is not None:
            # It continued something then, or else it began a turn.
            return repeated if repeated.after else None
        asked = [question for question in map(tx.questions.get, results) if question and question.open]
        waiting = [question for question in asked if question.kind is QuestionKind.CLIENT_TOOL]
        turn = self._my_turn(tx, waiting[0]) if waiting else None
        if turn is None:
            return None
        questions = calls_open(tx, turn)
        missing = [f"call_{question.id}" for question in questions if question.id not in results]
        if missing:
            raise UserError(
                f"The turn waits for further results: {', '.join(missing)}.", hint="Send all of them at once."
            )
        if any(question.id in self.pictured for question in questions):
            raise UserError(
                "The result of a call that a run waits for is text alone.",
                hint="Send its pictures in a message of the user.",
            )
        return self._continue(tx, turn, _as_answers(questions, results))

    def with_reply(
        self, tx: Tx, asked: QuestionId, printed: str, text: str, before: str
    ) -> SubmittedTurn | None:
        """Take words as the answer to the question that the conversation of their client ends with, as it was
        `printed`. That it is the same conversation is known by the digest of the messages `before` the
        question; None if it is another, or the words are no answer."""
        repeated = repeats.asked_before(tx, self.request)
        if repeated is not None:
            return repeated if repeated.after else None
        question = tx.questions.get(asked)
        turn = self._my_turn(tx, question) if question is not None and question.open else None
        if question is None or turn is None or heard_digest(turn) != before:
            return None
        if not is_printed(printed, question, tx.journal.of_turn(turn.id)):
            return None
        given = as_answer(storable(text), [question], self.source.person, replies_to={question.id})
        return None if given is None else self._continue(tx, turn, [given], self.shown)

    def with_words(self, tx: Tx, session: SessionId, text: str) -> SubmittedTurn | None:
        """Take words as the answer to what their session waits for; None if it waits for nothing."""
        questions = tx.questions.open_of(session)
        # Nobody answers for a child: words wait until it is done.
        waiting = [question for question in questions if question.kind is not QuestionKind.CHILD]
        if not waiting:
            return None
        mine = {question.id: turn for question in waiting if (turn := self._my_turn(tx, question))}
        questions = [question for question in waiting if question.id in mine]
        given = as_answer(storable(text), questions, self.source.person)
        if given is None:
            raise AnswerExpected(waiting[0], may_say=len(waiting) == len(questions) == 1)
        return self._continue(tx, mine[given.question], [given], self.shown)

    def _my_turn(self, tx: Tx, question: Question) -> Turn | None:
        turn = tx.turns.get(question.turn)
        return turn if turn is not None and self.mine(turn.source) else None

    def _continue(
        self, tx: Tx, turn: Turn, answers: Sequence[Answer], shown: TurnInput | None = None
    ) -> SubmittedTurn | None:
        if not _answer_all(tx, turn, answers, self.now):
            return None
        _add_words(tx, turn, shown, self.now)
        take_options(tx, turn, self.options, self.heard)
        every = tx.questions.of_turn(turn.id)
        waiting = {one.id for one in every if one.open and one.kind is not QuestionKind.CHILD}
        entries = tx.journal.of_turn(turn.id)
        asked = {entry.record.question: entry.seq for entry in entries if isinstance(entry.record, Asked)}
        # What is still open is asked for next.
        left = [asked[question] - 1 for question in waiting if question in asked]
        after = min(left, default=max(asked.values(), default=0))
        if self.request is not None:
            named = replace(self.request, facts=json.dumps({"after": after}))
            repeats.add_request(tx, named, turn, self.now, part=f"-{after}")
        # What waited for an answer hangs on no client any more.
        resumed = _is_resumed(tx, turn)
        return SubmittedTurn(turn=replace(turn, ephemeral=False), after=after, fresh=False, resumed=resumed)
