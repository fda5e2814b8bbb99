"""Which of an agent's tools one turn has, and what becomes of approvals where nobody can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hermes.agent.run.named_chats import are_chats_named
from hermes.domain.ports.agent import Run
from hermes.domain.tool import Approval, ApprovalPrompt, Tool, ToolContext, ToolResult
from hermes.domain.turn import Guidance

APPROVE = "approve"
NOBODY = "Not done: it would have to be allowed first, and nobody is there to be asked."
NO_ANSWER = "Nobody is there to be asked. Decide yourself, or say at the end what you would have to know."


def allowed_tools(tools: Mapping[str, Tool], run: Run) -> Mapping[str, Tool]:
    """A toolset or a single tool may be named; what the guidance does not mention stays as it is."""
    guidance = run.turn.input.guidance
    if guidance.toolsets or guidance.withheld:
        tools = {name: tool for name, tool in tools.items() if _is_allowed(tool, guidance)}
    if not guidance.unattended:
        return tools
    approve = guidance.unattended == APPROVE
    return {name: _unattended(run, tool, approve) for name, tool in tools.items()}


def _is_allowed(tool: Tool, guidance: Guidance) -> bool:
    names = {tool.name, tool.toolset}
    wanted = not guidance.toolsets or not names.isdisjoint(guidance.toolsets)
    return wanted and names.isdisjoint(guidance.withheld)


async def _ask_nobody(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    return ToolResult(text=NO_ANSWER, failed=True)


def _unattended(run: Run, tool: Tool, approve: bool) -> Tool:
    if tool.asks is not None:
        return replace(tool, asks=None, approval=Approval.NEVER, run=_ask_nobody)
    if tool.approval is Approval.NEVER:
        return tool
    asked = tool.approval

    async def unasked(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        ask = (
            ApprovalPrompt(text="", digest="")
            if isinstance(asked, Approval)
            else asked(context.session, arguments)
        )
        if ask is not None and not approve and not await are_chats_named(run, ask):
            return ToolResult(text=NOBODY, failed=True)
        return await tool.run(context, arguments)

    return replace(tool, approval=Approval.NEVER, run=unasked)
