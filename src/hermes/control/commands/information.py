"""Commands that tell something: what there is, what runs, who you are, where a message is."""

from __future__ import annotations

from functools import partial

from hermes.control.commands.registry import (
    CommandCall,
    CommandReply,
    CommandRequest,
    command,
    resolve,
    tier_of,
    usable,
)
from hermes.control.people.access import AccessRequest, decide, is_paired
from hermes.control.sessions.administration import trace_message
from hermes.domain.chats.address import Source
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId
from hermes.domain.settings.settings import Settings
from hermes.domain.text import closest, one_line
from hermes.domain.turns.session import owner_of
from hermes.domain.turns.turn import TurnState

_PAGE = 20
_PAGE_SIZES = {"telegram": 15}
DOING = {
    TurnState.ACCEPTED: "about to start",
    TurnState.RUNNING: "running",
    TurnState.WAITING: "waiting for an answer",
}


@command("help", "list the commands, or explain one", usage="[command]")
def help_(call: CommandCall) -> CommandReply:
    if call.args:
        return CommandReply(text=resolve(call.args.lstrip("/"), call.settings, call.runtime).line)
    listed = usable(call.source, call.settings, call.runtime)
    return CommandReply(text="\n".join(f"- {slash.line}" for slash in listed))


@command("commands", "list the commands page by page", usage="[page]")
def commands(call: CommandCall) -> CommandReply:
    listed = usable(call.source, call.settings, call.runtime)
    size = _PAGE_SIZES.get(call.source.address.platform, _PAGE)
    pages = -(-len(listed) // size)
    page = call.number(pages, default="1")
    if page is None:
        raise UserError(f"“{one_line(call.args, 20)}” is not a page.", hint=f"There are {pages}.")
    lines = [f"- {slash.line}" for slash in listed[(page - 1) * size : page * size]]
    further = f" /commands {page + 1} shows more." if page < pages else ""
    return CommandReply(text="\n".join([*lines, "", f"Page {page} of {pages}.{further}"]))


@command("start", "nothing; chat platforms send it when a person opens the chat")
def start(call: CommandCall) -> CommandReply:
    return CommandReply(text="")


@command("version", "which Hermes this is", aliases=("v",))
def version(call: CommandCall) -> CommandReply:
    return CommandReply(text=f"Hermes {call.gateway.version}".rstrip())


@command("profile", "which agent answers here, and from which home")
def profile(call: CommandCall) -> CommandReply:
    lines = [f"Agent {call.session.agent}"]
    # Where the home is, is nobody's business but its operator's.
    if call.gateway.home and call.is_admin:
        lines.append(f"Home {call.gateway.home}")
    return CommandReply(text="\n".join(lines))


@command("agent", "which agent answers here; in the terminal, talk with another one", usage="[id]")
def agent(call: CommandCall) -> CommandReply:
    here, settings = call.session.agent, call.settings
    ids = [
        each for each in dict.fromkeys((MAIN_AGENT, *map(AgentId, settings.agents))) if settings.speaks(each)
    ]
    if not call.args:
        lines = [f"Agent {here}"]
        if call.is_admin:  # who else there is, is for the operator to know
            lines += (f"- {each}{_described(each, settings)}" for each in ids)
        return CommandReply(text="\n".join(lines))
    if not call.is_local:
        hint = "The operator gives a chat to another one: hermes route add"
        raise UserError("Which agent answers in a chat is decided by routes.", hint=hint)
    wanted = AgentId(call.args)
    if wanted not in ids:
        near = closest(wanted, ids)
        hint = f"Did you mean {near}?" if near else "/agent lists them."
        raise UserError(f"There is no agent “{one_line(wanted, 60)}”.", hint=hint)
    if wanted == here:
        return CommandReply(text=f"You speak with {here} already.")
    return CommandReply(text=f"You speak with {wanted} now, in a new conversation.", agent=wanted)


def _described(agent: AgentId, settings: Settings) -> str:
    hosted = settings.agents.get(agent)
    return f": {one_line(hosted.description, 100)}" if hosted is not None and hosted.description else ""


@command("status", "what is running here")
def status(call: CommandCall) -> CommandReply:
    lines = [
        f"Session {call.session.title or call.session.id}",
        f"Agent {call.session.agent}, model {call.session.model or call.model or 'not set'}",
    ]
    if not call.turns:
        return CommandReply(text="\n".join([*lines, "Idle."]))
    first = call.turns[0]
    seconds = int((call.now - first.created_at).total_seconds())
    lines.append(f"{first.id}: {DOING[first.state]}, {seconds} s old, {len(call.turns) - 1} behind it.")
    questions = call.tx.questions.open_of(call.session.id)
    lines += [f"Open question {question.id}: {question.text}" for question in questions]
    return CommandReply(text="\n".join(lines))


@command("whoami", "how this gateway sees you, and what you may do")
def whoami(call: CommandCall) -> CommandReply:
    source = call.source
    paired = is_paired(call.tx, source)
    verdict = decide(AccessRequest(source=source, paired=paired, mentioned=True), call.settings)
    tier = tier_of(source, call.settings)
    may = [f"/{slash.name}" for slash in usable(source, call.settings, call.runtime)]
    ids = [ident for ident in dict.fromkeys((source.user, source.user_alt)) if ident]
    lines = [
        f"You: {source.user_name or 'no name'} ({', '.join(ids) or 'no id'})",
        f"Here: {source.address} ({source.kind.value})",
        f"Access: {verdict}",
        f"Tier: {tier.name}, because {tier.reason}",
        f"Commands: {'all' if tier.commands is None and tier.owner else ', '.join(may)}",
        f"Session key: {call.key}",
    ]
    if source.roles:
        lines.insert(2, f"Roles: {', '.join(source.roles)}")
    return CommandReply(text="\n".join(lines))


async def _look_for_trace(request: CommandRequest) -> list[str]:
    return await request.read(_traced)


@command("trace", "where a message is", usage="[message or turn]", prepare=_look_for_trace)
def trace(call: CommandCall) -> CommandReply:
    return CommandReply(text="\n".join(call.prepared) or "There is no such message or turn.")


def _traced(call: CommandCall) -> list[str]:
    if call.args:
        wanted = call.args
    elif call.turns:
        wanted = call.turns[0].id
    else:
        entries = call.tx.journal.read(call.session.id, most=1, newest=True)
        wanted = entries[-1].turn if entries else ""
    return trace_message(call.tx, wanted, partial(_sees, call)) if wanted else []


def _sees(call: CommandCall, source: Source | None, session: SessionId | None) -> bool:
    """What was said in this chat and session, and by who asks, wherever; an admin sees everything."""
    if call.is_admin or session == call.session.id:
        return True
    if source is None:
        return False
    mine = owner_of(source) is not None and owner_of(source) == owner_of(call.source)
    return mine or source.address == call.source.address
