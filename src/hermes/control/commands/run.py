"""From the line of a slash command to its reply, for chats and for callers alike, in two phases. First,
outside any transaction, hooks are asked (they may stop, answer or change it), and the command prepares what
it needs. Then it runs in one transaction. If what it was prepared on has changed by then, it is prepared
again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from hermes.control.commands.registry import (
    CommandBroke,
    CommandCall,
    CommandReply,
    CommandRequest,
    GatewayInfo,
    call_in,
    choose_command,
    find_meant,
    perform,
)
from hermes.control.core import GatewayCore, Runtime
from hermes.control.hooks.context import about_command
from hermes.control.hooks.dispatch import ALLOWED, Decision, Hooks, Ruling, no_answer
from hermes.control.sessions.callers import Caller, find_session, session_of
from hermes.control.turn.claim import next_session
from hermes.domain.chats.command_line import CallerReply, read_command
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.system.border import Border
from hermes.domain.system.hooks import COMMAND
from hermes.domain.text import one_line, storable
from hermes.domain.turns.gateway_event import CommandRun, GatewayEvent, session_began, session_replaced
from hermes.domain.turns.session import Session, begin_session
from hermes.domain.word import replace

log = logging.getLogger("hermes.commands")
T = TypeVar("T")
Line = tuple[str, str]
News = tuple[GatewayEvent, ...]
MOST_TURNS = 100_000
"""A command sees every unfinished turn of its session, however many there are."""
ENDING = ("stop", "approve", "deny")
"""Commands that end a wait: nothing they could end may hold them up."""
MOST_TIMES = 3
LATE = "/{name} did not get what it needs within {seconds:g} s, so nothing was done. Try it again later."
CHANGED = (
    "The conversation changed each time while /{name} was being prepared, so nothing was done. Try again."
)


class CommandBasis(Struct, frozen=True, kw_only=True):
    """What a command was prepared on. If any of it is different inside the transaction, it does not run."""

    session: SessionId | None
    begun: datetime | None
    meant: tuple[str, ...]
    blocked: bool
    settings: Settings


class PreparedCommand(Struct, frozen=True, kw_only=True):
    """What becomes of a command: it runs as `line` says, with the `value` that it prepared; or, without a
    line, `text` is all there is to it. `session` is the one that hooks were told of; it may begin with it."""

    session: Session | None = None
    line: Line | None = None
    text: str = ""
    outcome: str = ""
    value: object = None
    basis: CommandBasis | None = None


def needs_preparing(name: str, settings: Settings, runtime: Runtime, hooks: Hooks) -> bool:
    """Whether anything is to be done before the transaction: most commands need nothing."""
    meant = find_meant(name, settings, runtime)
    names = [slash.name for slash in meant] or [name]
    return any(slash.prepare for slash in meant) or any(hooks.follows(f"{COMMAND}:{word}") for word in names)


def holds(prepared: PreparedCommand | None, request: CommandRequest, hooks: Hooks) -> bool:
    """Whether a command may run now as it was prepared, or unprepared because it needs nothing."""
    if prepared is None:
        return not needs_preparing(request.name, request.settings, request.runtime, hooks)
    return prepared.line is None or prepared.basis == _basis(request, prepared.line)


def _basis(request: CommandRequest, line: Line) -> CommandBasis:
    """For a command as it was written, and as hooks rewrote it."""
    meant = [
        slash
        for word in (request.name, line[0])
        for slash in find_meant(word, request.settings, request.runtime)
    ]
    return CommandBasis(
        session=None if request.begins else request.session.id,
        begun=None if request.begins else request.session.created_at,
        meant=tuple(slash.name for slash in meant),
        blocked=bool(request.turns) and not all(slash.mid_turn for slash in meant),
        settings=request.settings,
    )


async def prepare_command(request: CommandRequest, hooks: Hooks) -> PreparedCommand:
    """The first phase. Whoever makes the request has made sure that its author may speak, so hooks hear of
    nobody else."""
    prepared = replace(await _ask_hooks(request, hooks), session=request.session)
    line = prepared.line
    if line is None:
        return prepared
    prepared = replace(prepared, basis=_basis(request, line))
    try:
        slash, args = choose_command(replace(request, name=line[0], args=line[1]))
    except UserError:
        # The second phase says what is wrong with it.
        return prepared
    if slash.prepare is None:
        return prepared
    try:
        async with asyncio.timeout(slash.seconds):
            with Border():
                value = await slash.prepare(replace(request, name=slash.name, args=args))
    except TimeoutError:
        late = LATE.format(name=slash.name, seconds=slash.seconds)
        return replace(prepared, line=None, text=late, outcome="not prepared in time")
    except HermesError as error:
        return replace(prepared, line=None, text=str(error), outcome="not prepared")
    except (Exception, SystemExit) as error:  # it may be a plugin's
        raise CommandBroke(slash.name, error) from error
    return replace(prepared, value=value)


async def settle(
    name: str,
    prepare: Callable[[], Awaitable[PreparedCommand | None]],
    run: Callable[[PreparedCommand | None], Awaitable[T | None]],
) -> T:
    """Both phases. `run` gives None if what was prepared does not hold any more. Of a command that broke,
    nothing is kept but a sentence to whoever gave it."""
    refusal = PreparedCommand(text=CHANGED.format(name=name), outcome="never prepared in time")
    try:
        for _ in range(MOST_TIMES):
            done = await run(await prepare())
            if done is not None:
                return done
    except CommandBroke as broke:
        log.warning("command.broke %s", broke)
        refusal = PreparedCommand(text=broke.text, outcome="broke")
    done = await run(refusal)
    assert done is not None, "a refusal holds whatever has changed"
    return done


def run_command(call: CommandCall, prepared: PreparedCommand | None) -> CommandReply:
    """The second phase, for what `holds`."""
    if prepared is not None:
        if prepared.line is None:
            return CommandReply(text=prepared.text, label=f"{call.name}, {prepared.outcome}")
        call = replace(call, name=prepared.line[0], args=prepared.line[1], prepared=prepared.value)
    reply = perform(call)
    begun = reply.begun
    news = () if begun is None else session_replaced(call.source, call.session, begun, call.key)
    return replace(reply, label=call.name, news=news)


# --- the gate ---------------------------------------------------------------------------------------


async def _ask_hooks(request: CommandRequest, hooks: Hooks) -> PreparedCommand:
    """Hooks are asked by the name of what would run, however it is written, and where one command stands for
    another, by both."""
    line, ruling, name = (request.name, request.args), ALLOWED, ""
    meant = find_meant(request.name, request.settings, request.runtime)
    for name in [slash.name for slash in meant] or [request.name]:
        if not hooks.follows(f"{COMMAND}:{name}"):
            continue
        context = about_command(request.source, request.session, request.key, (name, *line))
        ruling = await hooks.ask(f"{COMMAND}:{name}", context)
        if ruling.decision is not Decision.ALLOW:
            break
    match ruling.decision:
        case Decision.ALLOW:
            return PreparedCommand(line=line)
        case Decision.HANDLED:
            return PreparedCommand(text=ruling.message, outcome=f"handled by the hook {ruling.by}")
        case Decision.DENY:
            text = ruling.message or f"/{name} was not allowed by the hook “{ruling.by}”."
            return PreparedCommand(text=text, outcome=f"denied by the hook {ruling.by}")
        case Decision.REWRITE:
            return _rewritten(ruling, line)


def _rewritten(ruling: Ruling, line: Line) -> PreparedCommand:
    name, args = ruling.answer.get("command_name", line[0]), ruling.answer.get("raw_args", line[1])
    if not isinstance(name, str) or not isinstance(args, str) or not name.strip(" /"):
        return PreparedCommand(text=no_answer(ruling.by), outcome=f"denied: {ruling.by} rewrote badly")
    return PreparedCommand(line=(name.strip(" /").lower(), storable(args).strip()))


# --- callers that say who they are -----------------------------------------------------------------


async def give_command(
    core: GatewayCore,
    caller: Caller,
    text: str,
    gateway: GatewayInfo,
    platforms: Collection[str],
    progress: Callable[[str], Awaitable[None]],
) -> CallerReply:
    """Run a caller's slash command, and tell of it; `progress` hears how it stands before the reply."""
    line = read_command(text)
    if line is None:
        raise UserError(f"“{one_line(text, 40)}” is not a command.", hint="/help lists the commands.")
    runtime = await core.agents.get(caller.agent)
    giving = CallerCommand(
        core=core,
        caller=caller,
        line=line,
        runtime=runtime,
        gateway=gateway,
        platforms=platforms,
        progress=progress,
    )
    ends = line[0] in ENDING

    async def run(prepared: PreparedCommand | None) -> tuple[CallerReply, News] | None:
        unit = replace(giving, prepared=prepared).unit
        return await runtime.store.write(unit, first=not ends, ends=ends)

    replied, news = await settle(line[0], giving.prepare, run)
    core.events.emit_all((*news, CommandRun(agent=caller.agent)))
    return replied


class CallerCommand(Struct, frozen=True, kw_only=True):
    """The unit that runs a caller's command; None if it has to be prepared (again) first."""

    core: GatewayCore
    caller: Caller
    line: Line
    runtime: Runtime
    gateway: GatewayInfo
    platforms: Collection[str]
    progress: Callable[[str], Awaitable[None]]
    prepared: PreparedCommand | None = None

    async def prepare(self) -> PreparedCommand | None:
        core = self.core
        if not needs_preparing(self.line[0], core.live.now, self.runtime, core.hooks):
            return None
        return await prepare_command(await self.runtime.store.read(self._look), core.hooks)

    def _look(self, tx: Tx) -> CommandRequest:
        caller, now = self.caller, self.core.clock.now()
        known = session_of(tx, caller)
        return CommandRequest(
            name=self.line[0],
            args=self.line[1],
            source=caller.source,
            key=caller.key,
            session=known or begin_session(caller.key, caller.source, now),
            begins=known is None,
            turns=[] if known is None else tx.turns.open_of(known.id, MOST_TURNS),
            settings=self.core.live.of(caller.agent),
            now=now,
            runtime=self.runtime,
            gateway=self.gateway,
            platforms=self.platforms,
            progress=self.progress,
        )

    def unit(self, tx: Tx) -> tuple[CallerReply, News] | None:
        caller, request, prepared = self.caller, self._look(tx), self.prepared
        if not holds(prepared, request, self.core.hooks):
            return None
        session = find_session(tx, caller, request.now)
        began: News = ()
        if session is None:
            session = (prepared and prepared.session) or request.session
            next_session(tx, caller.key, caller.source, request.now, session)
            began = (session_began(caller.source, session, caller.key),)
        reply = run_command(call_in(tx, replace(request, session=session)), prepared)
        now_in = tx.bindings.get(caller.key) or session.id
        there = tx.sessions.get(now_in)
        replied = CallerReply(
            text=reply.text,
            session=now_in,
            manner=None if there is None else there.manner,
            before=session.id,
            turn=reply.turn,
            wakes=reply.wakes,
            beside=reply.beside,
            handoff=reply.handoff,
            agent=reply.agent,
        )
        return replied, began + reply.news
