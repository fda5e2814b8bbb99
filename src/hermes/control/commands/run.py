"""Runs the line of a slash command and returns its reply, for chats and for callers alike. Hooks may stop it,
answer it themselves or change it; then the command runs in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hermes.control.commands.registry import CommandCall, CommandReply, GatewayInfo, meant_names, perform
from hermes.control.core import GatewayCore
from hermes.control.hooks.context import HookNotice, about_command, session_began, session_replaced
from hermes.control.hooks.dispatch import ALLOWED, Decision, HookContext, Hooks, Ruling, no_answer
from hermes.control.sessions.callers import Caller, find_session
from hermes.control.turn.claim import next_session
from hermes.domain.command_line import read_command
from hermes.domain.errors import UserError
from hermes.domain.hooks import COMMAND
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line, storable
from hermes.domain.turn import Turn

MOST_TURNS = 100_000
"""A command sees every unfinished turn of its session, however many there are."""
_ENDING = ("stop", "approve", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRuling:
    """What becomes of a command: it runs as `line` says, or, without one, `text` is all there is to it."""

    line: tuple[str, str] | None
    text: str = ""
    outcome: str = ""


class RulingNeeded(Exception):
    """Raised inside a transaction, which is undone by it: hooks have to be asked about this command first,
    and then the transaction runs again with what they said."""

    def __init__(self, line: tuple[str, str], contexts: Sequence[HookContext]) -> None:
        super().__init__(line[0])
        self.line = line
        self.contexts = contexts


def run_line(call: CommandCall, hooks: Hooks, ruling: CommandRuling | None) -> CommandReply:
    """Run the command that a call names as it was written. `ruling` is what hooks decided; if they have to be
    asked first, `RulingNeeded` undoes the transaction."""
    ruling = ruling or _find_ruling(call, hooks)
    if ruling.line is None:
        return CommandReply(text=ruling.text, label=f"{call.name}, {ruling.outcome}")
    name, args = ruling.line
    turns = call.tx.turns.open_of(call.session.id, MOST_TURNS)
    reply = perform(replace(call, name=name, args=args, turns=turns))
    begun = reply.begun
    news = () if begun is None else session_replaced(call.source, call.session, begun, call.key)
    return replace(reply, label=name, news=news)


def _find_ruling(call: CommandCall, hooks: Hooks) -> CommandRuling:
    """The ruling on a command that nobody was asked about yet. By now it is known that its author may
    speak, so hooks hear of nobody else. They are asked by the name of what would run, however it is written,
    and where one command stands for another, by both."""
    line = (call.name, call.args)
    followed = [name for name in meant_names(call.name, call.settings) if hooks.follows(f"{COMMAND}:{name}")]
    if not followed:
        return CommandRuling(line=line)
    contexts = [about_command(call.source, call.session, call.key, (name, *line)) for name in followed]
    raise RulingNeeded(line, contexts)


async def rule_command(hooks: Hooks, case: RulingNeeded) -> CommandRuling:
    line, ruling, name = case.line, ALLOWED, ""
    for context in case.contexts:
        name = str(context["command"])
        ruling = await hooks.ask(f"{COMMAND}:{name}", context)
        if ruling.decision is not Decision.ALLOW:
            break
    match ruling.decision:
        case Decision.ALLOW:
            return CommandRuling(line=line)
        case Decision.HANDLED:
            return CommandRuling(line=None, text=ruling.message, outcome=f"handled by the hook {ruling.by}")
        case Decision.DENY:
            text = ruling.message or f"/{name} was not allowed by the hook “{ruling.by}”."
            return CommandRuling(line=None, text=text, outcome=f"denied by the hook {ruling.by}")
        case Decision.REWRITE:
            return _rewritten(ruling, line)


def _rewritten(ruling: Ruling, line: tuple[str, str]) -> CommandRuling:
    name, args = ruling.answer.get("command_name", line[0]), ruling.answer.get("raw_args", line[1])
    if not isinstance(name, str) or not isinstance(args, str) or not name.strip(" /"):
        return CommandRuling(
            line=None, text=no_answer(ruling.by), outcome=f"denied: {ruling.by} rewrote badly"
        )
    return CommandRuling(line=(name.strip(" /").lower(), storable(args).strip()))


# --- callers that say who they are -----------------------------------------------------------------


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


async def give_command(
    core: GatewayCore, caller: Caller, text: str, gateway: GatewayInfo, platforms: Collection[str]
) -> CallerReply:
    """Run a caller's slash command in one transaction, after hooks were asked and before they are told."""
    line = read_command(text)
    if line is None:
        raise UserError(f"“{one_line(text, 40)}” is not a command.", hint="/help lists the commands.")
    runtime, now = core.runtimes[caller.agent], core.clock.now()
    ruling: CommandRuling | None = None

    def run(tx: Tx) -> CallerReply:
        session = find_session(tx, caller, now)
        began: tuple[HookNotice, ...] = ()
        if session is None:
            session = next_session(tx, caller.key, caller.source, now)
            began = (session_began(caller.source, session, caller.key),)
        call = CommandCall(
            tx=tx,
            name=line[0],
            args=line[1],
            source=caller.source,
            key=caller.key,
            session=session,
            settings=core.settings,
            now=now,
            model=runtime.model,
            gateway=gateway,
            platforms=platforms,
        )
        reply = run_line(call, core.hooks, ruling)
        return CallerReply(
            text=reply.text,
            session=tx.bindings.get(caller.key) or session.id,
            before=session.id,
            turn=reply.turn,
            news=began + reply.news,
            wakes=reply.wakes,
            handoff=reply.handoff,
        )

    ends = line[0] in _ENDING
    try:
        replied = await runtime.store.write(run, first=not ends, ends=ends)
    except RulingNeeded as case:
        ruling = await rule_command(core.hooks, case)
        replied = await runtime.store.write(run, first=not ends, ends=ends)
    core.hooks.tell_all(replied.news)
    return replied
