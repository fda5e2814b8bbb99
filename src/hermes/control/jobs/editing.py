"""Jobs as people edit them: create, find, change, pause, run now, remove. The tool, `/cron`, the command line
and the API use the same functions; `JobDesk` adds what has to be checked outside of a transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta, tzinfo
from enum import StrEnum
from typing import Any

from msgspec import Struct

from hermes.control.jobs.runs import JobContext, delivered_to, plan_of, run_now
from hermes.control.jobs.schedule import EXAMPLES, Once, Schedule, read_schedule
from hermes.control.jobs.wording import title
from hermes.control.outbound.targets import LOCAL, ORIGIN
from hermes.control.people.standing import is_trusted
from hermes.control.sessions.submission import NotFound
from hermes.domain.chats.address import Source, SourceKind
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, JobId, new_job_id
from hermes.domain.models.spending import job_budget
from hermes.domain.ports.store import Store, Tx
from hermes.domain.ports.world import JobWorld
from hermes.domain.text import one_line, storable
from hermes.domain.turns.job import CatchUp, Job, JobRun, JobState, quiet_until
from hermes.domain.turns.session import owner_of
from hermes.domain.word import replace

LONGEST_NAME, LONGEST_PROMPT, MOST_TIMES = 200, 5000, 1_000_000
MOST_JOBS = 100
"""Of one stranger."""
_PAST = timedelta(seconds=120)


class JobSpec(Struct, frozen=True, kw_only=True):
    """What somebody says of a job; None is not said. `times` 0 means for ever."""

    schedule: str | None = None
    prompt: str | None = None
    name: str | None = None
    deliver: str | None = None
    times: int | None = None
    catch_up: str | None = None
    script: str | None = None
    no_agent: bool | None = None
    context_from: Sequence[str] | None = None
    model: str | None = None
    toolsets: Sequence[str] | None = None
    workdir: str | None = None
    skills: Sequence[str] | None = None
    attach_to_session: bool | None = None
    notify_only: bool | None = None
    quiet_hours: str | None = None
    budget: str | None = None


# --- units -----------------------------------------------------------------------------------------


def is_own(job: Job, source: Source | None) -> bool:
    """Whether a job is of who speaks here: it is theirs who made it. One that was made by nobody we know is
    the operator's, but for one from a chat in which one person is alone, or nobody has an id: that chat's."""
    made = job.origin
    if made is None or source is None:
        return False
    if made.person is not None:
        return owner_of(made) == owner_of(source)
    alone = source.kind is SourceKind.PRIVATE or source.person is None
    return alone and made.address == source.address


def list_jobs(tx: Tx, context: JobContext) -> list[Job]:
    """The jobs that are there for who asks."""
    return [job for job in tx.jobs.list() if context.sees(job)]


def find_job(tx: Tx, word: str, context: JobContext) -> Job:
    return pick_job(list_jobs(tx, context), word)


def pick_job(jobs: Sequence[Job], word: str) -> Job:
    """By id or name, or a beginning of either that only one job has."""
    word = word.strip()
    lower = word.casefold()
    exact = [job for job in jobs if job.id == word or job.name.casefold() == lower]
    begins = [job for job in jobs if job.id.startswith(lower) or title(job).casefold().startswith(lower)]
    found = exact or begins
    if not word or not found:
        raise NotFound(f"There is no job “{one_line(word, 60)}”.", hint="List them to see what there is.")
    if len(found) > 1:
        names = ", ".join(job.id for job in found[:5])
        raise UserError(f"“{one_line(word, 60)}” fits {len(found)} jobs.", hint=f"Use an id: {names}.")
    return found[0]


def create_job(tx: Tx, agent: AgentId, wish: JobSpec, origin: Source | None, context: JobContext) -> Job:
    if origin is not None and not is_trusted(origin, context.settings):
        _check_number(tx, origin)
    job = Job(
        id=new_job_id(),
        agent=agent,
        schedule="",
        prompt="",
        created_at=context.now,
        anchor=context.now,
        deliver_to=LOCAL,
        origin=origin,
    )
    with contextlib.suppress(UserError):
        if origin is not None and delivered_to(tx, ORIGIN, job, context)[0]:
            job = replace(job, deliver_to=ORIGIN)
    if not (wish.schedule or "").strip():
        raise UserError("A job needs a schedule.", hint=f"For example: {EXAMPLES}.")
    if wish.name is None and (wish.prompt or wish.script):
        wish = replace(wish, name=_free_name(tx, one_line(wish.prompt or wish.script or "", 50), context))
    return update_job(tx, job, wish, context)


class TooManyJobs(UserError):
    """Whoever asks has as many jobs as they may have."""


def _check_number(tx: Tx, origin: Source) -> None:
    """Behind an API key there is one stranger, in a chat each person is one."""
    key = origin.address.credential if origin.kind is SourceKind.API else None
    made = (
        job
        for job in tx.jobs.list()
        if is_own(job, origin) or (key and job.origin and job.origin.address.credential == key)
    )
    if sum(job.state is not JobState.COMPLETED for job in made) >= MOST_JOBS:
        raise TooManyJobs(f"There are {MOST_JOBS} jobs of yours already.", hint="Remove one first.")


class JobAction(StrEnum):
    """What can be done to a job besides changing it."""

    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    REMOVE = "remove"


def act_on_job(tx: Tx, job: Job, action: JobAction, context: JobContext) -> Job:
    """The job as it is afterwards."""
    match action:
        case JobAction.PAUSE:
            if job.state is not JobState.SCHEDULED:
                raise UserError(f"The job “{title(job)}” is {job.state.value}, so it cannot be paused.")
            job = replace(job, state=JobState.PAUSED, next_due=None, paused_at=context.now, paused_reason="")
            tx.jobs.save(job)
        case JobAction.RESUME:
            return _resume(tx, job, context)
        case JobAction.RUN:
            run_now(tx, job, context)
        case JobAction.REMOVE:
            tx.jobs.remove(job.id)
    return job


def _resume(tx: Tx, job: Job, context: JobContext) -> Job:
    """From its next time on; what passed while it was paused is not caught up with."""
    if job.state is JobState.SCHEDULED:
        raise UserError(f"The job “{title(job)}” is not paused.")
    following = plan_of(job, context.zone).after(context.now)
    if following is None or (job.times is not None and job.completed >= job.times):
        raise UserError(
            f"The job “{title(job)}” has no time left to run at.",
            hint="Give it a new schedule, or run it now.",
        )
    resumed = replace(job, state=JobState.SCHEDULED, next_due=following, paused_at=None, paused_reason="")
    tx.jobs.save(resumed)
    return resumed


def update_job(tx: Tx, job: Job, wish: JobSpec, context: JobContext) -> Job:
    """The job with what is wished, checked as a whole and stored."""
    plan: Schedule | None = None
    if job.moved_in and not is_trusted(context.by, context.settings):
        # What it says is no longer the operator's.
        job = replace(job, moved_in=False)
    if wish.schedule is not None:
        plan = read_schedule(wish.schedule, context.now, context.zone)
        job = _planned(job, plan, context)
    changes = {
        name: clean(value) for name, clean in _CLEANED.items() if (value := getattr(wish, name)) is not None
    }
    job = replace(
        job,
        prompt=_text("prompt", wish.prompt, LONGEST_PROMPT, job.prompt),
        name=_name(tx, job, wish.name, context),
        deliver_to=_deliver(tx, wish.deliver, job, context),
        context_from=(
            job.context_from
            if wish.context_from is None
            else tuple(find_job(tx, word, context).id for word in wish.context_from)
        ),
        **changes,
    )
    job = _repeated(job, wish.times, plan)
    if not job.prompt and not job.script:
        raise UserError("A job needs a prompt or a script.", hint="Say what is to be done.")
    if job.no_agent and job.notify_only:
        raise UserError("A job without the agent cannot speak through notify.", hint="Choose one of both.")
    if job.no_agent and not job.script:
        raise UserError(
            "A job without the agent needs a script.", hint="Name one of the home's scripts folder."
        )
    tx.jobs.save(job)
    return job


def _planned(job: Job, plan: Schedule, context: JobContext) -> Job:
    following = plan.after(context.now)
    if isinstance(plan, Once):
        if plan.at < context.now - _PAST:
            told = f"{plan.at.astimezone(context.zone):%Y-%m-%d %H:%M %Z}"
            raise UserError(f"{told} is in the past.", hint=f"For example: {EXAMPLES}.")
        following = plan.at
    state = JobState.PAUSED if job.state is JobState.PAUSED else JobState.SCHEDULED
    return replace(
        job,
        schedule=plan.text,
        anchor=context.now.replace(microsecond=0),
        state=state,
        next_due=None if state is JobState.PAUSED else following,
        last_error="",
    )


def _repeated(job: Job, times: int | None, plan: Schedule | None) -> Job:
    if plan is not None:
        # A new schedule is a new count.
        job = replace(
            job, completed=0, times=1 if isinstance(plan, Once) else None if times is None else job.times
        )
    if times is None:
        return job
    if not 0 <= times <= MOST_TIMES:
        raise UserError(f"A job runs from 1 to {MOST_TIMES:,} times, or for ever (0).")
    job = replace(job, times=times or None)
    over = job.times is not None and job.completed >= job.times
    return replace(job, state=JobState.COMPLETED, next_due=None) if over else job


def _text(what: str, text: str | None, most: int, before: str) -> str:
    if text is None:
        return before
    if len(text) > most:
        raise UserError(f"The {what} has {len(text):,} characters; {most:,} are the most.")
    return storable(text.strip())


def _name(tx: Tx, job: Job, wanted: str | None, context: JobContext) -> str:
    if wanted is None:
        return job.name
    name = one_line(_text("name", wanted, LONGEST_NAME, ""), LONGEST_NAME)
    if not name:
        raise UserError("A name needs at least one visible character.")
    others = (other for other in list_jobs(tx, context) if other.id != job.id)
    if any(other.name.casefold() == name.casefold() for other in others):
        raise UserError(f"Another job is called “{one_line(name, 60)}”.", hint="Choose another name.")
    return name


def _free_name(tx: Tx, name: str, context: JobContext) -> str:
    taken = {job.name.casefold() for job in list_jobs(tx, context)}
    number, free = 2, name
    while free.casefold() in taken:
        free, number = f"{name} ({number})", number + 1
    return free


def _deliver(tx: Tx, wanted: str | None, job: Job, context: JobContext) -> str:
    if wanted is None or not wanted.strip():
        return job.deliver_to
    _, problem = delivered_to(tx, wanted, job, context)
    if problem is not None:
        raise problem
    return wanted.strip()


def _catch_up(word: str) -> CatchUp:
    try:
        return CatchUp(word.strip().lower())
    except ValueError:
        raise UserError(
            f"“{one_line(word, 40)}” is no way to catch up.", hint="Known: once, skip, all."
        ) from None


def _hours(text: str) -> str:
    try:
        quiet_until(text)
    except ValueError:
        raise UserError(
            f"“{one_line(text, 40)}” are no quiet hours.",
            hint="Write 22:00-07:00, none for a job that has none, or nothing for those of the settings.",
        ) from None
    return text.strip()


def _budget(text: str) -> str:
    job_budget("", text)
    return text.strip()


_CLEANED: Mapping[str, Callable[[Any], Any]] = {
    "catch_up": _catch_up,
    "script": str.strip,
    "no_agent": bool,
    "model": lambda text: one_line(text, 200),
    "toolsets": tuple,
    "workdir": str.strip,
    "skills": tuple,
    "attach_to_session": bool,
    "notify_only": bool,
    "quiet_hours": _hours,
    "budget": _budget,
}
"""What is taken from a `JobSpec` as it is said, once it is cleaned."""


# --- the desk --------------------------------------------------------------------------------------


class JobDesk(Struct, frozen=True, kw_only=True):
    """The jobs of one agent, for whoever is outside of a transaction, as far as its `rules` let them see any.
    `changed` is called after each change."""

    agent: AgentId
    store: Store
    clock: Clock
    rules: JobContext
    world: Callable[[], Awaitable[JobWorld | None]]
    """Where its scripts and folders are."""
    check_toolsets: Callable[[Sequence[str]], Awaitable[None]]
    """A `UserError` for a name that means nothing to the agent."""
    changed: Callable[[], None] = lambda: None

    @property
    def zone(self) -> tzinfo:
        return self.rules.zone

    @property
    def context(self) -> JobContext:
        return replace(self.rules, now=self.clock.now())

    def seen_by(self, sees: Callable[[Job], bool], by: Source | None = None) -> JobDesk:
        return replace(self, rules=replace(self.rules, sees=sees, by=by))

    async def all(self) -> list[Job]:
        return await self.store.read(lambda tx: list_jobs(tx, self.context))

    async def get(self, ident: JobId) -> Job | None:
        job = await self.store.read(lambda tx: tx.jobs.get(ident))
        return job if job is not None and self.rules.sees(job) else None

    async def find(self, word: str) -> Job:
        return await self.store.read(lambda tx: self._find(tx, word))

    async def runs(self, word: str, limit: int) -> list[JobRun]:
        """Those of one job; without a word those of all, which is for who may see all."""

        def look(tx: Tx) -> list[JobRun]:
            return tx.job_runs.of(self._find(tx, word).id if word else None, limit)

        return await self.store.read(look)

    async def create(self, wish: JobSpec, origin: Source | None) -> Job:
        await self._check(wish, origin)
        return await self._change(lambda tx: create_job(tx, self.agent, wish, origin, self.context))

    async def update(self, word: str, wish: JobSpec) -> Job:
        if wish.script or wish.workdir or wish.model or wish.toolsets:
            await self._check(wish, (await self.find(word)).origin)
        return await self._change(lambda tx: update_job(tx, self._find(tx, word), wish, self.context))

    async def act(self, word: str, action: JobAction) -> Job:
        return await self._change(lambda tx: act_on_job(tx, self._find(tx, word), action, self.context))

    def _find(self, tx: Tx, word: str) -> Job:
        return find_job(tx, word, self.context)

    async def _check(self, wish: JobSpec, maker: Source | None) -> None:
        # What an API key may name is checked where its requests are.
        chosen = wish.model and maker is not None and maker.kind is not SourceKind.API
        if chosen and not is_trusted(maker, self.context.settings):
            raise UserError(
                "Only the owner and admins choose the model of a job.", hint="Leave the model out."
            )
        if wish.toolsets:
            await self.check_toolsets(wish.toolsets)
        world = await self.world() if wish.script or wish.workdir else None
        if world is not None:
            await world.check(wish.script or "", wish.workdir or "", maker)

    async def _change(self, unit: Callable[[Tx], Job]) -> Job:
        job = await self.store.write(unit, first=True)
        self.changed()
        return job
