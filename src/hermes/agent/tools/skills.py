"""`skills_list`, `skill_view` and `skill_manage`: ways of working that an agent finds, loads and writes down.
Which skills there are for whom is decided by the agent's `SkillBook`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from hermes.agent.tools.approval_text import action_digest, shown_change, visible_line
from hermes.agent.tools.registry import ApprovalCase, SkillBook, ToolInvocation, tool
from hermes.domain.knowledge.skill import SkillChange
from hermes.domain.tools.tool import ApprovalPrompt, Effect

_LISTED = 20


def _change(values: Mapping[str, Any]) -> SkillChange:
    return SkillChange(**{name: value for name, value in values.items() if value is not None})


async def _ask(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """Later sessions follow what is written here, so a person sees all of it first."""
    book = case.services.get(SkillBook)
    plan, odd = await book.preview(_change(values))
    lines = shown_change(plan.before or "", plan.after or "")
    does = "Delete" if plan.after is None else "Create" if plan.before is None else "Change"
    warning = f"\n⚠️ It {', it '.join(odd)}." if odd else ""
    return ApprovalPrompt(
        text=f"{does} the skill file {visible_line(plan.path)}:\n{lines}{warning}",
        digest=action_digest("skill", plan.path, plan.before, plan.after),
    )


async def _approval_check(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    return await _ask(case, values) if case.services.get(SkillBook).asks() else None


@tool("skills", Effect.READ, needs=SkillBook, parallel=True)
async def skill_view(invocation: ToolInvocation, name: str, file_path: str = "") -> str:
    """Load a skill, or one of its files."""
    return await invocation.services.get(SkillBook).view(invocation.context, name, file_path)


@tool("skills", Effect.READ, needs=SkillBook, parallel=True)
async def skills_list(invocation: ToolInvocation, query: str = "", limit: int = _LISTED) -> str:
    """List skills, or those that fit some words.

    query: what the task is about
    """
    return await invocation.services.get(SkillBook).list(invocation.context, query, max(1, min(limit, 100)))


@tool("skills", Effect.ONCE, needs=SkillBook, approval_check=_approval_check, after_outside=_ask)
async def skill_manage(
    invocation: ToolInvocation,
    action: Literal["create", "edit", "patch", "delete"],
    name: str,
    content: str = "",
    category: str = "",
    file_path: str = "",
    old_string: str = "",
    new_string: str = "",
) -> str:
    """Write down a way of working for later sessions, or change or delete one. The user sees it first.

    name: small letters, digits, hyphens
    content: create, edit: the whole text; SKILL.md has a head with name and description (what, and when)
    file_path: another file, like references/api.md
    old_string: patch: what is replaced; it must occur once
    """
    change = _change(
        {
            "action": action,
            "name": name,
            "content": content,
            "category": category,
            "file_path": file_path,
            "old_string": old_string,
            "new_string": new_string,
        }
    )
    return await invocation.services.get(SkillBook).change(invocation.context, change)
