"""The units of work of a run, from its slot to its end: each is one transaction, deciding on what it reads.

A slot's claim, the job's next time and (if nothing has to happen before) the turn are one commit, so a crash
neither loses a run nor doubles it. What a script did is unknown after a crash: its slot is reported, never
run again. The end of a run is one commit too: what is delivered, how it went, what the job remembers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from msgspec import Struct

from hermes.control.jobs.schedule import Once, Schedule, grace, read_schedule
from hermes.control.jobs.wording import NOTIFY, how_to_stop, prompt_words, run_result, title, wakes
from hermes.control.outbound.answers import AnswerWriter
from hermes.control.outbound.sending import mirror, reach_from
from hermes.control.outbound.targets import ResolveTargets, default_targets, lane_of, real_place
from hermes.control.people.routing import JOBS
from hermes.control.people.standing import may_deliver
from hermes.control.turn.children import last_step
from hermes.control.turn.stopping import stop_turn
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Body
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, JobId, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import storable
from hermes.domain.turns.event import Failed
from hermes.domain.turns.job import (
    CatchUp,
    Job,
    JobRun,
    JobState,
    RunState,
    RunStatus,
    ScriptReport,
    Slot,
    quiet_until,
)
from hermes.domain.turns.session import RUN_SESSIONS, Session, make_turn
from hermes.domain.turns.turn import Cause, Guidance, ReplyPlace, TurnAction, TurnInput, TurnState
from hermes.domain.word import replace

WITHHELD = ("cronjob", "clarify", "messaging", "send_message")
MISSED = "Its time passed while it could not be run, and it is told to skip what it missed."
REMOVED = "The job was removed."
SESSION_KEPT = timedelta(days=90)
_KEPT_OUTPUT = 8000


class JobContext(Struct, frozen=True, kw_only=True):
    """When a unit runs and by which rules; `sees` says which jobs are there for who asks: `by` (None:
    the operator)."""

    now: datetime
    zone: tzinfo
    settings: Settings
    targets: ResolveTargets = default_targets
    sees: Callable[[Job], bool] = lambda job: True
    by: Source | None = None


def plan_of(job: Job, zone: tzinfo) -> Schedule:
    return read_schedule(job.schedule, job.anchor, zone)


def delivered_to(
    tx: Tx, deliver: str, job: Job, context: JobContext
) -> tuple[tuple[Address, ...], UserError | None]:
    """Where the answers of a job go, and why not to all the places it names. It reaches no chat that the
    maker's words in a chat could not: asked when it is made, and at each run, for people come to be admins
    and cease to be. If it reaches none, they go to the chat in which it was made."""
    to = context.targets(tx, deliver, job.origin, context.settings)
    maker = None if job.moved_in else job.origin
    reaches = reach_from(tx, maker, lambda who: who is not None and may_deliver(who, context.settings))
    if all(map(reaches, to)):
        return to, None
    problem = UserError(
        "Only the owner and admins have jobs that answer in other chats.",
        hint="Let it answer where it is made (origin), or keep its answers (local).",
    )
    origin = (maker.address,) if maker is not None and maker.is_chat else ()
    return tuple(filter(reaches, to)) or origin, problem


# --- slots -----------------------------------------------------------------------------------------


def fire(tx: Tx, wanted: JobId, context: JobContext) -> JobRun | None:
    """Begin the run that is due, if there is one, and plan the job's next time."""
    job = tx.jobs.get(wanted)
    if (
        job is None
        or job.state is not JobState.SCHEDULED
        or job.next_due is None
        or job.next_due > context.now
    ):
        return None
    if is_running(tx, job.id):
        # One run at a time: what comes due meanwhile is caught up with when this one has ended.
        return None
    try:
        plan = plan_of(job, context.zone)
    except UserError as error:
        tx.jobs.save(replace(job, state=JobState.ERROR, next_due=None, last_error=str(error)))
        return None
    if quiet := _quiet_until(job, plan, context):
        later = plan.after(quiet) if job.catch_up is CatchUp.SKIP else None
        tx.jobs.save(replace(job, next_due=later or quiet))
        return None
    slot, runs = _slot(plan, job, context)
    following = plan.after(slot if job.catch_up is CatchUp.ALL else max(slot, context.now))
    run = _claim(tx, job, slot, context) if runs else None
    completed = job.completed + (run is not None)
    job = replace(job, completed=completed, next_due=following)
    if following is None or (job.times is not None and completed >= job.times):
        job = replace(job, state=JobState.COMPLETED, next_due=None)
    if not runs:
        job = replace(job, last_error=MISSED)
        tx.job_runs.claim(
            _run(job, slot, context, state=RunState.OVER, status=RunStatus.MISSED, error=MISSED)
        )
    tx.jobs.save(job)
    return None if run is None else _begin(tx, job, run, context)


def _quiet_until(job: Job, plan: Schedule, context: JobContext) -> datetime | None:
    """When the hours are over in which a job is not run now. Those of the settings are not for what somebody
    planned for one moment."""
    hours = job.quiet_hours or ("" if isinstance(plan, Once) else context.settings.cron.quiet_hours)
    return quiet_until(hours, context.now.astimezone(context.zone)) if hours else None


def run_now(tx: Tx, job: Job, context: JobContext) -> JobRun:
    """A run that somebody asks for; the job's own times and counts stay as they are."""
    if is_running(tx, job.id):
        raise UserError(f"The job “{title(job)}” is running now.", hint="Wait until it is done.")
    due = context.now.replace(microsecond=0)
    while (run := _claim(tx, job, due, context, manual=True)) is None:
        due += timedelta(seconds=1)
    return _begin(tx, job, run, context)


def is_running(tx: Tx, job: JobId) -> bool:
    return any(run.job == job and run.state is not RunState.SETTLED for _, run in tx.job_runs.open())


def _slot(plan: Schedule, job: Job, context: JobContext) -> tuple[datetime, bool]:
    """The slot that is looked at now, and whether it is run."""
    assert job.next_due is not None
    if job.catch_up is CatchUp.ALL:
        return job.next_due, True
    slot = max(plan.latest(context.now) or job.next_due, job.next_due)
    late = context.now - slot > grace(plan, slot)
    return slot, job.catch_up is CatchUp.ONCE or not late


def _run(job: Job, due: datetime, context: JobContext, **more: object) -> JobRun:
    return JobRun(
        job=job.id,
        due=due,
        began_at=context.now,
        name=title(job),
        notify_only=job.notify_only,
        **more,  # type: ignore[arg-type]
    )


def _claim(tx: Tx, job: Job, due: datetime, context: JobContext, manual: bool = False) -> JobRun | None:
    run = _run(job, due, context, state=RunState.CLAIMED, manual=manual)
    return run if tx.job_runs.claim(run) else None


def _begin(tx: Tx, job: Job, run: JobRun, context: JobContext) -> JobRun:
    try:
        to, error = delivered_to(tx, job.deliver_to, job, context)
    except UserError as wrong:
        to, error = (), wrong
    problem = "" if error is None else str(error)
    if problem != job.last_delivery_error:
        tx.jobs.save(replace(job, last_delivery_error=problem))
    run = replace(run, to=to)
    tx.job_runs.save(run)
    return run if job.script or job.workdir or job.skills else begin_job_turn(tx, run.slot, context) or run


def planned_wrong(tx: Tx, now: datetime, zone: Callable[[AgentId], tzinfo]) -> list[Job]:
    """After the clock was set back: jobs that wait for a time beyond their next one, as they should be."""
    found: list[Job] = []
    for job in tx.jobs.list():
        if job.state is not JobState.SCHEDULED or job.next_due is None:
            continue
        try:
            plan = plan_of(job, zone(job.agent))
        except UserError:
            continue
        planned = plan.after(now)
        while (
            planned is not None and planned < job.next_due and tx.job_runs.get(Slot(job=job.id, due=planned))
        ):
            planned = plan.after(planned)
        if planned is not None and planned < job.next_due:
            found.append(replace(job, next_due=planned))
    return found


def plan_again(tx: Tx, context: JobContext) -> int:
    wrong = planned_wrong(tx, context.now, lambda agent: context.zone)
    for job in wrong:
        tx.jobs.save(job)
    return len(wrong)


# --- before the turn -------------------------------------------------------------------------------


def start_script(tx: Tx, slot: Slot) -> Job | None:
    """The job whose run is being prepared, its script noted as begun; None if there is nothing to do."""
    run, job = tx.job_runs.get(slot), tx.jobs.get(slot.job)
    if run is None or run.state is not RunState.CLAIMED:
        return None
    if job is None:
        tx.job_runs.save(replace(run, state=RunState.OVER, status=RunStatus.STOPPED, error=REMOVED))
        return None
    if job.script:
        tx.job_runs.save(replace(run, state=RunState.SCRIPT))
    return job


def begin_job_turn(
    tx: Tx,
    slot: Slot,
    context: JobContext,
    report: ScriptReport | None = None,
    *,
    failure: str = "",
    folder: str = "",
    skills: str = "",
) -> JobRun | None:
    """The run's turn, with all that was prepared for it, in this `folder`, by these `skills`; if a `failure`
    keeps it from that, people are told why in its stead. None if the run is elsewhere by now."""
    run, job = tx.job_runs.get(slot), tx.jobs.get(slot.job)
    if run is None or run.state not in (RunState.CLAIMED, RunState.SCRIPT):
        return None
    if job is None:
        status = RunStatus.ERROR if failure else RunStatus.STOPPED
        return _over(tx, run, context, status, failure or REMOVED)
    if failure:
        relayed = TurnInput(text=failure, action=TurnAction.RELAY)
        return _turn(tx, replace(run, error=failure), job, context, relayed)
    failed = report is not None and bool(report.problem)
    if report is not None and not failed and not wakes(report.output):
        return _over(tx, run, context, RunStatus.SKIPPED, "")
    if job.no_agent and report is not None:
        error = report.problem
        text = f"{error}\n\n{report.output}".strip() if failed else report.output
        return _turn(
            tx, replace(run, error=error), job, context, TurnInput(text=text, action=TurnAction.RELAY)
        )
    contexts = [other for other in map(tx.jobs.get, job.context_from) if other is not None]
    words = prompt_words(job, run.due.astimezone(context.zone), report, contexts)
    guidance = Guidance(
        model=job.model,
        toolsets=(*job.toolsets, NOTIFY) if job.toolsets and job.notify_only else job.toolsets,
        withheld=WITHHELD if job.notify_only else (*WITHHELD, NOTIFY),
        unattended=context.settings.approvals.cron_mode,
        backend=_backend(job, context.settings),
        origin=job.origin,
    )
    return _turn(tx, run, job, context, TurnInput(text=words, context=skills, guidance=guidance), folder)


def _backend(job: Job, settings: Settings) -> str:
    """Where the commands of whoever made the job run; a job is no way around the sandbox of a chat."""
    route = settings.route_for(job.origin)
    return "" if route is None else route.backend


def _turn(tx: Tx, run: JobRun, job: Job, context: JobContext, given: TurnInput, folder: str = "") -> JobRun:
    source = Source(address=Address(platform=JOBS, chat=job.id), kind=SourceKind.JOB, chat_name=title(job))
    session = Session(
        id=SessionId(session_name(run)),
        agent=job.agent,
        created_at=context.now,
        updated_at=context.now,
        owner=str(source.address),
        place=str(source.address),
        expires_at=context.now + SESSION_KEPT,
        workspace=folder or None,
    )
    tx.sessions.add(session)
    given = replace(given, text=storable(given.text))
    turn = make_turn(session, Cause.JOB, given, context.now, source=source)
    tx.turns.add(turn)
    run = replace(run, state=RunState.TURN, turn=turn.id, session=session.id)
    tx.job_runs.save(run)
    return run


def session_name(run: JobRun) -> str:
    """The session that a run has for itself."""
    return f"{RUN_SESSIONS}{run.job}_{run.due:%Y%m%d_%H%M%S}"


def _over(tx: Tx, run: JobRun, context: JobContext, status: RunStatus, error: str) -> JobRun:
    run = replace(run, state=RunState.OVER, status=status, error=error, ended_at=context.now)
    tx.job_runs.save(run)
    job = tx.jobs.get(run.job)
    if job is not None:
        _remember(tx, job, run, None)
    return run


# --- the end ---------------------------------------------------------------------------------------


def settle(
    tx: Tx, slot: Slot, context: JobContext, outcomes: AnswerWriter
) -> tuple[JobRun, SessionId | None] | None:
    """What follows from a turn that has ended: the run as it is now, and the session that keeps its answer
    too. None while the turn has not ended, or when that was done before."""
    run = tx.job_runs.get(slot)
    if run is None or run.state is not RunState.TURN or run.turn is None:
        return None
    turn = tx.turns.get(run.turn)
    if turn is not None and turn.state.open:
        return None
    wraps, job = context.settings.cron.wrap_response, tx.jobs.get(run.job)
    entries = tx.journal.of_turn(run.turn)
    end = run_result(run, entries, wraps)
    last = entries[-1].record if entries else None
    spent = isinstance(last, Failed) and bool(last.budget)
    if job is not None and job.last_error == end.error and (spent or (run.notify_only and end.error)):
        # People were told, of a budget also until when it is spent.
        end = replace(end, delivered="")
    goes_on = wraps and end.status is RunStatus.OK and job is not None and job.next_due is not None
    lanes = tuple(dict.fromkeys(lane_of(tx, to) for to in run.to))
    problem = job.last_delivery_error if job is not None and end.delivered else ""
    for place, to in enumerate(lanes if end.delivered else ()):
        footer = f"\n\n⚠️ {problem}" if problem else ""
        footer += how_to_stop(run, outcomes.capabilities(to).command_prefix) if goes_on else ""
        body = Body(text=end.delivered + footer)
        for row in outcomes.parts(ReplyPlace(to=to), body, turn=run.turn, segment=place):
            tx.outbox.add(row)
    status = RunStatus.ERROR if problem and not lanes else end.status
    error = end.error or problem
    over = replace(run, state=RunState.SETTLED, status=status, error=error, ended_at=context.now)
    run = replace(over, to=lanes)
    tx.job_runs.save(run)
    if job is None:
        return run, None
    _remember(tx, job, run, end.answer if end.status is RunStatus.OK else None)
    attached = job.attach_to_session or context.settings.cron.mirror_delivery
    home = None if job.origin is None else job.origin.address
    if not attached or not end.delivered or home is None:
        return run, None
    delivered_home = home in [real_place(tx, to) for to in run.to]
    return run, mirror(tx, home, end.delivered, context.now) if delivered_home else None


def stop_idle(tx: Tx, slot: Slot, context: JobContext) -> bool:
    """Stop a run in which nothing was written down for long; whether it was. A step is any record: words of
    the model, a tool that began or ended, also of a child."""
    run, limit = tx.job_runs.get(slot), context.settings.cron.timeout
    turn = None if run is None or run.turn is None or not limit else tx.turns.get(run.turn)
    if turn is None or turn.state not in (TurnState.RUNNING, TurnState.WAITING) or turn.stop is not None:
        return False
    last = last_step(tx, turn) or context.now
    if (context.now - last).total_seconds() <= limit:
        return False
    return stop_turn(tx, turn.id, f"nothing happened for {limit:g} seconds") is not None


def _remember(tx: Tx, job: Job, run: JobRun, answer: str | None) -> None:
    failed = run.status in (RunStatus.ERROR, RunStatus.STOPPED)
    output = job.last_output if answer is None else answer[:_KEPT_OUTPUT]
    tx.jobs.save(
        replace(
            job,
            last_run_at=run.began_at,
            last_status="error" if failed else "ok",
            last_error=run.error,
            last_output=output,
        )
    )


def file_written(tx: Tx, slot: Slot) -> None:
    run = tx.job_runs.get(slot)
    if run is not None and run.state is RunState.SETTLED:
        tx.job_runs.save(replace(run, state=RunState.OVER))
