"""Questions: reading people's words as answers, closing questions by them, and letting them expire; and what
was allowed with “always”, stored with that answer and read by later turns of the same person.

A question is closed by a conditional update, and its turn is made ready to go on in the same transaction;
whoever comes later is told the true state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from hermes.control.outbound.question_messages import close_question
from hermes.control.workers import take_each
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Inbound
from hermes.domain.clock import Clock
from hermes.domain.ids import AgentId, QuestionId, SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.tools.tool import NO_STANDING, Grant, StandingGrants
from hermes.domain.turns.event import QuestionKind, Verdict
from hermes.domain.turns.session import BACKGROUND, SHARED_KINDS, Session, owner_of, speaker_of
from hermes.domain.turns.turn import Answer, AnswerResult, Question, Turn, TurnState
from hermes.domain.word import replace
from hermes.stream.fold.questions import read_word

log = logging.getLogger("hermes.questions")
FOR_PEOPLE = (QuestionKind.APPROVAL, QuestionKind.CLARIFY, QuestionKind.CONFIRM)
_EVERY = 1.0
_PAGE = 100
_CLOCK_SECONDS = 5.0
_TOO_LATE = "Too late: nobody answered in time, so it was denied."

_THANKS = {
    Verdict.ONCE: "Approved.",
    Verdict.SESSION: "Approved for this session.",
    Verdict.ALWAYS: "Approved, from now on.",
    Verdict.DENY: "Denied.",
}
_OVER: dict[Verdict | None, str] = {
    Verdict.EXPIRED: _TOO_LATE,
    Verdict.WITHDRAWN: "This question was withdrawn; nothing waits for it any more.",
    Verdict.DENY: "This was already denied.",
}


def answer(tx: Tx, given: Answer, now: datetime, name: str | None = None) -> AnswerResult:
    """Try to close a question. Only the people listed in it can; an empty list means nobody. What was allowed
    with “always” is stored in the same transaction. `name` is the display name of the person."""
    question = tx.questions.get(given.question)
    if question is None:
        return AnswerResult(closed=False, text="There is no such question (any more).")
    if given.by is None or given.by not in question.may_answer:
        return AnswerResult(closed=False, text="Only the person who was asked can answer this.")
    given = _fitting(question, given)
    over = AnswerResult(closed=False, text=_OVER.get(question.verdict, "This was already answered."))
    if not question.open:
        return over
    if question.kind in FOR_PEOPLE and question.expires_at is not None and question.expires_at <= now:
        return AnswerResult(closed=False, text=_TOO_LATE)
    if not _is_offered(question, given.verdict):
        return AnswerResult(
            closed=False, text=f"That is not offered here. Choose: {', '.join(question.options)}."
        )
    if not close_question(tx, given, now, name):
        return over
    keep_grant(tx, question, given, now)
    resume(tx, question)
    return AnswerResult(closed=True, text=_THANKS.get(given.verdict, ""), session=question.session)


def _fitting(question: Question, given: Answer) -> Answer:
    """A clarification is answered by words, whatever they say. Of an approval the word itself, as a button
    brings it, is no reason."""
    if question.kind in (QuestionKind.CLARIFY, QuestionKind.CLIENT_TOOL):
        return replace(given, verdict=Verdict.REPLY) if given.text else given
    return replace(given, text="") if read_word(given.text) is given.verdict else given


def _is_offered(question: Question, verdict: Verdict) -> bool:
    if question.kind is QuestionKind.CONFIRM:
        return verdict in (Verdict.ONCE, Verdict.DENY)
    if question.kind is not QuestionKind.APPROVAL:
        return True
    return verdict is not Verdict.REPLY and (not question.options or verdict.value in question.options)


def questions_here(tx: Tx, session: SessionId) -> list[Question]:
    """What is open in a session and in what it works on in the background. Nobody but their parents answers
    for children."""
    own = tx.questions.open_of(session)
    every = tx.questions.open_of(None)
    background = [asked for asked in every if asked.session.startswith(BACKGROUND) and asked.may_answer]
    return own + [asked for asked in background if _parent(tx, asked.session) == session]


def _parent(tx: Tx, session: SessionId) -> SessionId | None:
    known = tx.sessions.get(session)
    return None if known is None else known.parent


def was_asked_at(tx: Tx, question: QuestionId, place: Address) -> bool:
    """Whether a question was put to this chat; nobody answers one from elsewhere."""
    asked = tx.questions.get(question)
    turn = None if asked is None else tx.turns.get(asked.turn)
    return turn is not None and turn.reply is not None and turn.reply.to == place


def resume(tx: Tx, question: Question) -> None:
    """The question is closed: its turn may go on, unless it waits for another one. What was asked for a child
    is handed down to it in any case."""
    turn = tx.turns.get(question.turn)
    if turn is None or turn.state is not TurnState.WAITING:
        return
    others = tx.questions.of_turn(question.turn)
    if question.relays is not None or not any(other.open for other in others):
        tx.turns.save(replace(turn, state=TurnState.RUNNING), attempt=turn.attempt, epoch=0)


def as_answer(
    text: str,
    open_questions: list[Question],
    by: str | None,
    *,
    replies_to: Collection[QuestionId] | None = None,
) -> Answer | None:
    """A plain message as the answer of an open question, or None if it is not one. `replies_to` are the
    questions that it replies to: none of them if it replies to another message, None if to nothing.

    Any words answer a clarification; an approval takes only an answer word, and only if the message replies
    to the prompt, or to nothing while exactly one question is open. What a program is asked for nobody's
    words answer."""
    open_questions = [question for question in open_questions if question.kind in FOR_PEOPLE]
    mine = [question for question in open_questions if by is not None and by in question.may_answer]
    for question in mine:
        if question.kind is QuestionKind.CLARIFY:
            return Answer(question=question.id, verdict=Verdict.REPLY, text=read_reply(question, text), by=by)
    verdict = read_word(text)
    if replies_to is not None:
        mine = [question for question in mine if question.id in replies_to]
    if verdict is None or not mine or (replies_to is None and len(open_questions) > 1):
        return None
    return Answer(question=mine[0].id, verdict=verdict, by=by)


def can_answer(tx: Tx, question: Question, message: Inbound) -> bool:
    """Whether a plain message may have been said to this question: it was not sent before that was asked.
    Clocks differ a little, and many platforms count in whole seconds. A clarification takes any words."""
    asked = tx.outbox.begun(f"{question.id}:")
    late = timedelta(seconds=_CLOCK_SECONDS)
    return question.kind is QuestionKind.CLARIFY or not asked or message.at + late >= asked[0].created_at


def replied_to(tx: Tx, questions: Sequence[Question], message: Inbound) -> set[QuestionId] | None:
    """Those of the questions whose prompt a message replies to; None if it replies to nothing. Everything
    said in a thread replies to its first message on some platforms: that means nothing."""
    reply = message.reply_to
    if reply is None or reply.ref == message.source.address.thread:
        return None
    return {
        question.id
        for question in questions
        for row in tx.outbox.begun(f"{question.id}:")
        if row.receipt is not None and row.receipt.ref == reply.ref
    }


def pressed(value: str, by: str | None) -> Answer | None:
    """The answer that a button carries: `<question>:<option>`."""
    question, colon, option = value.partition(":")
    if not colon or not question.startswith("q_"):
        return None
    verdict = read_word(option) or Verdict.REPLY
    return Answer(question=QuestionId(question), verdict=verdict, text=option, by=by)


def read_reply(question: Question, text: str) -> str:
    """What words say to a question: a number stands for the option it counts."""
    word = text.strip()
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(question.options):
        return question.options[int(word) - 1]
    return text


class QuestionExpiry(Struct, frozen=True, kw_only=True):
    """Denies questions whose time is over. One task for all of them, however many wait."""

    store: Store
    clock: Clock
    ring: Callable[[AgentId, SessionId], None]

    async def live(self) -> None:
        while True:
            await self.sweep()
            await self.clock.sleep(_EVERY)

    async def sweep(self) -> int:
        now = self.clock.now()
        late = await self.store.read(lambda tx: tx.recovery.expired(now, _PAGE))
        await take_each(late, partial(self._expire, now))
        return len(late)

    async def _expire(self, now: datetime, late: tuple[AgentId, Question]) -> None:
        agent, question = late

        def expire(tx: Tx) -> bool:
            closed = close_question(tx, Answer(question=question.id, verdict=Verdict.EXPIRED), now)
            if closed:
                resume(tx, question)
            return closed

        if await self.store.scoped(agent).write(expire):
            log.info("question.expired question=%s", question.id)
            self.ring(agent, question.session)
        await asyncio.sleep(0)


def settled_of(tx: Tx, turns: Sequence[Turn]) -> frozenset[QuestionId]:
    """The questions of these turns that have a verdict."""
    asked = (question for turn in turns for question in tx.questions.of_turn(turn.id))
    return frozenset(question.id for question in asked if question.verdict is not None)


# --- standing grants ---------------------------------------------------------------------------------


def keep_grant(tx: Tx, question: Question, given: Answer, now: datetime) -> None:
    """Store what an `always` allows; called in the transaction that closes the question."""
    if (
        given.verdict is not Verdict.ALWAYS
        or question.kind is not QuestionKind.APPROVAL
        or not question.digest
    ):
        return
    turn = tx.turns.get(question.turn)
    source = None if turn is None else turn.source
    person = None if source is None else owner_of(source)
    if turn is None or source is None or person is None or given.by is None:
        return
    tx.grants.add(
        Grant(
            id=question.id.replace("q_", "g_", 1),
            agent=turn.agent,
            person=person,
            digest=question.digest,
            text=question.text,
            by=person if given.by == source.person else f"{source.address.credential}:{given.by}",
            at=now,
        )
    )


def standing_of(turn: Turn, settings: Settings, tx: Tx) -> StandingGrants:
    """What a turn may do without asking: by its session, and by the grants of who speaks in it."""
    session = tx.sessions.get(turn.session)
    if session is None:
        return NO_STANDING
    speaker = speaker_of(turn)
    person = None if speaker is None else owner_of(speaker)
    granted = frozenset[str]() if person is None else {grant.digest for grant in tx.grants.list(person)}
    if speaker is not None and speaker.person is not None:
        granted = granted | tx.grants.of_session(session.id, speaker.person)
    told = session.yolo and settings.approvals.yolo_command
    everything = told and yolo_counts(tx, session, turn.source)
    return StandingGrants(everything=everything, digests=frozenset(granted))


def yolo_counts(tx: Tx, session: Session, source: Source | None) -> bool:
    """Whether `/yolo` of a session counts for who speaks from here. What one person said in private does not
    count where several people speak; a place's own sessions are another matter: there an admin said it."""
    if source is None or source.kind is SourceKind.PRIVATE:
        return True
    if source.kind in SHARED_KINDS:
        here = [key for key, bound in tx.bindings.of(session.id) if bound.address == source.address]
        if session.owner is None:
            return True
        if here:
            return not any(key.shared for key in here)
    return session.owner == owner_of(source)
