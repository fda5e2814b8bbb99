"""`clarify` and `todo`: asking the person, and keeping a plan where everybody sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from hermes.agent.tools.registry import ToolInvocation, tool
from hermes.domain.errors import UserError
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Approval, Clarification, Effect

_MOST_OPTIONS = 4
_MOST_ITEMS = 100
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class TodoItem(TypedDict):
    text: str
    status: Literal["pending", "in_progress", "completed", "cancelled"]


def _clarification(services: ToolServices, arguments: Mapping[str, object]) -> Clarification:
    options = arguments.get("options")
    offered = [str(option) for option in options] if isinstance(options, list) else []
    return Clarification(text=str(arguments.get("question") or "?"), options=tuple(offered[:_MOST_OPTIONS]))


@tool("clarify", Effect.READ, asks=_clarification)
async def clarify(invocation: ToolInvocation, question: str, options: list[str] | None = None) -> str:
    """Ask the user one question when you cannot go on without the answer.

    options: up to 4 to choose from
    """
    raise UserError("Nobody is there to be asked.")


@tool("todo", Effect.READ, after_outside=Approval.NEVER)
async def todo(invocation: ToolInvocation, items: list[TodoItem]) -> str:
    """Keep a plan for work of three steps or more. Send the whole list each time."""
    if len(items) > _MOST_ITEMS:
        raise UserError(f"At most {_MOST_ITEMS} items.")
    done = sum(item["status"] in ("completed", "cancelled") for item in items)
    lines = [f"{_MARKS[item['status']]} {item['text']}" for item in items]
    return "\n".join([*lines, f"{done} of {len(items)} done."])
