"""`hermes cron`: jobs of a home. A running gateway is asked through its socket, by the same requests as over
HTTP; where none runs, the same operations work on the store itself."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hermes.admin.gateway import hold_home, home_holder, logging_on, loop_factory
from hermes.admin.home import agents_of, open_home
from hermes.admin.output import Commands, Console
from hermes.admin.running import Running
from hermes.app.jobs import HomeJobs, wish_of
from hermes.control.job_targets import named_targets
from hermes.control.job_words import job_facts, run_facts
from hermes.control.jobs import JobDesk
from hermes.domain.clock import SystemClock, zone_named
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.text import one_line
from hermes.state.aliases import ChannelAliases
from hermes.state.profiles import agent_home, prepare_home
from hermes.state.settings import Loaded, load_settings
from hermes.state.sqlite import SqliteStore

Facts = dict[str, Any]
T = TypeVar("T")
_PATIENCE = 600.0
_FIELDS = [
    "schedule",
    "prompt",
    "name",
    "deliver",
    "repeat",
    "catch_up",
    "script",
    "no_agent",
    "context_from",
    "model",
    "toolsets",
    "workdir",
    "skills",
    "attach_to_session",
]


# --- the command line ------------------------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    command = Commands(parser).add
    listed = command("list", "List the jobs that will run.", json=True)
    listed.add_argument("--all", action="store_true", help="the paused and the completed ones too")
    made = command("create", "Make a job.")
    made.add_argument("schedule", help="30m, 'every 2h', '0 9 * * MON-FRI' or 2026-05-01T09:00")
    made.add_argument("prompt", nargs="?", help="what the agent is to do")
    made.add_argument("--agent", metavar="NAME", help="whose job it is (main)")
    _options(made)
    edited = command("edit", "Change a job.")
    edited.add_argument("job", help="its id or name")
    edited.add_argument("--schedule", help="when it runs")
    edited.add_argument("--prompt", help="what the agent is to do")
    _options(edited)
    for name, told in _ACTS.items():
        command(name, told[0]).add_argument("job", help="its id or name")
    command("status", "Whether anything runs the jobs, and what comes next.")
    ran = command("runs", "What became of the runs.", json=True)
    ran.add_argument("job", nargs="?", default="", help="only of this job")
    ran.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="how many (20)")
    command("tick", "Run what is due now, wait for it, and leave. For homes without a gateway.")


_ACTS = {
    "pause": ("Let a job rest.", "Paused"),
    "resume": ("Let a job go on from its next time.", "Resumed"),
    "run": ("Run a job now.", "Begun"),
    "remove": ("Remove a job.", "Removed"),
}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="what it is called")
    parser.add_argument("--deliver", metavar="WHERE", help="origin, local, a platform, or platform:chat")
    parser.add_argument("--repeat", type=int, metavar="N", help="how often in all (0 = for ever)")
    parser.add_argument("--catch-up", choices=("once", "skip", "all"), help="what to do with missed times")
    parser.add_argument(
        "--skill", dest="skills", action="append", metavar="NAME", help="a skill (repeatable)"
    )
    parser.add_argument("--script", metavar="FILE", help="in the home's scripts folder; runs first")
    parser.add_argument(
        "--no-agent", action="store_true", default=None, help="the script's output is the message"
    )
    parser.add_argument("--context-from", action="append", metavar="JOB", help="tell it what this job said")
    parser.add_argument("--model", metavar="NAME", help="the model for it")
    parser.add_argument(
        "--toolset", dest="toolsets", action="append", metavar="NAME", help="only this toolset"
    )
    parser.add_argument("--workdir", metavar="FOLDER", help="where its commands start")
    parser.add_argument(
        "--attach-to-session",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="note what it sends in the session of its chat, so that an answer is understood",
    )


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    prepare_home(home)
    loaded = load_settings(home, environ)
    place = Place(home=home, environ=environ, loaded=loaded)
    if asked.command == "tick":
        return _tick(place, asked, console)
    if asked.command == "status":
        return _status(place, console)
    place.ask(lambda jobs: _perform(jobs, asked, console))
    return 0


# --- who is asked ----------------------------------------------------------------------------------


class Asking(Protocol):
    """Jobs as facts, wherever they are kept."""

    async def all(self) -> list[Facts]: ...

    async def create(self, agent: str, fields: Facts) -> Facts: ...

    async def update(self, job: str, fields: Facts) -> Facts: ...

    async def act(self, job: str, action: str) -> None: ...

    async def runs(self, job: str, limit: int) -> list[Facts]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A home, and how its jobs are reached."""

    home: Path
    environ: Mapping[str, str]
    loaded: Loaded

    def ask(self, work: Callable[[Asking], Coroutine[Any, Any, T]]) -> T:
        found = open_home(self.home, self.environ, "hermes cron", creating=True)
        if isinstance(found, Running):
            return asyncio.run(work(Served(running=found)))
        return found.work(lambda store: work(Stored(place=self, store=store)))

    def desk(self, store: SqliteStore, agent: AgentId) -> JobDesk:
        settings = self.loaded.settings
        home = agent_home(self.home, agent, settings)
        return JobDesk(
            agent=agent,
            store=store.scoped(agent),
            clock=SystemClock(),
            zone=zone_named(settings.timezone),
            settings=settings,
            world=HomeJobs(home, self.environ, None),
            targets=named_targets(ChannelAliases(self.home).read),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The jobs of a home that no gateway has."""

    place: Place
    store: SqliteStore

    @property
    def _desks(self) -> list[JobDesk]:
        return [self.place.desk(self.store, agent) for agent in agents_of(self.place.loaded.settings)]

    async def all(self) -> list[Facts]:
        return [job_facts(job, desk.zone) for desk in self._desks for job in await desk.all()]

    async def create(self, agent: str, fields: Facts) -> Facts:
        wanted = agent or MAIN_AGENT
        desk = next((desk for desk in self._desks if desk.agent == wanted), None)
        if desk is None:
            raise UserError(f"There is no agent “{one_line(wanted, 60)}”.")
        return job_facts(await desk.create(wish_of(fields), None), desk.zone)

    async def update(self, job: str, fields: Facts) -> Facts:
        desk = await self._desk_of(job)
        return job_facts(await desk.update(job, wish_of(fields)), desk.zone)

    async def act(self, job: str, action: str) -> None:
        desk = await self._desk_of(job)
        acts = {"pause": desk.pause, "resume": desk.resume, "run": desk.run, "remove": desk.remove}
        await acts[action](job)

    async def runs(self, job: str, limit: int) -> list[Facts]:
        desks = [await self._desk_of(job)] if job else self._desks
        return [run_facts(run, desk.zone) for desk in desks for run in await desk.runs(job, limit)]

    async def _desk_of(self, job: str) -> JobDesk:
        for desk in self._desks:
            if any(one.id == job for one in await desk.all()):
                return desk
        raise UserError(f"There is no job “{one_line(job, 60)}” any more.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The jobs of a running gateway, asked for through its socket."""

    running: Running

    async def all(self) -> list[Facts]:
        jobs: list[Facts] = self.running.get("/api/jobs", Facts, include_disabled="true")["jobs"]
        return jobs

    async def create(self, agent: str, fields: Facts) -> Facts:
        body = {**_body(fields), **({"agent": agent} if agent else {})}
        job: Facts = self.running.post("/api/jobs", Facts, body)["job"]
        return job

    async def update(self, job: str, fields: Facts) -> Facts:
        changed: Facts = self.running.patch(f"/api/jobs/{job}", Facts, _body(fields))["job"]
        return changed

    async def act(self, job: str, action: str) -> None:
        if action == "remove":
            self.running.delete(f"/api/jobs/{job}", Facts)
        else:
            self.running.post(f"/api/jobs/{job}/{action}", Facts, {})

    async def runs(self, job: str, limit: int) -> list[Facts]:
        wanted = [job] if job else [one["id"] for one in await self.all()]
        found: list[Facts] = []
        for one in wanted:
            found += self.running.get(f"/api/jobs/{one}/runs", Facts, limit=limit)["runs"]
        return sorted(found, key=lambda run: str(run["due"]), reverse=True)[:limit]


def _body(fields: Facts) -> Facts:
    """What is said, by the names of the API."""
    said = {name: value for name, value in fields.items() if value is not None}
    if "toolsets" in said:
        said["enabled_toolsets"] = said.pop("toolsets")
    return said


# --- the commands ----------------------------------------------------------------------------------


async def _perform(jobs: Asking, asked: argparse.Namespace, console: Console) -> None:
    match asked.command:
        case "list":
            _print_jobs(await jobs.all(), asked, console)
        case "create":
            made = await jobs.create(asked.agent or "", _said(asked))
            console.line(f"{made['id']} “{made['name']}”: {made['schedule_display']}, next {_when(made)}.")
        case "edit":
            job = _pick(await jobs.all(), asked.job)
            changed = await jobs.update(job["id"], _said(asked))
            console.line(
                f"Changed: “{changed['name']}”, {changed['schedule_display']}, next {_when(changed)}."
            )
        case "runs":
            job_id = _pick(await jobs.all(), asked.job)["id"] if asked.job else ""
            _print_runs(await jobs.runs(job_id, asked.limit), asked, console)
        case action:
            job = _pick(await jobs.all(), asked.job)
            await jobs.act(job["id"], action)
            console.line(f"{_ACTS[action][1]}: “{job['name']}”.")


def _said(asked: argparse.Namespace) -> Facts:
    return {name: getattr(asked, name, None) for name in _FIELDS}


def _pick(jobs: list[Facts], word: str) -> Facts:
    lower = word.casefold()
    exact = [job for job in jobs if job["id"] == word or job["name"].casefold() == lower]
    found = exact or [
        job for job in jobs if job["id"].startswith(lower) or job["name"].casefold().startswith(lower)
    ]
    if not word.strip() or not found:
        raise UserError(
            f"There is no job “{one_line(word, 60)}”.", hint="`hermes cron list --all` shows them."
        )
    if len(found) > 1:
        ids = ", ".join(job["id"] for job in found[:5])
        raise UserError(f"“{one_line(word, 60)}” fits {len(found)} jobs.", hint=f"Use an id: {ids}")
    return found[0]


def _when(job: Facts) -> str:
    return str(job["next_run_at"] or job["state"])


def _print_jobs(jobs: list[Facts], asked: argparse.Namespace, console: Console) -> None:
    shown = [job for job in jobs if asked.all or job["state"] == "scheduled"]
    if asked.json:
        console.json(shown)
        return
    if not shown:
        console.line("No jobs." if asked.all or not jobs else "No job will run; --all shows the others.")
        return
    rows = [
        [
            job["id"],
            job["schedule_display"],
            _when(job),
            job["last_status"] or "–",
            job["deliver"],
            job["name"],
        ]
        for job in shown
    ]
    console.table(["JOB", "SCHEDULE", "NEXT", "LAST", "TO", "NAME"], rows, whole=2)


def _print_runs(runs: list[Facts], asked: argparse.Namespace, console: Console) -> None:
    if asked.json:
        console.json(runs)
        return
    if not runs:
        console.line("Nothing has run yet.")
        return
    rows = [
        [run["due"], run["job_id"], run["status"] or run["state"], run["name"], run["error"] or ""]
        for run in runs
    ]
    console.table(["PLANNED FOR", "JOB", "STATUS", "NAME", "ERROR"], rows, whole=2)


def _status(place: Place, console: Console) -> int:
    served = home_holder(place.home) is not None
    jobs = [job for job in place.ask(lambda jobs: jobs.all()) if job["state"] == "scheduled"]
    following = min((str(job["next_run_at"]) for job in jobs), default="nothing planned")
    who = "the gateway" if served else "nothing: no gateway runs (hermes gateway run, or hermes cron tick)"
    console.facts([("Run by", who), ("Jobs", str(len(jobs))), ("Next", following)])
    return 0


# --- tick ------------------------------------------------------------------------------------------


class _Quiet:
    """Nobody is told how the gateway of a tick is."""

    def __init__(self) -> None:
        self.running = asyncio.Event()

    def tell(self, state: str, **facts: Any) -> None:
        if state == "running":
            self.running.set()

    def tell_platform(self, account: str, state: Any, why: str) -> None:
        """Of no interest here."""


def _tick(place: Place, asked: argparse.Namespace, console: Console) -> int:
    if home_holder(place.home) is not None:
        raise UserError("The gateway that runs on this home ticks by itself.", hint="See: hermes cron status")
    from hermes.app import App

    with hold_home(place.home, "hermes cron tick"):
        app = App(place.home, place.environ, version=asked.version)
        level = app.loaded.settings.logging.level
        with (
            logging_on(place.home, app.loaded.secrets, level),
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            ended = runner.run(_tick_once(app))
    console.line(f"{ended} {'run' if ended == 1 else 'runs'} ended." if ended else "Nothing was due.")
    return 0


async def _tick_once(app: Any) -> int:
    """A gateway for as long as jobs are due or running, and their answers are on their way."""
    watch = _Quiet()
    began = SystemClock().now()
    living = asyncio.create_task(app.live(watch), name="gateway")
    ready = asyncio.create_task(watch.running.wait(), name="ready")
    await asyncio.wait((living, ready), return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    ended = 0
    if not living.done():
        done = asyncio.create_task(_until_done(app), name="tick")
        await asyncio.wait((done, living), timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        for agent in agents_of(app.loaded.settings):
            runs = await app.gateway.jobs(agent).runs("", 1000)
            ended += sum(run.ended_at is not None and run.ended_at >= began for run in runs)
        app.stop()
    await living
    return ended


async def _until_done(app: Any) -> None:
    while await _busy(app):
        await SystemClock().sleep(0.05)


async def _busy(app: Any) -> bool:
    now = SystemClock().now()
    for agent in agents_of(app.loaded.settings):
        store = app.store.scoped(agent)
        if await store.read(lambda tx: bool(tx.jobs.due(now).jobs or tx.job_runs.open())):
            return True
    return False
