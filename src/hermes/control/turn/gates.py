"""The gates of a turn: hooks may stop it before it runs, and each of its tool calls."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.control.hooks.context import about_chat
from hermes.control.hooks.dispatch import Decision, Hooks
from hermes.domain.errors import UserError
from hermes.domain.system.hooks import GATE_TOOL, GATE_TURN
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace


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


def gate_tool(hooks: Hooks, tool: Tool) -> Tool:
    """The tool, asking before it runs wherever somebody wants to be asked."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        if GATE_TOOL in hooks.followed:
            await _rule_call(hooks, tool, context, arguments)
        return await tool.run(context, arguments)

    return replace(tool, run=run)


async def _rule_call(hooks: Hooks, tool: Tool, context: ToolContext, arguments: Mapping[str, object]) -> None:
    context_of_call = {
        "agent_id": context.agent,
        "session_id": context.session,
        "turn_id": context.turn,
        "call_id": context.call_id,
        "tool_name": tool.name,
        "arguments": dict(arguments),
    }
    ruling = await hooks.ask(GATE_TOOL, context_of_call)
    if ruling.decision is not Decision.ALLOW:
        reason = ruling.message or f"{tool.name} is not allowed by the hook “{ruling.by}”."
        raise UserError(f"Not run. {reason}")
