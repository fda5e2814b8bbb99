"""Jobs of the existing product, taken over once: what it wrote of a job becomes a job of ours, and what has
no place here is kept beside it. A job that is not understood comes along too, marked with why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any

from hermes.control.jobs.schedule import Schedule, read_schedule
from hermes.domain.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, JobId, new_job_id
from hermes.domain.job import Job, JobState
from hermes.domain.ports.store import Tx
from hermes.domain.settings.declaring import NONE_LISTED
from hermes.domain.text import one_line, storable

FACT = "cron.imported"
_ID = re.compile(r"[0-9a-f]{12}")
_KEYS = """id name prompt skills skill model script no_agent context_from schedule schedule_display repeat
    enabled state paused_at paused_reason created_at next_run_at last_run_at last_status last_error
    last_delivery_error deliver origin enabled_toolsets workdir attach_to_session"""
_USED = frozenset(_KEYS.split())


def import_jobs(
    tx: Tx, agent: AgentId, told: Sequence[Mapping[str, Any]], now: datetime, zone: tzinfo
) -> int:
    """Take the jobs over, unless that was done before; how many there were."""
    fact = f"{FACT}.{agent}"
    if tx.facts.get(fact) is not None:
        return 0
    names = {job.name.casefold() for job in tx.jobs.list()}
    count = 0
    for one in told:
        job = imported_job(one, agent, now, zone)
        if tx.jobs.get(job.id) is not None:
            continue
        if job.name.casefold() in names:
            job = _renamed(job)
        names.add(job.name.casefold())
        tx.jobs.save(job)
        count += 1
    tx.facts.put(fact, now.isoformat())
    return count


def imported_job(told: Mapping[str, Any], agent: AgentId, now: datetime, zone: tzinfo) -> Job:
    created = _moment(told.get("created_at"), zone) or now
    repeat = told.get("repeat") if isinstance(told.get("repeat"), dict) else {}
    assert isinstance(repeat, dict)
    planned = _moment(told.get("next_run_at"), zone)
    anchor = (planned or created).replace(microsecond=0)
    state, error, plan = JobState.SCHEDULED, _text(told.get("last_error")), None
    try:
        plan = _plan(told.get("schedule"), anchor, zone)
    except UserError as problem:
        state, error = JobState.ERROR, str(problem)
    said = _text(told.get("state"))
    if said == "completed":
        state = JobState.COMPLETED
    elif state is JobState.SCHEDULED and (told.get("enabled") is False or said == "paused"):
        state = JobState.PAUSED
    due = None
    if state is JobState.SCHEDULED and plan is not None:
        due = planned or plan.after(now)
        state = state if due is not None else JobState.COMPLETED
    times, done = repeat.get("times"), repeat.get("completed")
    ident = _text(told.get("id"))
    prompt = storable(_text(told.get("prompt")))
    return Job(
        id=JobId(ident) if _ID.fullmatch(ident) else new_job_id(),
        agent=agent,
        schedule=_text(told.get("schedule_display")) if plan is None else plan.text,
        prompt=prompt,
        created_at=created,
        anchor=anchor,
        name=one_line(_text(told.get("name")) or prompt or "job", 200),
        deliver_to=_text(told.get("deliver")) or "local",
        origin=_origin(told.get("origin")),
        next_due=due,
        state=state,
        times=times if isinstance(times, int) and times > 0 else None,
        completed=done if isinstance(done, int) else 0,
        paused_at=_moment(told.get("paused_at"), zone),
        paused_reason=_text(told.get("paused_reason")),
        script=_text(told.get("script")),
        no_agent=bool(told.get("no_agent")),
        context_from=tuple(JobId(one) for one in _words(told.get("context_from"))),
        model=_text(told.get("model")),
        toolsets=_limit(told.get("enabled_toolsets")),
        workdir=_text(told.get("workdir")),
        skills=_words(told.get("skills")) or _words(told.get("skill")),
        attach_to_session=told.get("attach_to_session") is True,
        last_run_at=_moment(told.get("last_run_at"), zone),
        last_status=_text(told.get("last_status")),
        last_error=error,
        last_delivery_error=_text(told.get("last_delivery_error")),
        extra=json.dumps({key: value for key, value in told.items() if key not in _USED}),
    )


def _renamed(job: Job) -> Job:
    return replace(job, name=f"{job.name} ({job.id})")


def _plan(told: object, anchor: datetime, zone: tzinfo) -> Schedule:
    if isinstance(told, str):
        return read_schedule(told, anchor, zone)
    if not isinstance(told, dict):
        raise UserError("Its schedule is missing.", hint="Give it one.")
    match told.get("kind"):
        case "interval":
            return read_schedule(f"every {told.get('minutes')}m", anchor, zone)
        case "cron":
            return read_schedule(_text(told.get("expr")), anchor, zone)
        case _:
            return read_schedule(_text(told.get("run_at")) or _text(told.get("display")), anchor, zone)


def _moment(told: object, zone: tzinfo) -> datetime | None:
    try:
        at = datetime.fromisoformat(told) if isinstance(told, str) else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=zone)


def _origin(told: object) -> Source | None:
    if not isinstance(told, dict) or not told.get("platform") or not told.get("chat_id"):
        return None
    thread = _text(told.get("thread_id")) or None
    address = Address(
        platform=_text(told["platform"]).lower(),
        account=DEFAULT_ACCOUNT,
        chat=_text(told["chat_id"]),
        thread=thread,
    )
    user = _text(told.get("user_id")) or None
    return Source(address=address, kind=SourceKind.THREAD if thread else SourceKind.PRIVATE, user=user)


def _text(told: object) -> str:
    return "" if told is None else str(told).strip()


def _limit(told: object) -> tuple[str, ...]:
    """The only toolsets of a job; what cannot be read allows none, for no name at all allows every one."""
    return _words(told) if told is None or isinstance(told, str | list | tuple) else NONE_LISTED


def _words(told: object) -> tuple[str, ...]:
    if isinstance(told, str):
        return (told,) if told.strip() else ()
    return tuple(str(one) for one in told) if isinstance(told, list | tuple) else ()
