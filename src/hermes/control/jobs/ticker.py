"""The ticker: it begins runs when they are due, takes them through script and turn, and settles them.

Its life: it looks for what is due and what is unfinished, does it, and sleeps until the next slot, a minute
at most; whoever changes a job, and a run that ends, wakes it. All it knows is in the store: a new life goes
on where the last one was cut off. Of several gateways on one store the one with the lease ticks; were there
two, the claim of a slot would still be one. A machine that slept, or whose clock was set ahead, finds missed
slots at the next look; a clock that was set back has the jobs planned again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import partial

from hermes.control.core import AgentUnavailable, GatewayCore
from hermes.control.jobs import runs
from hermes.control.jobs.editing import JobDesk
from hermes.control.jobs.wording import INTERRUPTED, output_name, output_text
from hermes.control.outbound.answers import AnswerWriter
from hermes.control.outbound.targets import ResolveTargets
from hermes.control.workers import do_each, end_tasks, take_each, wait_for_ring
from hermes.domain.chats.address import Address
from hermes.domain.clock import zone_named
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import EVERY_AGENT, AgentId, SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.ports.world import JobWorld
from hermes.domain.turns.gateway_event import CommandRun, JobRunBegan, JobRunEnded, TurnEnded
from hermes.domain.turns.job import DueJobs, Job, JobRun, RunState, Slot
from hermes.domain.turns.turn import TurnState
from hermes.domain.word import replace

log = logging.getLogger("hermes.cron")
LONGEST_SLEEP = 60.0
LEASE = "cron"
LEASE_SECONDS = 3 * LONGEST_SLEEP
_SET_BACK = -2.0
_RunKey = tuple[AgentId, Slot]


@dataclass(kw_only=True)
class Cron:
    """`outcomes` turns what a run said into messages, `targets` finds the places they go to. `owner` is the
    name that holds the lease; `wake_session` and `wake_lane` wake who has work after a commit."""

    core: GatewayCore
    owner: str
    outcomes: AnswerWriter
    targets: ResolveTargets
    wake_session: Callable[[AgentId, SessionId], None]
    wake_lane: Callable[[Address], None]

    def __post_init__(self) -> None:
        self._bell = asyncio.Event()
        self._working: dict[_RunKey, asyncio.Task[None]] = {}
        self._looked: tuple[datetime, float] | None = None

    def _zone(self, agent: AgentId) -> tzinfo:
        return zone_named(self.core.live.of(agent).timezone)

    # --- what others may do ---

    @property
    def ticked_at(self) -> datetime | None:
        """When it last looked for what is due."""
        return None if self._looked is None else self._looked[0]

    @property
    def busy_agents(self) -> set[AgentId]:
        return {agent for agent, _ in self._working}

    def ring(self) -> None:
        """A job was changed, or a run has ended."""
        self._bell.set()

    def heard(self, event: TurnEnded | CommandRun) -> None:
        """The turn of a run has ended, or a command may have changed a job."""
        self.ring()

    def desk(self, agent: AgentId) -> JobDesk:
        return JobDesk(
            agent=agent,
            store=self._store(agent),
            clock=self.core.clock,
            rules=self._context(agent),
            world=partial(self._world, agent),
            check_toolsets=partial(self._check_toolsets, agent),
            changed=self.ring,
        )

    # --- its life ---

    async def live(self) -> None:
        while True:
            self._bell.clear()
            await wait_for_ring(self._bell, self.core.clock, await self.tick(), "cron")

    async def close(self) -> None:
        """What is under way in scripts is cut off; what has ended is settled."""
        await end_tasks(self._working.values())
        await self.core.loops.attempt("cron", self._settle_ended, "stop")
        with contextlib.suppress(HermesError):
            await self.core.store.write(lambda tx: tx.leases.release(LEASE, self.owner))

    async def _settle_ended(self) -> None:
        running = [(agent, run) for agent, run in (await self._look())[1] if run.state is RunState.TURN]
        await take_each(running, lambda each: self._settle(*each))

    async def tick(self) -> float:
        """Do what is due now; the seconds until there may be more. Whatever breaks is raised when all else
        is done: a run that cannot be settled stops neither other jobs nor other agents."""
        now = self.core.clock.now()
        following: list[datetime] = []
        await do_each(partial(self._mind_the_clock, now), partial(self._take_due, now, following))
        now = self.core.clock.now()
        ahead = [max(0.0, (at - now).total_seconds()) for at in following]
        return min([LONGEST_SLEEP, *ahead])

    async def _take_due(self, now: datetime, following: list[datetime]) -> None:
        """Go on with the runs of all agents and begin what is due; `following` gets the next slot."""
        due, unfinished = await self._look()
        if (due.jobs or unfinished) and not await self._leads(now):
            return
        running = Counter(agent for agent, _ in unfinished)
        await do_each(
            partial(take_each, unfinished, lambda each: self._go_on(*each)),
            partial(take_each, due.jobs, partial(self._fire, running)),
        )
        if due.jobs:
            due, _ = await self._look()
        following += [due.next] if due.next is not None else []

    async def _look(self) -> tuple[DueJobs, list[tuple[AgentId, JobRun]]]:
        """What is due and what is unfinished, of all agents that there are."""
        now, agents = self.core.clock.now(), list(self.core.agents)
        due, unfinished = await self._store(EVERY_AGENT).read(
            lambda tx: (tx.jobs.due(now, agents), tx.job_runs.open())
        )
        return due, [(agent, run) for agent, run in unfinished if agent in self.core.agents]

    async def _leads(self, now: datetime) -> bool:
        store, owner = self.core.store, self.owner
        return await store.write(lambda tx: tx.leases.take(LEASE, owner, now, LEASE_SECONDS)) is not None

    async def _mind_the_clock(self, now: datetime) -> None:
        elapsed = self.core.clock.monotonic()
        before, self._looked = self._looked, (now, elapsed)
        if before is not None:
            passed = timedelta(seconds=elapsed - before[1])
            if (now - before[0] - passed).total_seconds() > _SET_BACK:
                return
            # What came due since the last look, on the clock as it is now, was never planned.
            now -= passed
        wrong = await self._store(EVERY_AGENT).read(partial(runs.planned_wrong, now=now, zone=self._zone))
        await take_each({job.agent for job in wrong}, partial(self._plan_again, now))

    async def _plan_again(self, now: datetime, agent: AgentId) -> None:
        context = replace(self._context(agent), now=now)
        changed = await self._store(agent).write(partial(runs.plan_again, context=context))
        log.info("cron.planned_again agent=%s jobs=%d", agent, changed)

    # --- beginning ---

    async def _fire(self, running: Counter[AgentId], job: Job) -> None:
        """Begin what is due, if its agent has room beside what is `running`."""
        most = self.core.live.now.cron.max_parallel_jobs
        if most and running[job.agent] >= most:
            return
        unit = partial(runs.fire, wanted=job.id, context=self._context(job.agent))
        run = await self._store(job.agent).write(unit)
        if run is not None:
            running[job.agent] += 1
            log.info("cron.run job=%s due=%s", run.job, run.due.isoformat())
            self.core.events.emit(JobRunBegan(agent=job.agent, job=run.job, due=run.due))
            await self._go_on(job.agent, run)

    # --- going on ---

    async def _go_on(self, agent: AgentId, run: JobRun) -> None:
        key = (agent, run.slot)
        if key in self._working:
            return
        match run.state:
            case RunState.CLAIMED:
                task = asyncio.create_task(self._prepare(agent, run), name=f"cron {run.job}")
                self._working[key] = task
                task.add_done_callback(partial(self._done, key))
            case RunState.SCRIPT:
                context = self._context(agent)
                unit = partial(runs.begin_job_turn, slot=run.slot, context=context, failure=INTERRUPTED)
                self._begun(agent, await self._store(agent).write(unit))
            case RunState.TURN:
                await self._settle(agent, run)
            case RunState.SETTLED:
                await self._write_file(agent, run)
            case RunState.OVER:
                pass

    def _done(self, key: _RunKey, task: asyncio.Task[None]) -> None:
        self._working.pop(key, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # It is looked at again with the next tick, not at once: it may break again.
            self.core.loops.note("cron", error, f"job {key[1].job}")
            return
        self.core.loops.clear("cron", f"job {key[1].job}")
        self.ring()

    async def _prepare(self, agent: AgentId, run: JobRun) -> None:
        """What has to happen before the turn: the folder, the script, the skills."""
        store = self._store(agent)
        job = await store.write(lambda tx: runs.start_script(tx, run.slot))
        if job is None:
            return
        report, failure, folder, skills = None, "", "", ""
        try:
            runtime = await self.core.agents.get(agent)
            world = runtime.jobs if job.script or job.workdir else None
            if world is None and (job.script or job.workdir):
                raise UserError("Jobs with scripts or folders cannot be run here.")
            if world is not None:
                await world.check(job.script, job.workdir, job.origin)
            if job.skills and runtime.skills is not None:
                skills = await runtime.skills.load(job.skills, job.origin, runs.session_name(run))
            if world is not None and job.workdir:
                folder = await world.enter(SessionId(runs.session_name(run)), job.workdir, job.origin)
            if world is not None and job.script:
                seconds = self.core.live.now.cron.script_timeout
                report = await world.run_script(job.script, job.workdir, seconds)
        except HermesError as error:
            failure = str(error)
        begin = partial(
            runs.begin_job_turn,
            slot=run.slot,
            context=self._context(agent),
            report=report,
            failure=failure,
            folder=folder,
            skills=skills,
        )
        self._begun(agent, await store.write(begin))

    def _begun(self, agent: AgentId, run: JobRun | None) -> None:
        if run is not None and run.session is not None:
            self.wake_session(agent, run.session)

    # --- ending ---

    async def _settle(self, agent: AgentId, run: JobRun) -> None:
        def look(tx: Tx) -> TurnState | None:
            turn = None if run.turn is None else tx.turns.get(run.turn)
            return None if turn is None else turn.state

        store, context = self._store(agent), self._context(agent)
        state = await store.read(look)
        if state is not None and state.open:
            if state is TurnState.ACCEPTED or await store.write(
                lambda tx: runs.stop_idle(tx, run.slot, context)
            ):
                self._begun(agent, run)
            return
        settled = await store.write(lambda tx: runs.settle(tx, run.slot, context, self.outcomes))
        if settled is None:
            return
        run, mirrored = settled
        log.info("cron.ended job=%s status=%s", run.job, run.status.value)
        self.core.events.emit(JobRunEnded(agent=agent, job=run.job, due=run.due, status=run.status.value))
        for to in run.to:
            self.wake_lane(to)
        if mirrored is not None:
            self.wake_session(agent, mirrored)
        await self._write_file(agent, run)

    async def _write_file(self, agent: AgentId, run: JobRun) -> None:
        """The run's file, outside of any transaction; a run without its file gets it at the next look. An
        agent that cannot be built keeps none."""
        store, turn, settings = self._store(agent), run.turn, self.core.live.now
        try:
            world = await self._world(agent)
        except AgentUnavailable:
            world = None
        entries = [] if turn is None else await store.read(lambda tx: tx.journal.of_turn(turn))
        if world is not None:
            zone = self._zone(agent)
            text, name = output_text(run, entries, zone), output_name(run, zone)
            try:
                await world.keep_output(run.job, name, text, settings.cron.output_retention)
            except UserError as error:
                log.warning("cron.no_file job=%s why=%s", run.job, error)
                return
        await store.write(lambda tx: runs.file_written(tx, run.slot))
        # Slots that came due meanwhile may run now.
        self.ring()

    # --- small things ---

    def _store(self, agent: AgentId) -> Store:
        return self.core.store.scoped(agent)

    async def _world(self, agent: AgentId) -> JobWorld | None:
        return (await self.core.agents.get(agent)).jobs

    async def _check_toolsets(self, agent: AgentId, names: Sequence[str]) -> None:
        (await self.core.agents.get(agent)).toolbox.check_names(names)

    def _context(self, agent: AgentId) -> runs.JobContext:
        now, settings = self.core.clock.now(), self.core.live.of(agent)
        return runs.JobContext(now=now, zone=self._zone(agent), settings=settings, targets=self.targets)
