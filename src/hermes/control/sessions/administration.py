"""Managing sessions from outside their chats: begin, find, rename, branch, delete, and trace a message
through inbox, turn, records and outbox. Each function is part of one transaction; the gateway wakes whoever
is concerned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from hermes.control.sessions.submission import (
    LONGEST_TITLE,
    add_session,
    check_owner,
    fork_session,
    no_session,
)
from hermes.domain.chats.address import Source
from hermes.domain.chats.rows import SearchHit
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line, storable, without_invisible
from hermes.domain.turns.event import Entry, ModelSaid, ToolFinished, ToolStarted, UserSaid
from hermes.domain.turns.session import BRANCHED, Session, SessionFilter
from hermes.domain.word import replace

_HITS_LOOKED_AT = 1000


class FoundSession(Struct, frozen=True, kw_only=True):
    """A session that was looked for, and where the words were said; no hit if its name is meant."""

    session: Session
    hit: SearchHit | None = None


def begin_titled(tx: Tx, session: Session) -> Session:
    """A new session in which nothing was said yet."""
    session = replace(session, title=_title(session.title))
    add_session(tx, session)
    return session


def search_sessions(tx: Tx, words: str, limit: int, among: SessionFilter) -> list[FoundSession]:
    """Sessions by name, then by what was said in them, the best first; each once."""
    found = {session.id: FoundSession(session=session) for session in tx.sessions.find(words, limit, among)}
    for hit in tx.search.find(words, _HITS_LOOKED_AT, among):
        if len(found) >= limit:
            break
        session = None if hit.session in found else tx.sessions.get(hit.session)
        if session is not None:
            found[session.id] = FoundSession(session=session, hit=hit)
    return list(found.values())[:limit]


def change_session(
    tx: Tx, wanted: SessionId, owner: str | None, changes: Mapping[Literal["title", "ended"], str | None]
) -> Session:
    """What is not named stays; None takes it away."""
    session = seen_session(tx, wanted, owner)
    if "title" in changes:
        session = replace(session, title=_title(changes["title"]))
    if "ended" in changes:
        session = replace(session, ended=changes["ended"] or None)
    tx.sessions.save(session)
    return session


def archive_session(tx: Tx, wanted: SessionId, archived: bool) -> Session:
    session = replace(seen_session(tx, wanted, None), archived=archived)
    tx.sessions.save(session)
    return session


def branch_session(tx: Tx, wanted: SessionId, owner: str | None, now: datetime) -> Session:
    """A fork of a session as it is, without the turn that goes on in it; the session itself has ended."""
    session = seen_session(tx, wanted, owner)
    going_on = {turn.id for turn in tx.turns.open_of(wanted)}
    last = tx.journal.read(wanted, most=1, newest=True)
    branch = fork_session(tx, session, now, upto=last[0].seq if last else 0, without=going_on)
    tx.sessions.save(replace(session, ended=BRANCHED))
    return branch


def read_transcript(tx: Tx, wanted: SessionId, owner: str | None) -> tuple[Session, list[Entry]]:
    return seen_session(tx, wanted, owner), tx.journal.read(wanted)


def seen_session(tx: Tx, wanted: SessionId, owner: str | None) -> Session:
    """The session, if there is one that was begun through this account."""
    session = tx.sessions.get(wanted)
    if session is None:
        raise no_session(wanted)
    check_owner(session, owner)
    return session


def remove_session(tx: Tx, session: SessionId) -> list[TurnId]:
    """Delete a session with all that hangs on it; the turns that were still open."""
    left = [turn.id for turn in tx.turns.open_of(session)]
    tx.sessions.delete(session)
    return left


def _title(text: str | None) -> str | None:
    if text is None or not (text := without_invisible(text)).strip():
        return None
    if len(text) > LONGEST_TITLE:
        raise UserError(f"A title has at most {LONGEST_TITLE} characters.")
    return storable(one_line(text, LONGEST_TITLE))


# --- where is my message ---------------------------------------------------------------------------

_LOOKED_AT = 200
"""Messages of other chats can have the same id."""
_SHOWN = 20

Sees = Callable[[Source | None, SessionId | None], bool]
"""Whether somebody may see what came from there, or became a turn of this session."""


def trace_message(tx: Tx, wanted: str, sees: Sees = lambda source, session: True) -> list[str]:
    """By the platform's message id, the delivery id (a webhook's too), or a turn's id. Empty if nothing is
    known of it, or if it is nothing for who asks."""
    lines: list[str] = []
    turns: list[TurnId] = []
    rows = [row for row in tx.inbox.find(wanted, _LOOKED_AT) if sees(row.inbound.source, None)]
    for row in rows[:_SHOWN]:
        outcome = row.outcome or "waiting"
        lines.append(f"inbox   {row.accepted_at:%H:%M:%S}  {row.account} {row.inbound.delivery}: {outcome}")
        if row.turn is not None and row.turn not in turns:
            turns.append(row.turn)
    named = None if turns else tx.turns.get(TurnId(wanted))
    if named is not None and sees(named.source, named.session):
        turns = [named.id]
    request = None if turns else tx.requests.latest(None, wanted)
    asked = None if request is None else tx.turns.get(request.turn)
    if request is not None and asked is not None and sees(asked.source, asked.session):
        lines.append(f"request {request.created_at:%H:%M:%S}  {request.owner} {wanted}: turn")
        turns.append(asked.id)
    for turn in turns:
        lines += _trace_turn(tx, turn)
    return lines


def _trace_turn(tx: Tx, turn_id: TurnId) -> list[str]:
    turn = tx.turns.get(turn_id)
    if turn is None:
        return []
    joined = f", joined {turn.absorbed_by}" if turn.absorbed_by else ""
    lines = [
        f"turn    {turn.created_at:%H:%M:%S}  {turn.id} in {turn.session}: {turn.state.value}"
        f" (start {turn.attempt}{joined})"
    ]
    lines += [
        f"record  {entry.at:%H:%M:%S}  {entry.seq}. {_tell(entry)}" for entry in tx.journal.of_turn(turn_id)
    ]
    for question in tx.questions.of_turn(turn_id):
        state = question.verdict.value if question.verdict else "open"
        lines.append(f"asked   {question.id}: {one_line(question.text, 50)} ({state})")
    for row in tx.outbox.of_turn(turn_id):
        what = "draft" if row.draft else f"part {row.part}"
        trouble = f" ({one_line(row.error, 60)})" if row.error else ""
        lines.append(
            f"outbox  {row.created_at:%H:%M:%S}  {what} to {row.to}: {row.state.value}"
            f", {row.attempts} attempt{'s' if row.attempts != 1 else ''}{trouble}"
        )
    return lines


def _tell(entry: Entry) -> str:
    record = entry.record
    match record:
        case UserSaid():
            return f"message, {len(record.text)} characters"
        case ModelSaid():
            calls = f", {len(record.calls)} tool calls" if record.calls else ""
            by = f", by {record.model} at {record.via}" if record.via else ""
            return f"reply, {len(record.text)} characters{calls}{by}"
        case ToolStarted():
            return f"tool {record.name} started ({record.effect.value})"
        case ToolFinished():
            return (
                f"tool {'outcome unknown' if record.unknown else 'failed' if record.failed else 'finished'}"
            )
        case _:
            return type(record).__name__.lower()
