"""What hooks may stop or change before it happens: a command, a turn, a tool, a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.control.commands.registry import meant_names
from hermes.control.hooks.context import about_chat, about_command, about_inbound
from hermes.control.hooks.dispatch import ALLOWED, Decision, HookContext, Hooks, Ruling, no_answer
from hermes.control.people.routing import SelectAgent
from hermes.domain.address import Source
from hermes.domain.capabilities import Capabilities
from hermes.domain.errors import Refused, UserError
from hermes.domain.hooks import COMMAND, GATE_SEND, GATE_TOOL, GATE_TURN, SELECT_AGENT
from hermes.domain.message import Body, Inbound
from hermes.domain.rows import OutboxRow
from hermes.domain.session import Session, SessionKey
from hermes.domain.settings.settings import Settings
from hermes.domain.text import storable
from hermes.domain.tool import Tool, ToolContext, ToolResult
from hermes.domain.turn import Turn, TurnAction

_SPEAKS = (TurnAction.SAY, TurnAction.RETRY)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCase:
    """A command as somebody wrote it: its first word and the rest."""

    source: Source
    session: Session
    key: SessionKey
    line: tuple[str, str]


def find_ruling(hooks: Hooks, settings: Settings, case: CommandCase) -> CommandRuling:
    """The ruling on a command that nobody was asked about yet. By now it is known that its author may
    speak, so hooks hear of nobody else. They are asked by the name of what would run, however it is written,
    and where one command stands for another, by both."""
    followed = [name for name in meant_names(case.line[0], settings) if hooks.follows(f"{COMMAND}:{name}")]
    if not followed:
        return CommandRuling(line=case.line)
    names = ((name, *case.line) for name in followed)
    raise RulingNeeded(case.line, [about_command(case.source, case.session, case.key, one) for one in names])


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


def gates_turn(hooks: Hooks, turn: Turn) -> bool:
    """Whether somebody wants to be asked before this turn; one that calls no model needs no word."""
    return turn.input.action in _SPEAKS and hooks.follows(GATE_TURN)


async def rule_turn(hooks: Hooks, turn: Turn) -> str:
    """Why a turn may not run, in a sentence for the person; empty if it may."""
    context = about_chat(turn.source, turn.agent) | {
        "session_id": turn.session,
        "turn_id": turn.id,
        "cause": turn.cause.value,
        "message": turn.input.text,
    }
    ruling = await hooks.ask(GATE_TURN, context)
    if ruling.decision is Decision.ALLOW:
        return ""
    return ruling.message or f"This was not allowed by the hook “{ruling.by}”."


async def rule_message(hooks: Hooks, row: OutboxRow, able: Capabilities) -> Body:
    """A message as it may be sent; one that may not be is refused."""
    if not hooks.follows(GATE_SEND):
        return row.body
    told = {
        "platform": row.to.platform,
        "account": row.to.account,
        "chat_id": row.to.chat,
        "thread_id": row.to.thread,
        "turn_id": row.turn,
        "text": row.body.text,
    }
    ruling = await hooks.ask(GATE_SEND, told)
    text = ruling.answer.get("text")
    if ruling.decision is Decision.ALLOW:
        return row.body
    if ruling.decision is not Decision.REWRITE:
        raise Refused(f"not allowed by the hook “{ruling.by}”")
    if not isinstance(text, str) or not text.strip() or able.unit.measure(text) > able.max_text:
        raise Refused(f"the hook “{ruling.by}” rewrote it as nothing that can be sent")
    return row.body.with_text(storable(text))


def gate_tools(hooks: Hooks, tools: Sequence[Tool]) -> list[Tool]:
    """The tools, each asking before it runs; as they are where nobody wants to be asked."""
    return [_gate_tool(hooks, tool) for tool in tools] if hooks.follows(GATE_TOOL) else list(tools)


def _gate_tool(hooks: Hooks, tool: Tool) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        told = {
            "agent_id": context.agent,
            "session_id": context.session,
            "turn_id": context.turn,
            "call_id": context.call,
            "tool_name": tool.name,
            "arguments": dict(arguments),
        }
        ruling = await hooks.ask(GATE_TOOL, told)
        if ruling.decision is not Decision.ALLOW:
            reason = ruling.message or f"{tool.name} is not allowed by the hook “{ruling.by}”."
            raise UserError(f"Not run. {reason}")
        return await tool.run(context, arguments)

    return replace(tool, run=run)


def agent_chooser(hooks: Hooks) -> SelectAgent | None:
    """What routing asks where no declared route fits; None where no hook wants to be asked."""

    async def choose(inbound: Inbound) -> str | None:
        return await hooks.choose(about_inbound(inbound))

    return choose if hooks.follows(SELECT_AGENT) else None
