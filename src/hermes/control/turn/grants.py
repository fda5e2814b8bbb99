"""Standing grants: what a person allowed with “always”. Stored with that answer, read by their turns."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.address import Source, SourceKind
from hermes.domain.event import QuestionKind, Verdict
from hermes.domain.ports.store import Tx
from hermes.domain.session import SHARED_KINDS, Session, owner_of, speaker_of
from hermes.domain.tool import NO_STANDING, Grant, StandingGrants
from hermes.domain.turn import Answer, Question, Turn


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


def standing_of(turn: Turn, tx: Tx) -> StandingGrants:
    """What a turn may do without asking: by its session, and by the grants of who speaks in it."""
    session = tx.sessions.get(turn.session)
    if session is None:
        return NO_STANDING
    speaker = speaker_of(turn)
    person = None if speaker is None else owner_of(speaker)
    granted = [] if person is None else tx.grants.list(person)
    everything = session.yolo and yolo_counts(tx, session, turn.source)
    return StandingGrants(everything=everything, digests=frozenset(grant.digest for grant in granted))


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
