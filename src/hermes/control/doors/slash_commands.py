"""Slash commands from a door that knows its caller: it shows the reply itself and watches the turn that a
command may have made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hermes.control.commands.gate import CommandCase, CommandRuling, RulingNeeded, rule_command
from hermes.control.commands.registry import CommandContext
from hermes.control.commands.running import run_line
from hermes.control.hooks.context import HookNotice, session_began
from hermes.control.hooks.dispatch import Hooks
from hermes.control.sessions.callers import Caller, begin_for, find_session
from hermes.domain.command_line import read_command
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Store, Tx
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
class RunCommand:
    """The transaction in which a caller's line runs."""

    caller: Caller
    line: tuple[str, str]
    about: CommandContext
    hooks: Hooks
    ruling: CommandRuling | None = None

    def unit(self, tx: Tx) -> CallerReply:
        caller, now = self.caller, self.about.now
        session = find_session(tx, caller, now)
        began: tuple[HookNotice, ...] = ()
        if session is None:
            session = begin_for(tx, caller, now)
            began = (session_began(caller.source, session, caller.key),)
        case = CommandCase(source=caller.source, session=session, key=caller.key, line=self.line)
        reply = run_line(tx, case, self.about, self.hooks, self.ruling)
        return CallerReply(
            text=reply.text,
            session=tx.bindings.get(caller.key) or session.id,
            before=session.id,
            turn=reply.turn,
            news=began + reply.news,
            wakes=reply.wakes,
            handoff=reply.handoff,
        )


async def give_command(
    store: Store, caller: Caller, text: str, about: CommandContext, hooks: Hooks
) -> CallerReply:
    """Run a slash command in one transaction, after hooks were asked and before they are told."""
    line = read_command(text)
    if line is None:
        raise UserError(f"“{one_line(text, 40)}” is not a command.", hint="/help lists the commands.")
    command = RunCommand(caller=caller, line=line, about=about, hooks=hooks)
    ends = line[0] in _ENDING
    try:
        replied = await store.write(command.unit, first=not ends, ends=ends)
    except RulingNeeded as case:
        ruled = replace(command, ruling=await rule_command(hooks, case))
        replied = await store.write(ruled.unit, first=not ends, ends=ends)
    hooks.tell_all(replied.news)
    return replied
