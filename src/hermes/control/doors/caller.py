"""What doors that know who speaks and to whom ask of the store: which session they are in, what is unfinished
in it, and what a slash command answers. Units of one transaction each; whom to wake is the gateway's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hermes.control.commands.registry import (
    MOST_TURNS,
    NOTHING_AROUND,
    CommandCall,
    GatewayInfo,
    perform,
    read_command,
)
from hermes.control.hooks.context import HookNotice, session_began, session_replaced
from hermes.control.hooks.dispatch import Hooks
from hermes.control.hooks.gates import CommandCase, CommandRuling, RulingNeeded, find_ruling, rule_command
from hermes.domain.address import LOCAL_DOOR, Source
from hermes.domain.errors import UserError
from hermes.domain.event import Entry
from hermes.domain.ids import AgentId, SessionId, new_turn_id
from hermes.domain.ports.store import Store, Tx
from hermes.domain.session import Session, SessionKey, begin_session, session_key
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line, storable
from hermes.domain.transcript import visible
from hermes.domain.turn import Cause, ReplyPlace, Turn, TurnInput

_LOOKED_AT = 50
_ENDING = ("stop", "approve", "deny")
UNUSED = timedelta(days=1)
"""How long a session is kept in which nothing was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody at a door: who speaks, and to which agent. `session` is the one they are in, for doors
    that keep it themselves because others share their address; else it is what the address is bound to."""

    agent: AgentId
    source: Source
    session: SessionId | None = None

    @property
    def key(self) -> SessionKey:
        return session_key(self.source, self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerReply:
    """What a command answered: words, perhaps a turn to watch, and the sessions that the caller was in before
    and is in now."""

    text: str
    session: SessionId
    before: SessionId
    turn: Turn | None = None
    wakes: tuple[SessionId, ...] = ()
    news: tuple[HookNotice, ...] = ()
    handoff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What a command may know of the gateway around it, and what hooks say to it, if they were asked."""

    settings: Settings
    model: str
    now: datetime
    around: GatewayInfo = NOTHING_AROUND
    hooks: Hooks = field(default_factory=Hooks)
    ruling: CommandRuling | None = None
    platforms: Collection[str] = ()


def bound_session(tx: Tx, caller: Caller, now: datetime) -> Session:
    """The session that the caller is in; a new one if there is none yet."""
    return _bound(tx, caller, now) or _begin(tx, caller, now)


def enter_session(tx: Tx, caller: Caller, wanted: str | None, now: datetime) -> Session:
    """The caller goes into the session that is wanted (by id, its start, or title), or into a new one."""
    if wanted is None:
        begun = replace(_begin(tx, caller, now), expires_at=now + UNUSED)
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
    tx.bindings.bind(caller.key, found[0].id, caller.source, now)
    return found[0]


def entering_news(caller: Caller, session: Session, now: datetime) -> tuple[HookNotice, ...]:
    """What hooks are told of a session that was entered at this moment: nothing, unless it was begun so."""
    return (session_began(caller.source, session, caller.key),) if session.created_at == now else ()


def choose_model(tx: Tx, session: Session, model: str | None) -> Session:
    """The session with the model that was asked for, from now on; None changes nothing."""
    if model is None or model == session.model:
        return session
    changed = replace(session, model=model)
    tx.sessions.save(changed)
    return changed


def open_turns(tx: Tx, caller: Caller, session: SessionId | None) -> list[Turn]:
    """The unfinished turns of a session, oldest first; without one, of the caller's newest that has any."""
    if session is not None:
        return tx.turns.open_of(session)
    place, bound = str(caller.source.address), tx.bindings.get(caller.key)
    for known in tx.sessions.find("", _LOOKED_AT):
        turns = tx.turns.open_of(known.id) if known.place == place or known.id == bound else []
        if turns:
            return turns
    return []


def wake_session(tx: Tx, wanted: SessionId, text: str, now: datetime) -> Turn | None:
    """A turn that nobody spoke: something the session waited for has happened. Its answer goes to the chat
    that the session is bound to, if it is one that is written to. None if the session is no more."""
    session = tx.sessions.get(wanted)
    if session is None:
        return None
    bound = tx.bindings.of(session.id)
    source = bound[0][1] if bound else None
    written_to = source is not None and source.address.platform != LOCAL_DOOR
    turn = Turn(
        id=new_turn_id(),
        session=session.id,
        agent=session.agent,
        cause=Cause.CHILD,
        input=TurnInput(text=storable(text)),
        created_at=now,
        source=source,
        reply=ReplyPlace(to=source.address) if source is not None and written_to else None,
    )
    tx.turns.add(turn)
    return turn


async def give_command(store: Store, caller: Caller, text: str, about: CommandContext) -> CallerReply:
    """Run a slash command in one transaction, after hooks were asked and before they are told."""
    line = read_command(text)
    ends = line is not None and line[0] in _ENDING
    try:
        replied = await store.write(
            lambda tx: run_command(tx, caller, text, about), first=not ends, ends=ends
        )
    except RulingNeeded as case:
        ruled = replace(about, ruling=await rule_command(about.hooks, case))
        replied = await store.write(
            lambda tx: run_command(tx, caller, text, ruled), first=not ends, ends=ends
        )
    about.hooks.tell_all(replied.news)
    return replied


def look_up(tx: Tx, name: str) -> list[tuple[Session, list[Entry]]]:
    """The sessions that are meant by a name, with what is visible of it if it is one."""
    found = tx.sessions.find(name) if name else []
    entries = visible(tx.journal.read(found[0].id)) if len(found) == 1 else []
    return [(session, entries) for session in found]


def run_command(tx: Tx, caller: Caller, text: str, about: CommandContext) -> CallerReply:
    line = read_command(text)
    if line is None:
        raise UserError(f"“{one_line(text, 40)}” is not a command.", hint="/help lists the commands.")
    known = _bound(tx, caller, about.now)
    session = known or _begin(tx, caller, about.now)
    news: tuple[HookNotice, ...] = (
        () if known is not None else (session_began(caller.source, session, caller.key),)
    )
    asked = CommandCase(source=caller.source, session=session, key=caller.key, line=line)
    ruling = about.ruling or find_ruling(about.hooks, about.settings, asked)
    if ruling.line is None:
        return CallerReply(text=ruling.text, session=session.id, before=session.id, news=news)
    name, args = ruling.line
    call = CommandCall(
        tx=tx,
        name=name,
        args=args,
        source=caller.source,
        key=caller.key,
        session=session,
        turns=tx.turns.open_of(session.id, MOST_TURNS),
        settings=about.settings,
        now=about.now,
        model=about.model,
        around=about.around,
        platforms=about.platforms,
    )
    reply = perform(call)
    bound = tx.bindings.get(caller.key) or session.id
    if reply.begun is not None:
        news += session_replaced(caller.source, session, reply.begun, caller.key)
    return CallerReply(
        text=reply.text,
        session=bound,
        before=session.id,
        turn=reply.turn,
        news=news,
        wakes=reply.wakes,
        handoff=reply.handoff,
    )


def _bound(tx: Tx, caller: Caller, now: datetime) -> Session | None:
    bound = tx.bindings.get(caller.key)
    if caller.session is None or caller.session == bound:
        return None if bound is None else tx.sessions.get(bound)
    known = tx.sessions.get(caller.session)
    if known is not None:
        tx.bindings.bind(caller.key, known.id, caller.source, now)
    return known


def _begin(tx: Tx, caller: Caller, now: datetime) -> Session:
    session = begin_session(caller.key, caller.source, now)
    tx.sessions.add(session)
    tx.bindings.bind(caller.key, session.id, caller.source, now)
    return session
