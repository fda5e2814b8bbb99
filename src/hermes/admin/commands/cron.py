"""`hermes cron`: the jobs of a home, and running what is due without a gateway."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from hermes.admin.process.home_files import home_holder
from hermes.admin.process.run import embed
from hermes.admin.shell.changing import load
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.home import HomeAccess, agents_of, open_home
from hermes.admin.shell.output import Column, dash
from hermes.control.jobs.editing import JobSpec
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.word import field_names
from hermes.entry.desk import act_on_job, list_jobs, list_runs, save_job
from hermes.state.home.homes import prepare_home

if TYPE_CHECKING:
    from hermes.app.app import App

Facts = dict[str, Any]
_PATIENCE = 600.0
_GONE = "never: the agent {agent} is gone"


# --- the command line ------------------------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("list", "List the scheduled jobs.", _list, JSON | {"--all": "paused and completed jobs too"})
    _options(add("create", "Create a job.", _create, _NEW | JSON))
    job = {"job": "its id or name"}
    edited = add("edit", "Change a job.", _edit, job)
    edited.add_argument("--schedule", help="when it runs")
    edited.add_argument("--prompt", help="what the agent should do")
    _options(edited)
    for name, summary, done in _ACTS:
        add(name, summary, _act, job).set_defaults(doing=name, done=done)
    add("status", "Show whether a gateway runs the jobs, and what runs next.", _status, JSON)
    ran = add("runs", "List the runs and their results.", _runs, JSON)
    declare(ran, {"[job]": "only runs of this job"}, default="")
    declare(ran, {"-n, --limit N": "how many (20)"}, type=int, default=20)
    add("tick", "Run the jobs that are due, wait for them, and exit. For homes without a gateway.", _tick)


_NEW = {
    "schedule": "30m, 'every 2h', '0 9 * * MON-FRI' or 2030-05-01T09:00",
    "[prompt]": "what the agent should do",
    "--agent NAME": "the agent that runs it (default: by the routes)",
}
_ACTS = (
    ("pause", "Pause a job.", "Paused"),
    ("resume", "Resume a paused job at its next scheduled time.", "Resumed"),
    ("run", "Run a job now.", "Started"),
    ("remove", "Remove a job.", "Removed"),
)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="its name")
    declare(parser, {"--deliver WHERE": "origin, local, a platform, or platform:chat"})
    declare(parser, {"--repeat N": "run this many times (0 = forever)"}, dest="times", type=int)
    parser.add_argument("--catch-up", choices=("once", "skip", "all"), help="what to do about missed runs")
    declare(parser, {"--skill NAME": "a skill (repeatable)"}, dest="skills", action="append")
    declare(parser, {"--script FILE": "a file in the home's scripts folder; it runs first"})
    without = "the script's output is the message"
    parser.add_argument("--no-agent", action="store_true", default=None, help=without)
    declare(parser, {"--context-from JOB": "include the last output of this job"}, action="append")
    declare(parser, {"--model NAME": "the model for it"})
    declare(parser, {"--toolset NAME": "only this toolset"}, dest="toolsets", action="append")
    declare(parser, {"--workdir FOLDER": "the folder in which its commands run"})
    declare(parser, {"--quiet-hours HOURS": "like 22:00-07:00: it does not run then (none = always)"})
    declare(parser, {"--budget AMOUNT": "what it may spend in a day: 0.50 (dollars), 20k tokens"})
    parser.add_argument(
        "--notify-only",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="people get only what the agent says through the tool notify",
    )
    parser.add_argument(
        "--attach-to-session",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="record what it sends in the session of its chat, so that replies are understood",
    )


def _open(command: CliCommand) -> HomeAccess:
    return open_home(command, creating=True)


# --- the commands ----------------------------------------------------------------------------------


def _create(command: CliCommand) -> None:
    home = _open(command)
    job = home.ask(save_job, agent=command.asked.agent or "", wish=_spec(command))
    if command.asked.json:
        command.console.json(job)
    else:
        command.console.line(f"{job['id']} “{job['name']}”: {job['schedule_display']}, next {_when(job)}.")
    if not home.running:
        command.console.note("No gateway is running, and jobs run only while one is: hermes gateway start")


def _edit(command: CliCommand) -> None:
    job = _open(command).ask(save_job, job=command.asked.job, wish=_spec(command))
    command.console.line(f"Changed: “{job['name']}”, {job['schedule_display']}, next {_when(job)}.")


def _act(command: CliCommand) -> None:
    place = _open(command)
    job = place.ask(act_on_job, job=command.asked.job, act=command.asked.doing)
    waits = command.asked.doing == "run" and not place.running
    command.console.line(f"{'Waiting' if waits else command.asked.done}: “{job['name']}”.")
    if waits:
        command.console.note("It starts with the gateway: hermes gateway start (or once: hermes cron tick)")


def _spec(command: CliCommand) -> JobSpec:
    return JobSpec(**{name: getattr(command.asked, name, None) for name in field_names(JobSpec)})


def _when(job: Facts) -> str:
    return str(job["next_run_at"] or job["state"])


def _list(command: CliCommand) -> None:
    jobs, everything = _open(command).ask(list_jobs), command.asked.all
    shown = [job for job in jobs if everything or job["state"] == "scheduled"]
    first = 'No jobs. Create one: hermes cron create "every 2h" "Look at the news"'
    there = agents_of(load(command).settings)
    none = (
        command.console.spell(first)
        if everything or not jobs
        else "No job is scheduled; --all shows the others."
    )
    columns = [
        Column("", "JOB", value=itemgetter("id")),
        Column("", "SCHEDULE", value=itemgetter("schedule_display")),
        Column("", "NEXT", value=lambda job: _when(job) if job["agent"] in there else _GONE.format(**job)),
        Column("", "LAST", dash, itemgetter("last_status")),
        Column("", "TO", value=itemgetter("deliver")),
        Column("", "NAME", value=itemgetter("name")),
    ]
    command.list(shown, columns, none=none, whole=2, wrap=lambda _: shown)


def _runs(command: CliCommand) -> None:
    place = _open(command)
    unfinished = "running" if place.running else "waiting"
    runs = place.ask(list_runs, job=command.asked.job, limit=command.asked.limit)
    columns = [
        Column("", "PLANNED FOR", value=itemgetter("due")),
        Column("", "JOB", value=itemgetter("job_id")),
        Column("", "STATUS", value=lambda run: run["status"] or unfinished),
        Column("", "NAME", value=itemgetter("name")),
        Column("", "ERROR", value=itemgetter("error")),
    ]
    command.list(runs, columns, none="No job has run yet.", whole=2, wrap=lambda _: runs)


def _status(command: CliCommand) -> None:
    place = _open(command)
    jobs = [job for job in place.ask(list_jobs) if job["state"] == "scheduled"]
    following = min((str(job["next_run_at"]) for job in jobs), default="nothing scheduled")
    nothing = command.console.spell(
        "nothing: no gateway is running (hermes gateway run, or hermes cron tick)"
    )
    who = "the gateway" if place.running else nothing
    if command.asked.json:
        first = min((str(job["next_run_at"]) for job in jobs), default=None)
        command.console.json({"running": place.running, "jobs": len(jobs), "next": first})
        return
    command.console.facts([("Run by", who), ("Jobs", str(len(jobs))), ("Next", following)])


# --- tick ------------------------------------------------------------------------------------------


def _tick(command: CliCommand) -> None:
    if home_holder(prepare_home(command.home)) is not None:
        raise UserError(
            "A gateway is running on this home, and it runs the jobs.", hint="See: hermes cron status"
        )
    from hermes.app.overrides import AppOverrides

    ended = embed(command, command.name, lambda: AppOverrides(boots=False), _tick_once)
    told = f"{ended} {'run' if ended == 1 else 'runs'} ended." if ended else "Nothing was due."
    command.console.line(told)


async def _tick_once(app: App) -> int:
    """A gateway for as long as jobs are due or running, and their answers are on their way."""
    began, ended = SystemClock().now(), 0
    async with app.running() as living:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while not living.done() and await _busy(app):
                    await SystemClock().sleep(0.05)
        for agent in agents_of(app.loaded.settings) if not living.done() else ():
            runs = await app.gateway.jobs(agent).runs("", 1000)
            ended += sum(run.ended_at is not None and run.ended_at >= began for run in runs)
    return ended


async def _busy(app: App) -> bool:
    now = SystemClock().now()
    for agent in agents_of(app.loaded.settings):
        store = app.store.scoped(agent)
        if await store.read(lambda tx: bool(tx.jobs.due(now).jobs or tx.job_runs.open())):
            return True
    return False
