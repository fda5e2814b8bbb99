"""Callers say who they are and which agent they mean: a terminal, an API client, a script. Here: which
session a caller is in, how it enters another one, and what is unfinished there. All run in a transaction."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from hermes.control.turn.claim import next_session
from hermes.domain.chats.address import LOCAL_DOOR, Source
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line, storable
from hermes.domain.turns.event import Entry
from hermes.domain.turns.gateway_event import GatewayEvent, session_began
from hermes.domain.turns.session import Session, SessionKey, make_turn, session_key
from hermes.domain.turns.transcript import visible
from hermes.domain.turns.turn import NO_GUIDANCE, Cause, ReplyPlace, Turn, TurnInput
from hermes.domain.word import replace

_LOOKED_AT = 50
UNUSED = timedelta(days=1)
"""How long a session is kept in which nothing was said."""


class Caller(Struct, frozen=True, kw_only=True):
    """Somebody at a door: who speaks, and to which agent. `session` is the one they are in, for doors
    that keep it themselves because others share their address; else it is what the address is bound to."""

    agent: AgentId
    source: Source
    session: SessionId | None = None

    @property
    def key(self) -> SessionKey:
        return session_key(self.source, self.agent)


def enter_session(
    tx: Tx, caller: Caller, wanted: str | None, model: str | None, now: datetime
) -> tuple[Session, tuple[GatewayEvent, ...]]:
    """The caller goes into the session that is wanted (by id, its start, or title), or into a new one; from
    now on with this model, if one was chosen. With what has happened: nothing, unless it was begun."""
    session = _entered(tx, caller, wanted, now)
    if model not in (None, session.model):
        session = replace(session, model=model)
        tx.sessions.save(session)
    return session, (session_began(caller.source, session, caller.key),) if session.created_at == now else ()


def _entered(tx: Tx, caller: Caller, wanted: str | None, now: datetime) -> Session:
    if wanted is None:
        begun = replace(next_session(tx, caller.key, caller.source, now), expires_at=now + UNUSED)
        tx.sessions.save(begun)
        return begun
    found = tx.sessions.find(wanted) if wanted.strip() else []
    if not found:
        raise UserError(
            f"There is no session “{one_line(wanted, 60)}”.", hint="`hermes sessions list` shows them."
        )
    if len(found) > 1:
        ids = ", ".join(session.id for session in found[:5])
        raise UserError(f"“{one_line(wanted, 60)}” fits {len(found)} sessions.", hint=f"Write more: {ids}")
    before = tx.bindings.get(caller.key)
    if before not in (None, found[0].id):
        tx.flushes.want(before, now)
    tx.bindings.bind(caller.key, found[0].id, caller.source, now)
    return found[0]


def unfinished_sessions(tx: Tx, caller: Caller) -> list[tuple[Session, list[Turn]]]:
    """The sessions with unfinished turns that came from where the caller is, newest first, and these turns,
    oldest first. What was said elsewhere in such a session is not theirs to come back to."""

    def own(session: Session) -> list[Turn]:
        turns = tx.turns.open_of(session.id)
        return [turn for turn in turns if turn.source and turn.source.address == caller.source.address]

    pairs = [(session, own(session)) for session in tx.sessions.find("", _LOOKED_AT)]
    return [(session, turns) for session, turns in pairs if turns]


def wake_session(
    tx: Tx,
    wanted: SessionId,
    text: str,
    now: datetime,
    cause: TurnId | None = None,
    *,
    outside: bool = False,
) -> Turn | None:
    """A turn that nobody spoke: something the session waited for has happened. Its answer goes to the chat
    that the session is bound to, if it is one that is written to. It may do what the turn that caused it
    might, or else the session's last one; less if the words come from `outside`. None if the session is no
    more."""
    session = tx.sessions.get(wanted)
    if session is None:
        return None
    before = _turn_before(tx, session, cause)
    bound = tx.bindings.of(session.id)
    place = bound[0][1] if bound else None
    written_to = place is not None and place.address.platform != LOCAL_DOOR
    reply = ReplyPlace(to=place.address) if place is not None and written_to else None
    bounds = NO_GUIDANCE if before is None else before.input.guidance.bounds
    if before is not None and bounds.origin is None:
        bounds = replace(bounds, origin=before.source)
    bounds = replace(bounds, outside=bounds.outside or outside)
    given = TurnInput(text=storable(text), guidance=bounds)
    source = place or (None if before is None else before.source)
    turn = make_turn(session, Cause.CHILD, given, now, source=source, reply=reply)
    tx.turns.add(turn)
    return turn


def _turn_before(tx: Tx, session: Session, cause: TurnId | None) -> Turn | None:
    known = None if cause is None else tx.turns.get(cause)
    last = tx.journal.read(session.id, most=1, newest=True)
    return known or (tx.turns.get(last[0].turn) if last else None)


def look_up(tx: Tx, name: str) -> list[tuple[Session, list[Entry]]]:
    """The sessions that are meant by a name, with what is visible of it if it is one."""
    found = tx.sessions.find(name) if name else []
    entries = visible(tx.journal.read(found[0].id)) if len(found) == 1 else []
    return [(session, entries) for session in found]


def session_of(tx: Tx, caller: Caller) -> Session | None:
    """The session that a caller is in, if there is one."""
    wanted = caller.session or tx.bindings.get(caller.key)
    return None if wanted is None else tx.sessions.get(wanted)


def find_session(tx: Tx, caller: Caller, now: datetime) -> Session | None:
    """As `session_of`; the caller's address is bound to it from now on."""
    known = session_of(tx, caller)
    if known is not None and tx.bindings.get(caller.key) != known.id:
        tx.bindings.bind(caller.key, known.id, caller.source, now)
    return known
