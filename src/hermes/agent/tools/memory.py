"""`memory`: what the agent notes for later sessions. Whose a note is, is decided by where it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from hermes.agent.tools.approval_text import action_digest, visible
from hermes.agent.tools.registry import ApprovalCase, MemoryBook, ToolInvocation, tool
from hermes.domain.errors import UserError
from hermes.domain.tools.tool import ApprovalPrompt, Effect, ToolResult

_WRITES = ("add", "replace", "remove", "forget_user")


def _prompt(values: Mapping[str, Any]) -> ApprovalPrompt:
    words = "\n".join(f"{name}: {visible(str(value))}" for name, value in values.items() if value)
    return ApprovalPrompt(
        text=f"Change what is remembered:\n{words}", digest=action_digest("memory", dict(values))
    )


async def _approval_check(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    asks = values.get("action") in _WRITES and case.services.get(MemoryBook).asks()
    return _prompt(values) if asks else None


async def _ask_after_outside(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """A note is told in later sessions, which no longer know where its words came from; and no page has notes
    removed."""
    return _prompt(values) if values.get("action") in _WRITES else None


@tool(
    "memory",
    Effect.KEYED,
    approval_check=_approval_check,
    after_outside=_ask_after_outside,
    needs=MemoryBook,
)
async def memory(
    invocation: ToolInvocation,
    action: Literal["add", "replace", "remove", "search", "forget_user"],
    target: Literal["memory", "user"] = "memory",
    content: str = "",
    old_text: str = "",
) -> str | ToolResult:
    """Short, lasting notes for later sessions, about the work (memory) or the person (user). forget_user
    removes all about the person, if they ask.

    content: the note, or words to search
    old_text: a unique part of the note
    """
    book = invocation.services.get(MemoryBook)
    if action == "search":
        return await book.search(invocation.context, content)
    if action in ("add", "replace") and not content.strip():
        raise UserError(f"{action} needs content.")
    if action in ("replace", "remove") and not old_text.strip():
        raise UserError(f"{action} needs old_text: a part of the note that is meant.")
    return await book.edit(invocation.context, action, target, content.strip(), old_text.strip())
