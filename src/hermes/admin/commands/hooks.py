"""`hermes hooks`: list the hooks of this home, and call them with a made-up event."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.admin.process.running import find_running
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.output import Column
from hermes.control.hooks.dispatch import read_ruling
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.system.hooks import EVENTS, SELECT_AGENT, Hook, HookRunner, is_asked, is_event
from hermes.domain.text import one_line
from hermes.execution.hooks.processes import HookProcesses
from hermes.state.files.hook_files import HomeHooks, read_hooks
from hermes.state.home.findings import nearest
from hermes.state.settings.loader import load_settings

_LINES_SHOWN = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("list", "List the hooks of this home and of plugins, and their state.", _list, JSON)
    add("doctor", "Check every hook; exit code 1 if one cannot be used.", _doctor, JSON)
    summary = "Call the hooks that follow an event, those of plugins too. Nothing else happens."
    tested = add("test", summary, _test, {"event": "its name, like agent:end or command:new"})
    declare(tested, {"--json CONTEXT": "the context they get"}, dest="context", default="{}")


def _list(command: CliCommand) -> None:
    from hermes.app.hooks import PluginHookRunner  # brings all of the gateway along

    found, states = read_hooks(command.home), _states(command.home, command.environ)
    used = load_settings(command.home, command.environ).settings.plugins
    hooks = [*found.hooks, *PluginHookRunner(plugins.hooks(used)).hooks]
    columns = [
        Column("name", "Hook"),
        Column("state", "State", value=lambda hook: states.get(hook.name, ("on", ""))[0]),
        Column("why", value=lambda hook: states.get(hook.name, ("on", ""))[1]),
        Column("events", "Events", ", ".join, lambda hook: list(hook.events)),
        Column("timeout"),
        Column("description", "What it does"),
    ]
    none = f"No hooks. A hook is a folder with HOOK.yaml and handler.py in {command.home / 'hooks'}"
    problems = [str(problem) for problem in found.problems]
    command.list(hooks, columns, none=none, wrap=lambda rows: {"hooks": rows, "problems": problems})
    if not command.asked.json:
        _tell_problems(command, found)


def _doctor(command: CliCommand) -> int:
    found, states = read_hooks(command.home), _states(command.home, command.environ)
    off = {name: why for name, (state, why) in states.items() if state != "on"}
    columns = [
        Column("state", "State", value=lambda hook: "problem" if hook.name in off else "ok"),
        Column("name", "Hook"),
        Column("why", "Why", value=lambda hook: off.get(hook.name, "")),
    ]
    problems = [str(problem) for problem in found.problems]
    if found.hooks or command.asked.json:
        command.list(found.hooks, columns, wrap=lambda rows: {"hooks": rows, "problems": problems})
    _tell_problems(command, found)
    if not command.asked.json and not found.hooks and not found.problems:
        command.console.line(f"No hooks in {command.home / 'hooks'}.")
    return int(bool(found.problems or off))


def _tell_problems(command: CliCommand, hooks: HomeHooks) -> None:
    for problem in hooks.problems:
        command.console.note(f"Left out: {problem}")


def _states(home: Path, environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What the running gateway says of its hooks."""
    running = find_running(home, environ)
    reported = None if running is None else running.status()["facts"].get("hooks")
    hooks = [hook for hook in reported if isinstance(hook, dict)] if isinstance(reported, list) else []
    return {str(hook.get("name")): (str(hook.get("state")), str(hook.get("why"))) for hook in hooks}


def _test(command: CliCommand) -> int:
    event, console, found = command.asked.event.strip(), command.console, read_hooks(command.home)
    if not is_event(event) or event.endswith(":*"):
        near = nearest(event, [known for known in EVENTS if not known.endswith("*")])
        hint = f"Did you mean {near}?" if near else f"There are: {', '.join(EVENTS)}."
        raise UserError(f"There is no event “{one_line(event, 60)}”.", hint=hint)
    context = _context(command.asked.context)
    _tell_problems(command, found)
    from hermes.app.hooks import PluginHookRunner  # brings all of the gateway along

    used = load_settings(command.home, command.environ).settings.plugins
    added = PluginHookRunner(plugins.hooks(used))
    groups: list[tuple[Sequence[Hook], HookRunner]] = [
        (found.hooks, HookProcesses(command.home, command.environ)),
        (added.hooks, added),
    ]
    following = [(hook, runner) for hooks, runner in groups for hook in hooks if hook.follows(event)]
    if not following:
        console.line(f"No hook follows {event}.")
        return 0
    results = asyncio.run(_call_all(following, event, context))
    for name, said in results:
        console.line(f"{name}: {said}")
    return 1 if any(said.startswith("failed") for _, said in results) else 0


def _context(text: str) -> dict[str, Any]:
    try:
        context = json.loads(text)
    except ValueError as error:
        raise UserError(
            f"The context is not JSON ({error}).", hint='Write: --json \'{"user_id": "1"}\''
        ) from error
    if not isinstance(context, dict):
        raise UserError("The context must be a JSON object.", hint='Write: --json \'{"user_id": "1"}\'')
    return context


async def _call_all(
    hooks: Sequence[tuple[Hook, HookRunner]], event: str, context: dict[str, Any]
) -> list[tuple[str, str]]:
    try:
        return [(hook.name, await _call(runner, hook, event, context)) for hook, runner in hooks]
    finally:
        for runner in {runner for _, runner in hooks}:
            await runner.close()


async def _call(runner: HookRunner, hook: Hook, event: str, context: dict[str, Any]) -> str:
    began = time.monotonic()
    try:
        heard = await runner.call(hook, event, context)
        if is_asked(event) and event != SELECT_AGENT:
            read_ruling(hook.name, heard.answer)
    except Unreachable as error:
        meaning = "; what it gates is denied" if is_asked(event) and event != SELECT_AGENT else ""
        printed = "".join(getattr(error, "__notes__", ())).strip()
        shown = "".join(f"\n  {line}" for line in printed.splitlines()[-_LINES_SHOWN:])
        return f"failed: {one_line(str(error), 200)}{meaning}{shown}"
    seconds = time.monotonic() - began
    printed = f", printed: {one_line(heard.output, 200)}" if heard.output.strip() else ""
    return f"answered {one_line(json.dumps(heard.answer, default=repr), 300)} in {seconds:.2f} s{printed}"
