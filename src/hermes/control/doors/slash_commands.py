"""What doors that know who speaks and to whom ask of the store: which session they are in, what is unfinished
in it, and what a slash command answers. Units of one transaction each; whom to wake is the gateway's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

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
from hermes.control.sessions.callers import Caller, begin_for, find_session
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.turn import Turn

_ENDING = ("stop", "approve", "deny")


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


def run_command(tx: Tx, caller: Caller, text: str, about: CommandContext) -> CallerReply:
    line = read_command(text)
    if line is None:
        raise UserError(f"“{one_line(text, 40)}” is not a command.", hint="/help lists the commands.")
    known = find_session(tx, caller, about.now)
    session = known or begin_for(tx, caller, about.now)
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
