"""`/api/jobs`: work for later, made, looked at, changed, paused, run and removed.

A key without the scope `sessions` sees only the jobs that were made through itself. What reaches into the
machine (scripts, folders) needs the scope `admin`, and what writes to chats the scope `sessions`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from hermes.control.jobs.editing import LONGEST_NAME, LONGEST_PROMPT, JobAction, JobDesk, JobSpec
from hermes.control.jobs.wording import job_facts, run_facts
from hermes.control.outbound.targets import LOCAL
from hermes.control.people.routing import job_source
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, JobId
from hermes.domain.turns.job import Job, JobState
from hermes.domain.word import field_names, replace
from hermes.entry.http.ask.addressee import agent_name, no_such_model, route_call
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import HttpCall, route
from hermes.entry.http.site.errors import ApiError, bad_request, not_found

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Prompt = Annotated[str, msgspec.Meta(max_length=LONGEST_PROMPT)]
_ID = re.compile(r"[0-9a-f]{12}")
_CALLED = {"times": "repeat", "toolsets": "enabled_toolsets"}
"""Fields of a job's spec that clients call otherwise."""
EXAMPLE = {"name": "Mail", "schedule": "0 9 * * MON-FRI", "prompt": "What is new in the mail?"}


class JobOptions(msgspec.Struct, kw_only=True):
    """What a job may further have."""

    catch_up: str | None = None
    context_from: list[str] | None = None
    model: str | None = None
    enabled_toolsets: list[str] | None = None
    script: str | None = None
    no_agent: bool | None = None
    workdir: str | None = None
    attach_to_session: bool | None = None
    notify_only: bool | None = None
    quiet_hours: str | None = None
    budget: str | None = None


class NewJob(JobOptions, kw_only=True, forbid_unknown_fields=True):
    """A job to make. `schedule` is a delay (`30m`), an interval (`every 2h`), a calendar (`0 9 * * MON`) or a
    date; `repeat` is how often it runs in all."""

    schedule: str
    name: Name | None = None
    prompt: Prompt = ""
    deliver: str = "local"
    skills: list[str] | None = None
    repeat: int | None = None
    agent: str | None = None


class JobChange(JobOptions, kw_only=True, forbid_unknown_fields=True):
    """What is to be another; `enabled` pauses and resumes."""

    name: Name | None = None
    schedule: str | None = None
    prompt: Prompt | None = None
    deliver: str | None = None
    skills: list[str] | None = None
    skill: str | None = None
    repeat: int | None = None
    enabled: bool | None = None


class JobFacts(msgspec.Struct, kw_only=True):
    """A job as it stands."""

    id: str
    name: str
    agent: str
    prompt: str
    schedule: dict[str, Any]
    schedule_display: str
    repeat: dict[str, int | None]
    enabled: bool
    state: str
    deliver: str
    catch_up: str
    created_at: str
    next_run_at: str | None
    last_run_at: str | None
    last_status: str | None
    last_error: str | None
    last_delivery_error: str | None
    paused_at: str | None
    paused_reason: str | None
    origin: str | None
    skills: list[str]
    model: str | None
    script: str | None
    no_agent: bool
    context_from: list[str]
    enabled_toolsets: list[str] | None
    workdir: str | None
    attach_to_session: bool
    notify_only: bool
    quiet_hours: str | None
    budget: str | None


class JobRunFacts(msgspec.Struct, kw_only=True):
    """What became of one planned run."""

    job_id: str
    name: str
    due: str
    began_at: str
    ended_at: str | None
    state: str
    status: str | None
    error: str | None
    manual: bool
    session_id: str | None
    turn_id: str | None


class JobResponse(msgspec.Struct, kw_only=True):
    """The job."""

    job: JobFacts


class JobList(msgspec.Struct, kw_only=True):
    """The jobs, the next one first."""

    jobs: list[JobFacts]


class JobRunList(msgspec.Struct, kw_only=True):
    """The runs of a job, the newest first."""

    runs: list[JobRunFacts]


class JobRemoved(msgspec.Struct, kw_only=True):
    """It is gone."""

    ok: bool = True


@route("GET", "/api/jobs", "The jobs, the next one first.")
async def list_jobs(call: HttpCall, include_disabled: bool = False) -> JobList:
    """Those that will run, or with `include_disabled` the paused and the completed ones too."""
    desk = _desk(call, call.default)
    jobs = [job for job in await call.collect(lambda tx: tx.jobs.list()) if desk.rules.sees(job)]
    wanted = [job for job in jobs if include_disabled or job.state is JobState.SCHEDULED]
    return JobList(jobs=[_shown(desk, job).job for job in wanted])


@route("POST", "/api/jobs", "Make a job.", example=EXAMPLE)
async def make_job(call: HttpCall, body: NewJob) -> JobResponse:
    spec, maker = _spec(call, body, body.skills), call.source("jobs")
    if body.agent:
        agent = AgentId(body.agent)
    elif len(call.agents) == 1 and not call.principal.sees(call.default):
        agent = call.agents[0]
    else:
        agent = await route_call(call, job_source(body.name, maker), body.prompt, maker)
    if not call.gateway.hosts(agent) or not call.principal.sees(agent):
        raise bad_request(f"There is no agent “{agent[:80]}”.", param="agent")
    desk, spec = _desk(call, agent), await _checked(call, agent, spec)
    return _shown(desk, await desk.create(spec, maker))


@route("GET", "/api/jobs/{id}", "One job.")
async def read_job(call: HttpCall) -> JobResponse:
    desk, job = await _find(call)
    return _shown(desk, job)


@route("PATCH", "/api/jobs/{id}", "Change a job.", example={"schedule": "every 2h", "enabled": True})
async def change_job(call: HttpCall, body: JobChange) -> JobResponse:
    desk, job = await _find(call)
    spec = _spec(call, body, body.skills if body.skill is None else [body.skill])
    if spec != JobSpec():
        job = await desk.update(job.id, await _checked(call, job.agent, spec))
    if body.enabled is False and job.state is JobState.SCHEDULED:
        job = await desk.act(job.id, JobAction.PAUSE)
    elif body.enabled and job.state is JobState.PAUSED:
        job = await desk.act(job.id, JobAction.RESUME)
    return _shown(desk, job)


@route("DELETE", "/api/jobs/{id}", "Remove a job.")
async def remove_job(call: HttpCall) -> JobRemoved:
    desk, job = await _find(call)
    await desk.act(job.id, JobAction.REMOVE)
    return JobRemoved()


@route("POST", "/api/jobs/{id}/pause", "Let a job rest.")
async def pause_job(call: HttpCall) -> JobResponse:
    return await _act(call, JobAction.PAUSE)


@route("POST", "/api/jobs/{id}/resume", "Let a job go on from its next time.")
async def resume_job(call: HttpCall) -> JobResponse:
    return await _act(call, JobAction.RESUME)


@route("POST", "/api/jobs/{id}/run", "Run a job now.")
async def run_job(call: HttpCall) -> JobResponse:
    return await _act(call, JobAction.RUN)


async def _act(call: HttpCall, action: JobAction) -> JobResponse:
    desk, job = await _find(call)
    return _shown(desk, await desk.act(job.id, action))


@route("GET", "/api/jobs/{id}/runs", "What became of a job's runs.")
async def list_runs(call: HttpCall, limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20) -> JobRunList:
    desk, job = await _find(call)
    runs = await desk.runs(job.id, limit)
    return JobRunList(runs=[msgspec.convert(run_facts(run, desk.zone), JobRunFacts) for run in runs])


def _desk(call: HttpCall, agent: AgentId) -> JobDesk:
    return call.gateway.jobs(agent).seen_by(lambda job: call.may_see(job.origin))


async def _find(call: HttpCall) -> tuple[JobDesk, Job]:
    ident = call.part("id")
    if not _ID.fullmatch(ident):
        raise bad_request("The id of a job is 12 hexadecimal digits.", param="id")
    job = await call.find(lambda tx: tx.jobs.get(JobId(ident)), not_found("job", ident, "job_not_found"))
    desk = _desk(call, job.agent)
    if not desk.rules.sees(job):
        raise not_found("job", ident, "job_not_found")
    return desk, job


def _shown(desk: JobDesk, job: Job) -> JobResponse:
    return JobResponse(job=msgspec.convert(job_facts(job, desk.zone), JobFacts))


def _spec(call: HttpCall, body: NewJob | JobChange, skills: Sequence[str] | None) -> JobSpec:
    if (body.script or body.workdir or body.no_agent) and not call.principal.may(KeyScope.ADMIN):
        raise ApiError(403, "scope_missing", "Scripts and folders of jobs need a key with the scope admin.")
    if _elsewhere(body.deliver or "") and not call.principal.may(KeyScope.SESSIONS):
        raise ApiError(
            403, "scope_missing", "A job that writes to chats (deliver) needs a key with the scope sessions."
        )
    values = {name: getattr(body, _CALLED.get(name, name)) for name in field_names(JobSpec)}
    return JobSpec(**{**values, "skills": skills})


async def _checked(call: HttpCall, agent: AgentId, spec: JobSpec) -> JobSpec:
    """The same with a model that this key may name, and toolsets that there are."""
    if spec.toolsets:
        try:
            (await call.site.agents.get(agent)).toolbox.check_names(spec.toolsets)
        except UserError as error:
            raise bad_request(str(error), param="enabled_toolsets") from error
    if not spec.model or call.principal.may(KeyScope.ADMIN) or spec.model in call.site.aliases:
        return spec
    if spec.model not in {agent_name(call, agent), agent, call.site.model(agent)}:
        raise no_such_model(call, spec.model)
    return replace(spec, model="")


def _elsewhere(deliver: str) -> bool:
    """Whether an answer would go to a chat. A client is in none, so `origin` means a home channel."""
    return any(word.strip().lower() not in ("", LOCAL) for word in deliver.split(","))
