"""`hermes batch`: many prompts on the gateway of this home, taken up again wherever they were cut off, and
their conversations as training samples."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from hermes.admin.batch.distributions import (
    EVERYTHING,
    Distribution,
    limit_to,
    read_distribution,
    spell_distribution,
)
from hermes.admin.batch.run_files import BatchManifest, RunFiles, list_runs, run_name
from hermes.admin.batch.runner import BatchProgress, BatchRunner
from hermes.admin.batch.samples import SAMPLES, export_run
from hermes.admin.process.spawning import GatewayFinder
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, UsageError, declare, number_to
from hermes.admin.shell.home import HomeAccess, open_home
from hermes.admin.shell.output import Column
from hermes.control.sessions.batches import MOST_ITEMS, ItemStanding
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.text import one_line
from hermes.domain.turns.turn import TurnState
from hermes.entry.batches import delete_items, item_sample, list_items
from hermes.entry.terminal.remote import GatewayConnection
from hermes.state.settings.loader import load_settings

_WORKERS = 4
_BAR = 30
_PATIENCE = 300.0
"""How long a gateway that is started again is waited for: a batch is in no hurry."""
_SOME_FAILED = 3


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    run = add("run", "Run each prompt of a JSONL file, or continue a run.", _run)
    declare(run, {"[file]": 'a line per item: {"prompt": "…", "cwd": "…"}; without it, --run is continued'})
    declare(run, {"--run NAME": "the run's name; the file's if you give none"})
    declare(run, {"-w, --workers N": "items at the same time (4)"}, type=number_to(256), default=_WORKERS)
    declare(run, {"--max-samples N": "only the first N items"}, type=number_to(MOST_ITEMS))
    declare(
        run,
        {"-d, --distribution D": "toolsets by chance: a preset, or file=100,terminal=50"},
        default=EVERYTHING,
    )
    declare(
        run, {"-m, --model NAME": "the model, if not the agent's", "--agent ID": "the agent, if not main"}
    )
    add("list", "List the batch runs.", _list, JSON)
    named = {"run": "the run's name"}
    add("status", "Show how far a run is, and why items failed.", _status, named | JSON)
    export = add("export", "Write the conversations of a run as training samples.", _export, named | JSON)
    declare(export, {"-o, --output FOLDER": "where to; the run's own folder if you give none"})
    declare(export, {"--reasoned": "leave out samples without any reasoning"})
    add("remove", "Delete a run with its conversations.", _remove, named | {"-y, --yes": "do not ask"})


def _run(command: CliCommand) -> int:
    asked = command.asked
    if asked.file is None and asked.run is None:
        raise UsageError("Give a file with prompts, or the --run to continue.")
    dataset = None if asked.file is None else Path(asked.file)
    run = RunFiles(command.home, asked.run or run_name(Path(asked.file)))
    if run.is_there:
        manifest = run.manifest()
        if dataset is not None:
            run.check_same(manifest, dataset)
    elif dataset is None:
        manifest = run.manifest()
    else:
        read_distribution(asked.distribution)
        agent = asked.agent or MAIN_AGENT
        manifest = run.begin(dataset, agent, asked.distribution, asked.model or "", asked.max_samples)
    finder = GatewayFinder(command.home, command.environ, command.console.note)
    finder.begin()
    progress = BatchProgress(items=manifest.items, tell=_bar(command))
    asyncio.run(_live(command, run, manifest, finder, progress))
    _write_samples(command, run, manifest, run.folder)
    failed = progress.done - progress.ended[TurnState.DONE]
    command.console.line(f"{progress.ended[TurnState.DONE]} of {manifest.items} items have an answer.")
    _tell_reasons(command, progress.reasons)
    command.console.line(f"Samples: {run.folder / SAMPLES}")
    return _SOME_FAILED if failed else 0


async def _live(
    command: CliCommand,
    run: RunFiles,
    manifest: BatchManifest,
    finder: GatewayFinder,
    progress: BatchProgress,
) -> None:
    try:
        async with GatewayConnection(finder.locate, _PATIENCE) as line:
            there = await line.ask("/control/batch/toolsets", {"agent": manifest.agent}, list[str])
            chances = _chances(command, manifest, there)
            runner = BatchRunner(
                line=line,
                manifest=run.settle(manifest, spell_distribution(chances)),
                distribution=chances,
                workers=command.asked.workers,
                progress=progress,
            )
            await runner.run(run.items())
    except* UserError as several:
        raise _first(several) from None
    finally:
        if command.console.err.isatty():
            command.console.err.write("\n")


def _chances(command: CliCommand, manifest: BatchManifest, there: list[str]) -> Distribution:
    chances, missing = limit_to(read_distribution(manifest.distribution), there)
    if missing and not chances:
        raise UserError(
            f"The agent “{manifest.agent}” has none of these toolsets: {', '.join(missing)}.",
            hint=f"It has: {', '.join(there)}.",
        )
    if missing:
        command.console.note(f"Left out, for the agent has no such toolset: {', '.join(missing)}.")
    return chances


def _first(group: BaseExceptionGroup[UserError]) -> UserError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _bar(command: CliCommand) -> Callable[[BatchProgress], None]:
    """One line that grows on a terminal; elsewhere a line for each tenth."""
    began, err, shown = monotonic(), command.console.err, [-1]

    def tell(progress: BatchProgress) -> None:
        part = progress.done / max(progress.items, 1)
        failed = progress.done - progress.ended[TurnState.DONE]
        words = f"{progress.done}/{progress.items} items, {failed} failed, {monotonic() - began:.0f} s"
        if err.isatty():
            filled = int(_BAR * part)
            err.write(f"\r{'█' * filled}{'░' * (_BAR - filled)} {words} ")
            err.flush()
        elif int(part * 10) > shown[0]:
            shown[0] = int(part * 10)
            err.write(f"{words}\n")

    return tell


def _tell_reasons(command: CliCommand, reasons: Counter[str]) -> None:
    for reason, count in reasons.most_common(5):
        command.console.line(f"  {count} × {one_line(reason, 200)}")


def _list(command: CliCommand) -> None:
    columns = [
        Column("name", "RUN"),
        Column("items", "ITEMS"),
        Column("agent", "AGENT"),
        Column("distribution", "TOOLSETS"),
        Column("created_at", "BEGUN"),
    ]
    runs = []
    for run in list_runs(command.home):
        try:
            runs.append(run.manifest())
        except UserError as error:
            command.console.note(str(error))
    command.list(runs, columns, none="There are no batch runs. Begin one with: hermes batch run FILE")


def _standings(home: HomeAccess, manifest: BatchManifest) -> list[ItemStanding]:
    return home.ask(list_items, run=manifest.name, agent=manifest.agent)


def _status(command: CliCommand) -> None:
    manifest = RunFiles(command.home, command.asked.run).manifest()
    standings = _standings(open_home(command), manifest)
    count = Counter("running" if item.state.open else item.state.value for item in standings)
    facts: dict[str, Any] = {
        "items": manifest.items,
        **{state: count[state] for state in ("done", "failed", "stopped", "running")},
        "waiting": manifest.items - len(standings),
    }
    if command.asked.json:
        command.console.json({"run": manifest.name, **facts})
        return
    command.console.facts([(name, str(value)) for name, value in facts.items()])
    _tell_reasons(command, Counter(item.reason for item in standings if item.reason))
    if facts["waiting"]:
        command.console.note(f"Continue it with: hermes batch run --run {manifest.name}")


def _export(command: CliCommand) -> None:
    run = RunFiles(command.home, command.asked.run)
    folder = Path(command.asked.output) if command.asked.output else run.folder
    statistics = _write_samples(command, run, run.manifest(), folder)
    if command.asked.json:
        command.console.json(statistics)
    else:
        command.console.line(f"{statistics['completed']} samples: {folder / SAMPLES}")


def _write_samples(
    command: CliCommand, run: RunFiles, manifest: BatchManifest, folder: Path
) -> dict[str, Any]:
    home = open_home(command)
    return export_run(
        run,
        _standings(home, manifest),
        lambda index: home.ask(item_sample, run=manifest.name, agent=manifest.agent, index=index),
        load_settings(command.home, command.environ).secrets.redact,
        folder,
        reasoned=bool(getattr(command.asked, "reasoned", False)),
    )


def _remove(command: CliCommand) -> None:
    run = RunFiles(command.home, command.asked.run)
    manifest = run.manifest()
    if not command.asked.yes:
        command.console.confirm(f"Delete the run “{run.name}” with {manifest.items} conversations?")
    count = open_home(command).ask(delete_items, run=manifest.name, agent=manifest.agent)
    run.remove()
    command.console.line(f"The run “{run.name}” is deleted, with {count} conversations.")
