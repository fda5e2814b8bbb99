"""Texts about jobs: the prompt of a run, the part of its answer that people get, and descriptions of a job
and its runs. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from msgspec import Struct

from hermes.domain.safety.outside import TASK, fence
from hermes.domain.text import one_line
from hermes.domain.turns.event import Entry, Failed, ModelSaid, Stopped, ToolFinished, UserSaid
from hermes.domain.turns.job import Job, JobRun, JobState, RunStatus, ScriptReport
from hermes.stream.fold.answer import answer_text
from hermes.stream.fold.directives import is_silence

MOST_CONTEXT = 8000
SILENT = "[SILENT]"
NOTIFY = "notify"
NO_ANSWER = "It ended without an answer."
INTERRUPTED = (
    "Interrupted while its script ran: whether the script took effect is unknown, and it was not repeated."
)
_SKIP = "wakeAgent"
_BY_ANSWER = (
    "do the work and end with the answer; it is delivered for you, so do not send it yourself. If there is"
    f" nothing worth telling, answer exactly {SILENT}."
)
_BY_NOTIFY = (
    "do the work. People get what you say through notify and nothing else: call it only if there is something"
    " worth telling. Your answer is kept in a file."
)
_NAME = 50


# --- what the agent is told ------------------------------------------------------------------------


def prompt_words(job: Job, due: datetime, script: ScriptReport | None, contexts: Sequence[Job]) -> str:
    """The words of a run's turn. What comes from scripts and other jobs (`contexts`) is fenced as data."""
    how = _BY_NOTIFY if job.notify_only else _BY_ANSWER
    parts = [
        f"[Scheduled job “{title(job)}” ({job.id}), planned for {due:%Y-%m-%d %H:%M %Z}. Nobody waits in a"
        f" chat, and nobody can be asked: {how}]"
    ]
    if script is not None:
        parts.append(_script_words(job.script, script))
    for context in contexts:
        output = context.last_output[:MOST_CONTEXT] or "(nothing yet)"
        parts.append(_data(f"What the job “{title(context)}” said last", output))
    if job.prompt:
        parts.append(f"{TASK}\n{job.prompt}")
    return "\n\n".join(parts)


def _script_words(name: str, report: ScriptReport) -> str:
    if not report.problem:
        return _data(f"Output of the script {name}", report.output)
    output = f"\n{report.output}" if report.output.strip() else ""
    return _data(f"The script {name} failed", f"{report.problem}{output}")


def _data(about: str, text: str) -> str:
    return f"[{about}:]\n{fence(text.rstrip())}"


def wakes(output: str) -> bool:
    """Whether a script's output is a reason to run the agent: not if it is empty, nor if its last line says
    `{"wakeAgent": false}`."""
    lines = [line for line in output.splitlines() if line.strip()]
    if not lines:
        return False
    try:
        last = json.loads(lines[-1])
    except (ValueError, RecursionError):
        return True
    return not (isinstance(last, dict) and last.get(_SKIP) is False)


# --- what people get -------------------------------------------------------------------------------


class JobRunResult(Struct, frozen=True, kw_only=True):
    """How a run ended, its answer, and what of it is delivered (empty: nothing)."""

    status: RunStatus
    answer: str = ""
    error: str = ""
    delivered: str = ""


def run_result(run: JobRun, entries: Sequence[Entry], wrap: bool) -> JobRunResult:
    """Read from a turn's records; `run.error` is what went wrong before there was a turn."""
    last = entries[-1].record if entries else None
    answer = answer_text(entries) if entries else ""
    if isinstance(last, Stopped):
        return JobRunResult(status=RunStatus.STOPPED, answer=answer, error=last.reason or "stopped")
    error = run.error
    if isinstance(last, Failed):
        error = error or last.reason
    elif not answer.strip() and not run.notify_only:
        error = error or NO_ANSWER
    if error:
        message = f"⚠️ The job “{run.name}” ({run.job}) failed: {one_line(error, 500)}"
        return JobRunResult(status=RunStatus.ERROR, answer=answer, error=error, delivered=message)
    if run.notify_only:
        answer = "\n\n".join(_notices(entries))
    if is_silent(answer):
        return JobRunResult(status=RunStatus.SILENT, answer=answer)
    message = wrapped(run, answer) if wrap else answer
    return JobRunResult(status=RunStatus.OK, answer=answer, delivered=message)


def _notices(entries: Sequence[Entry]) -> list[str]:
    """What the agent said through `notify`."""
    records = [entry.record for entry in entries]
    done = {one.call for one in records if isinstance(one, ToolFinished) and not one.failed}
    said = (call for one in records if isinstance(one, ModelSaid) for call in one.calls if call.id in done)
    given = (json.loads(call.arguments) for call in said if call.name == NOTIFY)
    return [str(one["text"]).strip() for one in given]


def is_silent(text: str) -> bool:
    """A silence marker alone, on a line of its own at the beginning or the end, or leading the text."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return True
    return is_silence(lines[0]) or is_silence(lines[-1]) or text.lstrip().upper().startswith(SILENT)


def wrapped(run: JobRun, answer: str) -> str:
    return f"⏰ **{run.name}** ({run.job})\n\n---\n\n{answer.strip()}"


def how_to_stop(run: JobRun, prefix: str) -> str:
    """What stands under the answer of a job that goes on; `prefix` is how commands begin in that chat."""
    return f"\n\n---\n\nStop it with {prefix}cron pause {run.job}, or {prefix}cron remove {run.job}."


def output_name(run: JobRun, zone: tzinfo) -> str:
    """The file of a run. In the hour that comes twice the second one has a mark."""
    at = run.due.astimezone(zone)
    return f"{at:%Y-%m-%d_%H-%M-%S}{'-2' if at.fold else ''}.md"


def output_text(run: JobRun, entries: Sequence[Entry], zone: tzinfo) -> str:
    asked = next((one.record.text for one in entries if isinstance(one.record, UserSaid)), "")
    facts = [
        f"# {run.name}",
        f"- Job: {run.job}\n- Planned for: {run.due.astimezone(zone).isoformat()}"
        f"\n- Began: {run.began_at.astimezone(zone).isoformat()}\n- Status: {run.status.value}",
    ]
    if asked:
        facts.append(f"## Prompt\n\n{asked}")
    if run.error:
        facts.append(f"## Error\n\n{run.error}")
    facts.append(f"## Answer\n\n{answer_text(entries) or '(none)'}")
    return "\n\n".join(facts) + "\n"


# --- jobs as people and programs see them ------------------------------------------------------------


def title(job: Job) -> str:
    return job.name or one_line(job.prompt or job.script, _NAME)


def job_line(job: Job, zone: tzinfo) -> str:
    when = f"next {_local(job.next_due, zone)}" if job.next_due is not None else job.state.value
    last = f", last {job.last_status} {_local(job.last_run_at, zone)}" if job.last_run_at is not None else ""
    return f"{job.id} “{title(job)}”: {told_schedule(job, zone)}, {when}{last}, to {job.deliver_to}"


def told_schedule(job: Job, zone: tzinfo) -> str:
    if job.schedule.startswith("every ") or len(job.schedule.split()) == 5:
        return job.schedule
    return f"once at {_local(datetime.fromisoformat(job.schedule), zone)}" if job.schedule else "(none)"


def _local(at: datetime | None, zone: tzinfo) -> str:
    return "–" if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M}"


def job_facts(job: Job, zone: tzinfo) -> dict[str, Any]:
    """A job as programs see it, with the names that Hermes Agent uses."""
    return {
        "id": job.id,
        "name": title(job),
        "prompt": job.prompt,
        "skills": list(job.skills),
        "model": job.model or None,
        "script": job.script or None,
        "no_agent": job.no_agent,
        "context_from": list(job.context_from),
        "schedule": _schedule_facts(job, zone),
        "schedule_display": told_schedule(job, zone),
        "repeat": {"times": job.times, "completed": job.completed},
        "enabled": job.state is JobState.SCHEDULED,
        "state": job.state.value,
        "paused_at": _iso(job.paused_at, zone),
        "paused_reason": job.paused_reason or None,
        "created_at": _iso(job.created_at, zone),
        "next_run_at": _iso(job.next_due, zone),
        "last_run_at": _iso(job.last_run_at, zone),
        "last_status": job.last_status or None,
        "last_error": job.last_error or None,
        "last_delivery_error": job.last_delivery_error or None,
        "deliver": job.deliver_to,
        "origin": None if job.origin is None else str(job.origin.address),
        "agent": job.agent,
        "enabled_toolsets": list(job.toolsets) or None,
        "workdir": job.workdir or None,
        "catch_up": job.catch_up.value,
        "attach_to_session": job.attach_to_session,
        "notify_only": job.notify_only,
        "quiet_hours": job.quiet_hours or None,
        "budget": job.budget or None,
    }


def _schedule_facts(job: Job, zone: tzinfo) -> dict[str, Any]:
    if job.schedule.startswith("every "):
        return {"kind": "interval", "display": job.schedule}
    if len(job.schedule.split()) == 5:
        return {"kind": "cron", "expr": job.schedule, "display": job.schedule}
    return {"kind": "once", "run_at": job.schedule, "display": told_schedule(job, zone)}


def run_facts(run: JobRun, zone: tzinfo) -> dict[str, Any]:
    return {
        "job_id": run.job,
        "name": run.name,
        "due": _iso(run.due, zone),
        "began_at": _iso(run.began_at, zone),
        "ended_at": _iso(run.ended_at, zone),
        "state": run.state.value,
        "status": run.status.value or None,
        "error": run.error or None,
        "manual": run.manual,
        "session_id": run.session,
        "turn_id": run.turn,
    }


def _iso(at: datetime | None, zone: tzinfo) -> str | None:
    return None if at is None else at.astimezone(zone).isoformat()
