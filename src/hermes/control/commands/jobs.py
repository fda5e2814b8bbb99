"""`/cron`: look after one's jobs; an admin looks after all of this agent's."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.jobs.editing import (
    JobSpec,
    create_job,
    find_job,
    is_own,
    list_jobs,
    pause_job,
    resume_job,
)
from hermes.control.jobs.runs import JobContext, run_now
from hermes.control.jobs.wording import job_line, title
from hermes.domain.clock import zone_named
from hermes.domain.errors import UserError

_USAGE = "Write /cron list, or /cron pause|resume|run|remove <job>, or /cron add <schedule> | <prompt>."


@command("cron", "look after your scheduled jobs", usage="[list | add … | pause|resume|run|remove <job>]")
def cron(call: CommandCall) -> CommandReply:
    action, _, rest = call.args.partition(" ")
    zone = zone_named(call.settings.timezone)
    moment = JobContext(
        now=call.now,
        zone=zone,
        settings=call.settings,
        targets=call.gateway.targets,
        sees=lambda job: call.is_admin or is_own(job, call.source),
    )
    match action.lower() or "list":
        case "list":
            lines = [f"- {job_line(job, zone)}" for job in list_jobs(call.tx, moment)]
            return CommandReply(text="\n".join(lines) or "There are no jobs yet.")
        case "add":
            return _add(call, rest, moment)
        case "pause":
            paused = pause_job(call.tx, find_job(call.tx, rest, moment), call.now)
            return CommandReply(text=f"Paused: “{title(paused)}”.")
        case "resume":
            return CommandReply(
                text=job_line(resume_job(call.tx, find_job(call.tx, rest, moment), moment), zone)
            )
        case "run":
            job = find_job(call.tx, rest, moment)
            run_now(call.tx, job, moment)
            return CommandReply(text=f"“{title(job)}” runs now; its answer goes to {job.deliver_to}.")
        case "remove":
            job = find_job(call.tx, rest, moment)
            call.tx.jobs.remove(job.id)
            return CommandReply(text=f"Removed: “{title(job)}”.")
        case _:
            raise UserError(f"/cron does not know “{action[:40]}”.", hint=_USAGE)


def _add(call: CommandCall, rest: str, moment: JobContext) -> CommandReply:
    schedule, bar, prompt = rest.partition("|")
    if not bar:
        raise UserError(
            "A job needs a schedule and a prompt.", hint="Write /cron add every 2h | look at the mail."
        )
    wish = JobSpec(schedule=schedule, prompt=prompt)
    job = create_job(call.tx, call.session.agent, wish, call.source, moment)
    return CommandReply(text=f"Made: {job_line(job, moment.zone)}")
