"""`/cron`: people manage their own jobs, an admin all jobs of this agent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.jobs import editing
from hermes.control.jobs.editing import JobAction
from hermes.control.jobs.runs import JobContext
from hermes.control.jobs.wording import job_line, title
from hermes.domain.clock import zone_named
from hermes.domain.errors import UserError
from hermes.domain.turns.job import Job

_USAGE = "Write /cron list, or /cron pause|resume|run|remove <job>, or /cron add <schedule> | <prompt>."
_DONE: dict[JobAction, Callable[[Job, tzinfo], str]] = {
    JobAction.PAUSE: lambda job, zone: f"Paused: “{title(job)}”.",
    JobAction.RESUME: job_line,
    JobAction.RUN: lambda job, zone: f"“{title(job)}” runs now; its answer goes to {job.deliver_to}.",
    JobAction.REMOVE: lambda job, zone: f"Removed: “{title(job)}”.",
}


@command("cron", "look after your scheduled jobs", usage="[list | add … | pause|resume|run|remove <job>]")
def cron(call: CommandCall) -> CommandReply:
    action, _, rest = call.args.partition(" ")
    zone = zone_named(call.settings.timezone)
    context = JobContext(
        now=call.now,
        zone=zone,
        settings=call.settings,
        targets=call.gateway.targets,
        sees=lambda job: call.is_admin or editing.is_own(job, call.source),
    )
    match action.lower() or "list":
        case "list":
            lines = [f"- {job_line(job, zone)}" for job in editing.list_jobs(call.tx, context)]
            return CommandReply(text="\n".join(lines) or "There are no jobs yet.")
        case "add":
            return _add(call, rest, context)
        case "pause" | "resume" | "run" | "remove" as action:
            job = editing.act_on_job(
                call.tx, editing.find_job(call.tx, rest, context), JobAction(action), context
            )
            return CommandReply(text=_DONE[JobAction(action)](job, zone))
        case _:
            raise UserError(f"/cron does not know “{action[:40]}”.", hint=_USAGE)


def _add(call: CommandCall, rest: str, context: JobContext) -> CommandReply:
    schedule, bar, prompt = rest.partition("|")
    if not bar:
        raise UserError(
            "A job needs a schedule and a prompt.", hint="Write /cron add every 2h | look at the mail."
        )
    wish = editing.JobSpec(schedule=schedule, prompt=prompt)
    job = editing.create_job(call.tx, call.session.agent, wish, call.source, context)
    return CommandReply(text=f"Made: {job_line(job, context.zone)}")
