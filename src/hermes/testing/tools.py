"""Tools of each effect that act on a test's world, and a few for questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from hermes.domain.ids import SessionId
from hermes.domain.tool import Approval, ApprovalPrompt, Clarification, Effect, Tool, ToolContext, ToolResult

Act = Callable[[str, str, str], Awaitable[None]]
"""What happens to the world: (tool, key, token)."""
_TOKEN = {"type": "object", "properties": {"token": {"type": "string"}}}


def effect_tool(name: str, effect: Effect, act: Act, *, approval: Approval = Approval.NEVER) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        context.output(f"{name} works")
        token = str(arguments.get("token", ""))
        await act(name, context.key, token)
        return ToolResult(text=f"{name} did {token}")

    return Tool(
        name=name,
        description=f"A test tool with the effect {effect.value}.",
        parameters=_TOKEN,
        run=run,
        effect=effect,
        parallel=effect is Effect.READ,
        approval=_guard if approval is Approval.ASK else Approval.NEVER,
    )


def _guard(session: SessionId, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
    token = str(arguments.get("token", ""))
    return ApprovalPrompt(text=f"May I do {token}?", digest=f"do:{token}")


async def _never(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    raise AssertionError("a tool that asks is never run")


CLARIFY = Tool(
    name="clarify",
    description="Ask the person.",
    parameters={"type": "object", "properties": {"question": {"type": "string"}}},
    run=_never,
    asks=lambda arguments: Clarification(
        text=str(arguments.get("question", "Which one?")),
        options=tuple(str(option) for option in _options(arguments)),
    ),
)


def _options(arguments: Mapping[str, object]) -> list[object]:
    options = arguments.get("options", [])
    return list(options) if isinstance(options, list) else []


def world_tools(act: Act) -> list[Tool]:
    """One tool of each effect, one that needs approval, and one that asks."""
    return [
        effect_tool("read", Effect.READ, act),
        effect_tool("keyed", Effect.KEYED, act),
        effect_tool("once", Effect.ONCE, act),
        effect_tool("danger", Effect.ONCE, act, approval=Approval.ASK),
        CLARIFY,
    ]
