"""`cronjob`: work for later. What it says goes to the gateway through `JobActions`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from hermes.agent.tools.approval_text import action_digest, visible
from hermes.agent.tools.registry import ApprovalCase, JobActions, ToolInvocation, tool
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.tools.tool import Approval, ApprovalPrompt, Effect

_KNOWN_PLACES = {"", "origin", "local"}


async def _approval_check(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """A job that writes to another chat, or runs a script again and again, is a person's to allow."""
    deliver, script = str(values.get("deliver") or ""), str(values.get("script") or "")
    elsewhere = [word for word in (one.strip() for one in deliver.split(",")) if word not in _KNOWN_PLACES]
    if values.get("action") not in ("create", "update") or not (elsewhere or script):
        return None
    what = [f"answer in {', '.join(elsewhere)}"] if elsewhere else []
    what += [f"run the script {script} on the gateway's machine itself"] if script else []
    told = (
        f"A job ({one_line(str(values.get('schedule') or 'as before'), 60)}) that will {' and '.join(what)}."
    )
    return ApprovalPrompt(text=told, digest=f"cronjob:{json.dumps(values, sort_keys=True, default=str)}")


async def _ask_after_outside(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """What a job does happens later, in a run that no longer knows where its words came from."""
    if values.get("action") == "list":
        return None
    told = "\n".join(f"{name}: {visible(str(value))}" for name, value in values.items() if value)
    return ApprovalPrompt(text=f"Change the jobs:\n{told}", digest=action_digest("cronjob", dict(values)))


@tool(
    "cronjob",
    Effect.ONCE,
    approval_check=_approval_check,
    after_outside=_ask_after_outside,
    needs=JobActions,
)
async def cronjob(
    invocation: ToolInvocation,
    action: Literal["create", "list", "update", "pause", "resume", "remove", "run"],
    job: str = "",
    schedule: str | None = None,
    prompt: str | None = None,
    name: str | None = None,
    deliver: str | None = None,
    repeat: int | None = None,
    catch_up: str | None = None,
    script: str | None = None,
    no_agent: bool | None = None,
    context_from: list[str] | None = None,
    model: str | None = None,
    toolsets: list[str] | None = None,
    workdir: str | None = None,
    skills: list[str] | None = None,
    attach_to_session: bool | None = None,
    notify_only: bool | None = None,
    quiet_hours: str | None = None,
    budget: str | None = None,
) -> str:
    """Jobs for later. They know nothing of this conversation: the prompt must say all.

    job: id or name
    schedule: 30m (once), every 2h, 0 9 * * 1-5, 2030-05-01T09:00
    deliver: origin, local, platform:chat[:thread]
    catch_up: missed times: once, skip, all
    script: in the home; its output comes first
    no_agent: the script's output is the message
    context_from: jobs whose answers it gets
    attach_to_session: goes on in this conversation
    notify_only: silent unless something is up
    quiet_hours: 22:00-07:00
    budget: for a day: 0.50, 20k tokens
    """
    act = invocation.services.get(JobActions)
    said = {
        "job": job, "schedule": schedule, "prompt": prompt, "name": name, "deliver": deliver,
        "repeat": repeat, "catch_up": catch_up, "script": script, "no_agent": no_agent,
        "context_from": context_from, "model": model, "toolsets": toolsets, "workdir": workdir,
        "skills": skills, "attach_to_session": attach_to_session, "notify_only": notify_only,
        "quiet_hours": quiet_hours, "budget": budget,
    }  # fmt: skip
    if action not in ("create", "list") and not job:
        raise UserError(f"{action} needs the id or name of a job.")
    return await act(invocation.context, action, said)


@tool("notify", Effect.KEYED, after_outside=Approval.NEVER)
async def notify(invocation: ToolInvocation, text: str) -> str:
    """Tell people. What else you say in this job reaches nobody."""
    if not text.strip():
        raise UserError("notify needs words.")
    return "It is delivered when the job ends."
