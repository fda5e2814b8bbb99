"""Children: turns that a call of another turn waits for.

A child is made in the commit that asks for it, in a session of its own beside its parent's. The commit that
ends it answers the question, so a crash loses neither. It works for the person its parent works for, with at
most the parent's tools; nobody can be asked in it, and nobody else answers for it. When the parent ends
first, the child is stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from hermes.control.outbound.answers import closing_words
from hermes.control.outbound.question_messages import close_question
from hermes.control.turn.questions import resume
from hermes.control.turn.stopping import stop_turn
from hermes.domain.event import Asked, Entry, Finished, QuestionKind, Verdict
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.session import BACKGROUND, Session, make_turn
from hermes.domain.toolbox import EVERY_TOOLSET, NO_TOOLSET
from hermes.domain.transcript import view_turn
from hermes.domain.turn import Answer, Cause, Question, Turn, TurnInput
from hermes.domain.word import replace

CHILD = "child_"
PARENT_GONE = "what asked for it has ended"

ActorKey = tuple[AgentId, SessionId]


def child_turn(question: QuestionId) -> TurnId:
    """The turn that answers a question."""
    return TurnId(f"{CHILD}{question}")


def child_session(question: QuestionId) -> SessionId:
    return SessionId(f"{BACKGROUND}{CHILD}{question}")


def follow_family(tx: Tx, turn: Turn, entries: Sequence[Entry], now: datetime) -> list[ActorKey]:
    """What the commit that parks or ends a turn does for its children and its parent; whom to ring after it.
    `entries` are the turn's records."""
    rung: list[ActorKey] = []
    asked = [entry.record for entry in entries if isinstance(entry.record, Asked)]
    children = [record for record in asked if record.kind is QuestionKind.CHILD]
    if isinstance(entries[-1].record, Asked):
        for record in _just_asked(entries):
            _begin(tx, turn, record, entries, now)
            rung.append((turn.agent, child_session(record.question)))
        return rung
    for record in children:
        if stop_turn(tx, child_turn(record.question), PARENT_GONE) is not None:
            rung.append((turn.agent, child_session(record.question)))
    if turn.id.startswith(CHILD):
        question = tx.questions.get(QuestionId(turn.id.removeprefix(CHILD)))
        if question is not None and close_question(tx, _answer(question.id, turn, entries), now):
            resume(tx, question)
            rung.append((turn.agent, question.session))
    return rung


def _just_asked(entries: Sequence[Entry]) -> Iterator[Asked]:
    for entry in reversed(entries):
        if not isinstance(entry.record, Asked):
            return
        if entry.record.kind is QuestionKind.CHILD:
            yield entry.record


def _begin(tx: Tx, parent: Turn, asked: Asked, entries: Sequence[Entry], now: datetime) -> None:
    above = tx.sessions.get(parent.session)
    session = Session(
        id=child_session(asked.question),
        agent=parent.agent,
        created_at=now,
        updated_at=now,
        owner=None if above is None else above.owner,
        place=None if above is None else above.place,
        parent=parent.session,
        model=None if above is None else above.model,
        workspace=None if above is None else above.workspace,
    )
    tx.sessions.add(session)
    state = None if asked.call is None else view_turn(entries, parent.id).calls.get(asked.call)
    own = parent.input.guidance
    guidance = replace(
        own.bounds,
        model=own.model,
        toolsets=_narrowed(own.toolsets, asked.options),
        withheld=(*own.withheld, *(() if state is None else (state.call.name,))),
        unattended="deny",
        outside=own.outside or asked.outside,
    )
    given = TurnInput(text=asked.text, guidance=guidance)
    turn = make_turn(session, Cause.CHILD, given, now, source=parent.source)
    tx.turns.add(replace(turn, id=child_turn(asked.question)))


def _narrowed(own: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The toolsets that a child is to have, among its parent's."""
    if NO_TOOLSET in (*own, *wanted):
        return (NO_TOOLSET,)
    if _is_all(wanted) or _is_all(own):
        return own if _is_all(wanted) else wanted
    return tuple(name for name in wanted if name in own) or (NO_TOOLSET,)


def _is_all(names: tuple[str, ...]) -> bool:
    return not names or not EVERY_TOOLSET.isdisjoint(names)


def has_read_outside(tx: Tx, question: Question) -> bool:
    """Whether a child answered that had read what was written elsewhere."""
    if question.kind is not QuestionKind.CHILD:
        return False
    child = child_turn(question.id)
    return view_turn(tx.journal.of_turn(child), child).tainted


def _answer(question: QuestionId, turn: Turn, entries: Sequence[Entry]) -> Answer:
    done = isinstance(entries[-1].record, Finished)
    text = closing_words(entries, turn.id)
    return Answer(question=question, verdict=Verdict.REPLY if done else Verdict.WITHDRAWN, text=text)
