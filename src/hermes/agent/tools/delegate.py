"""`delegate_task`: work for children. Each is a turn of its own, which the gateway begins and answers for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired, TypedDict

from msgspec import Struct

from hermes.agent.tools.registry import TOOLS, ToolInvocation, tool
from hermes.agent.tools.schema import read_values
from hermes.domain.errors import UserError
from hermes.domain.settings.delegation import DelegationSettings
from hermes.domain.text import closest, one_line
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Approval, ChildTask, ChildTasks, Effect

NOT_FOR_CHILDREN = ("clarify", "memory", "send_message", "execute_code", "cronjob", "notify")
NOT_FOR_NAMED = ("session_search",)
"""Nor for another agent: what others said to it is not for whoever gives it a task."""
MOST_TASKS = 20


class Delegation(Struct, frozen=True, kw_only=True):
    """The settings of now, and the agents that take tasks, by what they are for."""

    settings: Callable[[], DelegationSettings]
    agents: Callable[[], Mapping[str, str]]


class Task(TypedDict):
    goal: str
    context: NotRequired[str]
    agent: NotRequired[str]


def _children(services: ToolServices, arguments: Mapping[str, object]) -> ChildTasks:
    values = read_values("delegate_task", TOOLS["delegate_task"].signature, arguments)
    several = values.pop("tasks", None) or []
    given = [*([values] if values.get("goal") else []), *({**values, **task} for task in several)]
    if not given or any(not str(task.get("goal") or "").strip() for task in given):
        raise UserError("delegate_task needs a goal, or tasks that each have one.")
    if len(given) > MOST_TASKS:
        raise UserError(f"{len(given)} tasks are too many: give at most {MOST_TASKS} at once.")
    delegation = services.get(Delegation)
    return ChildTasks(tasks=tuple(_task(delegation, task) for task in given))


def _task(delegation: Delegation, given: Mapping[str, Any]) -> ChildTask:
    settings, agent = delegation.settings(), str(given.get("agent") or "")
    known = delegation.agents()
    if agent and agent not in known:
        near = closest(agent, known)
        names = f"There are: {', '.join(sorted(known))}." if known else "There are none: leave it out."
        raise UserError(
            f"No agent “{one_line(agent, 60)}” takes tasks.", hint=f"Did you mean {near}?" if near else names
        )
    if settings.provider and not settings.model and not agent:
        raise UserError("delegation.provider is set without delegation.model.", hint="Set both, or neither.")
    context = str(given.get("context") or "").strip()
    named = f"{settings.provider}:{settings.model}" if settings.provider else settings.model
    return ChildTask(
        text=f"{given['goal']}\n\n{context}" if context else str(given["goal"]),
        toolsets=tuple(given.get("toolsets") or ()),
        without=(*NOT_FOR_CHILDREN, *(NOT_FOR_NAMED if agent else ())),
        orchestrator=given.get("role") == "orchestrator",
        agent=agent,
        model="" if agent or not settings.model else named,
        effort="" if agent else settings.reasoning_effort,
        steps=settings.max_iterations,
        seconds=settings.child_timeout_seconds,
        at_once=settings.max_concurrent_children,
        depth=settings.max_spawn_depth,
    )


def _about_agents(services: ToolServices) -> str:
    known = services.get(Delegation).agents()
    told = "; ".join(f"{name}: {one_line(about, 120)}" if about else name for name, about in known.items())
    return f" Agents: {told}." if known else ""


@tool(
    "delegation",
    Effect.READ,
    asks=_children,
    needs=Delegation,
    describe=_about_agents,
    after_outside=Approval.NEVER,
)
async def delegate_task(
    invocation: ToolInvocation,
    goal: str = "",
    context: str = "",
    tasks: list[Task] | None = None,
    agent: str = "",
    toolsets: list[str] | None = None,
    role: Literal["leaf", "orchestrator"] = "leaf",
) -> str:
    """Give work to agents and get their answers. They know nothing of this conversation: say all they need.

    tasks: several at once; the rest holds for each
    toolsets: fewer than you have
    role: orchestrators may delegate too
    """
    raise UserError("There is nobody here to give work to.")
