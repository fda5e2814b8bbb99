"""`hermes cron`: the jobs of a home, and running what is due without a gateway."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any

from hermes.admin.gateway import hold_home, home_holder, logging_on, loop_factory
from hermes.admin.home import Place, agents_of, open_home
from hermes.admin.output import Commands, Console
from hermes.control.jobs import JobWish
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.state.profiles import prepare_home

Facts = dict[str, Any]
_PATIENCE = 600.0


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
    parser.add_argument(
        "--repeat", dest="times", type=int, metavar="N", help="how often in all (0 = for ever)"
    )
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
    if asked.command == "tick":
        return _tick(asked, home, environ, console)
    place = open_home(home, environ, "hermes cron", creating=True)
    if asked.command == "runs":
        job = _pick(place, asked.job)["id"] if asked.job else ""
        _print_runs(place.get("/control/runs", list[Facts], job=job, limit=asked.limit), asked, console)
    elif asked.command in _ACTS:
        job = _pick(place, asked.job)
        place.post("/control/jobs/act", NoneType, {"job": job["id"], "act": asked.command})
        console.line(f"{_ACTS[asked.command][1]}: “{job['name']}”.")
    else:
        _COMMANDS[asked.command](asked, place, console)
    return 0


# --- the commands ----------------------------------------------------------------------------------


def _create(asked: argparse.Namespace, place: Place, console: Console) -> None:
    made = place.post("/control/jobs", Facts, {"agent": asked.agent or "", "wish": _said(asked)})
    console.line(f"{made['id']} “{made['name']}”: {made['schedule_display']}, next {_when(made)}.")


def _edit(asked: argparse.Namespace, place: Place, console: Console) -> None:
    job = _pick(place, asked.job)["id"]
    changed = place.post("/control/jobs", Facts, {"job": job, "wish": _said(asked)})
    console.line(f"Changed: “{changed['name']}”, {changed['schedule_display']}, next {_when(changed)}.")


def _said(asked: argparse.Namespace) -> JobWish:
    return JobWish(**{field.name: getattr(asked, field.name, None) for field in fields(JobWish)})


def _all(place: Place) -> list[Facts]:
    return place.get("/control/jobs", list[Facts])


def _pick(place: Place, word: str) -> Facts:
    jobs, lower = _all(place), word.casefold()
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


def _list(asked: argparse.Namespace, place: Place, console: Console) -> None:
    jobs = _all(place)
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


def _status(asked: argparse.Namespace, place: Place, console: Console) -> None:
    jobs = [job for job in _all(place) if job["state"] == "scheduled"]
    following = min((str(job["next_run_at"]) for job in jobs), default="nothing planned")
    nothing = "nothing: no gateway runs (hermes gateway run, or hermes cron tick)"
    who = "the gateway" if place.running else nothing
    console.facts([("Run by", who), ("Jobs", str(len(jobs))), ("Next", following)])


_COMMANDS: dict[str, Callable[[argparse.Namespace, Place, Console], None]] = {
    "list": _list,
    "create": _create,
    "edit": _edit,
    "status": _status,
}


# --- tick ------------------------------------------------------------------------------------------


def _tick(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    prepare_home(home)
    if home_holder(home) is not None:
        raise UserError("The gateway that runs on this home ticks by itself.", hint="See: hermes cron status")
    from hermes.app import App

    with hold_home(home, "hermes cron tick"):
        app = App(home, environ, version=asked.version)
        level = app.loaded.settings.logging.level
        with (
            logging_on(home, app.loaded.secrets, level),
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            ended = runner.run(_tick_once(app))
    console.line(f"{ended} {'run' if ended == 1 else 'runs'} ended." if ended else "Nothing was due.")
    return 0


async def _tick_once(app: Any) -> int:
    """A gateway for as long as jobs are due or running, and their answers are on their way."""
    from hermes.admin.talk import Ready

    watch = Ready()
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
