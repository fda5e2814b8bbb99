"""`hermes status`: what runs on a home and what is set. A gateway that answers on its socket is asked; of one
that does not, the state file tells what it said last."""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermes.admin.process.home_files import GATEWAY, LOG_FILE, LockHolder, home_holder, read_state
from hermes.admin.process.running import find_running
from hermes.admin.process.service import installed_service
from hermes.admin.shell.boundary_lines import OWNERS, apart_note, boundary_lines, settled_lines
from hermes.admin.shell.command import STATUS, CliCommand, declare
from hermes.admin.shell.output import CliConsole, ago
from hermes.agent.models.choose import DEMO, ModelAccess, ModelChoice, stand_in
from hermes.agent.models.registry import Models
from hermes.agent.models.servers import NO_PROBE
from hermes.app.agents.model_places import ModelPlaces
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.models.providers import find_provider
from hermes.domain.ports.world import LOCAL
from hermes.domain.text import list_some
from hermes.plugins import platform_manifests, providers
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.platform_reader import API_SERVER

_APPROVALS = {
    "manual": "manual (a person must approve dangerous actions)",
    "smart": "smart (a second model may approve dangerous actions, else a person must)",
    "off": "off (nobody is asked before what is dangerous)",
}
_LEAST_FREE = 256 * 1024
_ALIVE = ("starting", "running", "draining")

NOT_RUNNING = 3
"""The exit code of service managers for what is not running."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=run)
    parser.description = "Show what runs on this home and what is set."
    declare(parser, STATUS)


def run(command: CliCommand) -> int:
    """How it is; the exit code is 1 while nothing can be stored and 3 if no gateway runs."""
    asked, home, environ, console = command.asked, command.home, command.environ, command.console
    loaded = load_settings(home, environ, platforms=[one.name for one in platform_manifests()])
    holder = home_holder(home)
    told = read_state(home)
    running = holder is not None and holder.what == GATEWAY
    if holder is not None and running and told.get("pid", holder.pid) != holder.pid:
        told = {}  # an earlier life's: this one could not write its own yet
    model = _told_model(told) if running else _model(loaded, told, home)
    live = ask_gateway(home, environ)
    held = _boundaries(live)
    approvals = str((running and told.get("approvals")) or loaded.settings.approvals.mode)
    trouble = _store_trouble(live, told, home) if running else ""
    code = NOT_RUNNING if not running else 1 if trouble else 0
    if asked.json:
        console.json(
            _facts(home, loaded, holder, told)
            | model
            | {
                "version": command.version,
                "live": _live_facts(live),
                "store_trouble": trouble,
                "approvals": approvals,
                "sandbox": _main_sandbox(held, loaded.settings.terminal.backend),
                **held,
                "exposed": [str(note) for note in loaded.exposed],
            }
        )
        return code
    pairs = [("Home", str(home)), ("Gateway", _gateway(holder, told))]
    if trouble:
        pairs.append(("Storage", f"nothing can be stored: {trouble}"))
    if running:
        pairs.append(("Agents", _agents(told.get("agents", []), live)))
    pairs += [("Model", _named(model["model"], model["provider"])), ("Why", model["model_why"])]
    if model["context_length"]:
        pairs.append(("Context", f"{int(model['context_length']):,} tokens"))
    pairs.append(("Approvals", _APPROVALS.get(approvals, approvals)))
    pairs += _sandboxes(held, loaded.settings.terminal.backend)
    if apart := apart_note(loaded.settings):
        pairs.append(("Agents apart", apart))
    if running:
        pairs += _platforms(told) + _hooks(told)
    if live is not None:
        pairs += live_pairs(live, api_told=API_SERVER in (told.get("platforms") or ()))
    if service := installed_service(home, dict(command.environ)):
        pairs.append(("Service", service))
    pairs.append(("Log", str(home / LOG_FILE)))
    console.facts(pairs)
    if asked.jobs:
        _show_chores(live, console)
    problems = len(loaded.problems)
    if problems:
        console.note(f"The settings have {problems} problem{'s' * (problems > 1)}; see: hermes config check")
    for note in loaded.exposed:
        console.note(str(note))
    if holder is None:
        console.note("Start it with: hermes gateway start, or in this terminal: hermes gateway run")
    return code


def _main_sandbox(facts: Mapping[str, Any], named: str) -> str:
    """What holds the commands of owner and admins, where no route says otherwise."""
    chosen = next((one for one in facts["boundaries"] if one["who"] == OWNERS and not one["route"]), None)
    backend = named.strip().lower() if chosen is None else chosen["backend"]
    return "none" if backend == LOCAL else backend


def _sandboxes(facts: Mapping[str, Any], named: str) -> list[tuple[str, str]]:
    """What holds whose commands, and the backends that something is wrong with."""
    lines = boundary_lines(facts["boundaries"]) or settled_lines(named)
    ill = [one for one in facts["backends"] if one["trouble"]]
    lines += [f"the backend {one['backend']} of {one['agent']}: {one['trouble']}" for one in ill]
    return [("Sandbox", line) for line in lines]


def _boundaries(live: Mapping[str, Any] | None) -> dict[str, Any]:
    facts = {} if live is None else live["facts"]
    return {name: facts.get(name, []) for name in ("backends", "boundaries", "sandboxes")}


def ask_gateway(home: Path, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """What the gateway that runs says of itself at this moment."""
    try:
        running = find_running(home, environ, 0.0)
        return None if running is None else running.status()
    except UserError:
        return None


def _store_trouble(live: Mapping[str, Any] | None, reported: Mapping[str, Any], home: Path) -> str:
    """Why nothing can be stored at this moment; before the gateway answers, why it waits. On a full disk it
    cannot write that down."""
    if live is not None:
        return str(live["facts"].get("store_trouble") or "")
    full = not reported and shutil.disk_usage(home).free < _LEAST_FREE
    return "the disk is full" if full else str(reported.get("waits") or "")


def _live_facts(live: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if live is None:
        return None
    kept = ("pid", "open_streams", "inbox", "turns", "outbox")
    facts = live["facts"]
    return {name: live[name] for name in kept} | {
        "uptime": round(_uptime(facts), 1),
        "api": facts.get("api", ""),
        "chores": facts.get("chores", []),
        "loops": facts.get("loops", []),
        "providers": facts.get("providers", []),
        "workspace": facts.get("workspace", ""),
    }


def _agents(agents: Sequence[str], live: Mapping[str, Any] | None) -> str:
    """The agents that answer, by name; of many, how many more there are."""
    left_out = {} if live is None else live["facts"].get("agents_left_out", {})
    names = [str(agent) for agent in agents if agent not in left_out]
    return list_some(names) or "–"


def _uptime(facts: Mapping[str, Any]) -> float:
    now = datetime.now(UTC).timestamp()
    return max(now - float(facts.get("started_at", now)), 0.0)


def failed_chores(live: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the gateway should have done by itself, like a backup, and could not."""
    return [chore for chore in live["facts"].get("chores", []) if not chore["ok"]]


def live_pairs(live: Mapping[str, Any], *, api_told: bool = False) -> list[tuple[str, str]]:
    """What a running gateway says of itself at this moment; first what broke in it. `api_told`: what keeps
    the API closed was told already."""
    facts, outbox = live["facts"], live["outbox"]
    api = facts.get("api") or ("" if api_told else "off (API_SERVER_ENABLED or API_SERVER_KEY opens it)")
    unread = f", {live['inbox']} messages unread" if live["inbox"] else ""
    broken = [
        (
            "Broken" if not loop["ok"] else "Broke",
            f"{loop['name']}, {loop['failures']} × since the start, last {loop['last_at']}: {loop['why']}",
        )
        for loop in facts.get("loops", [])
        if loop["failures"]
    ]
    broken += [("Failed", f"{chore['name']}: {chore['outcome']}") for chore in failed_chores(live)]
    refused = facts.get("settings_problem")
    left_out = [f"{agent}: {why}" for agent, why in facts.get("agents_left_out", {}).items()]
    return [
        *broken,
        *([("Settings", refused)] if refused else []),
        *(("Left out", line) for line in left_out),
        ("Uptime", _span(_uptime(facts))),
        *([("API", api)] if api else []),
        *(("Provider", provider_line(one)) for one in facts.get("providers", ())),
        ("Turns", _counted(live["turns"], "none unfinished") + unread),
        ("To send", _counted(outbox, "nothing")),
        ("Watching", f"{live['open_streams']} open stream{'s' * (live['open_streams'] != 1)}"),
    ]


def provider_line(provider: Mapping[str, Any]) -> str:
    """How a provider is: whether it is reached and takes the key, what it has, and the last fault."""
    state = provider["fault"] or "reachable" if provider["asked_at"] else "not asked yet"
    count = f", {provider['models']} models" if provider["models"] and not provider["fault"] else ""
    at = ago(_time(provider["call_at"]), datetime.now(UTC)) if provider["call_fault"] else ""
    last = f"; the last call failed {at}: {provider['call_fault']}" if at else ""
    return f"{provider['title']} ({provider['url']}): {state}{count}{last}"


def _show_chores(live: Mapping[str, Any] | None, console: CliConsole) -> None:
    """What the gateway does by itself, when it last did, and how that ended."""
    if live is None:
        console.note("No gateway answers, so its maintenance jobs cannot be shown.")
        return
    now = datetime.now(UTC)
    rows = [
        (
            str(chore["name"]),
            _span(float(chore["every"])),
            "not yet" if chore["last_at"] is None else ago(_time(chore["last_at"]), now),
            ("" if chore["ok"] else "failed: ") + str(chore["outcome"]),
        )
        for chore in live["facts"].get("chores", [])
    ]
    console.line()
    console.table(("JOB", "EVERY", "LAST", "OUTCOME"), rows)


def _counted(counts: Mapping[str, int], none: str) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or none


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    told = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(told[:2]) or "0 s"


def _model(loaded: LoadedSettings, reported: Mapping[str, Any], home: Path) -> dict[str, str]:
    """The model that a gateway would use if it were started now."""
    models = Models(providers(), probe=not loaded.variables.get(NO_PROBE))
    settings = loaded.settings.model
    stored = {each.provider for each in loaded.credentials.get(MAIN_AGENT, ())}
    choice = stand_in(asyncio.run(models.choose(settings, stored)), settings, last_model(reported))
    hint = f" ({choice.hint})" if choice.hint else ""
    return {
        "model": choice.model,
        "provider": choice.provider,
        "model_line": choice.line,
        "model_why": choice.why + hint,
        "context_length": str(_window(choice, loaded, home) or ""),
    }


def _window(choice: ModelChoice, loaded: LoadedSettings, home: Path) -> int | None:
    facts = ModelPlaces(loaded, SystemClock(), home).facts(choice, loaded.settings.model)
    return facts.window


def last_model(reported: Mapping[str, Any]) -> ModelChoice | None:
    """The real model of the last gateway, if it had one."""
    model, provider = (str(reported.get(key) or "") for key in ("model_name", "model_provider"))
    if not model or not provider or provider == DEMO:
        return None
    spec = find_provider(provider)
    url = spec.base_url if spec is not None else ""
    title = spec.title if spec is not None else provider
    return ModelChoice(way=ModelAccess.HTTP, model=model, provider=provider, title=title, base_url=url)


def _named(model: str, provider: str) -> str:
    if provider == DEMO:
        return "demo (the offline demo model, not an AI)"
    if provider and not model:
        return f"{provider} (no model is named)"
    return f"{model} by {provider}" if provider else model or "none"


def _told_model(reported: Mapping[str, Any]) -> dict[str, str]:
    """The model that the running gateway uses, as it says."""
    return {
        "model": str(reported.get("model_name", "")),
        "provider": str(reported.get("model_provider", "")),
        "model_line": str(reported.get("model", "")),
        "model_why": str(reported.get("model_why", "")),
        "context_length": str(reported.get("context_length", "")),
    }


def _gateway(holder: LockHolder | None, reported: Mapping[str, Any]) -> str:
    if holder is not None and holder.what != GATEWAY:
        return f"{holder.what} works on the home ({holder})"
    if holder is not None:
        leaves = "; it leaves after the last terminal" if reported.get("temporary") else ""
        return f"{reported.get('gateway_state', 'starting')} ({holder}){leaves}"
    state = reported.get("gateway_state")
    if state is None:
        return "not running"
    when = ago(_time(reported.get("updated_at")), datetime.now(UTC))
    if state in _ALIVE:
        # Nobody holds the lock, so the process that wrote this is gone.
        return f"not running; the last one (process {reported.get('pid')}) was cut off, last heard of {when}"
    if state == "startup_failed":
        return f"not running; the last start failed {when}: {reported.get('exit_reason', '')}"
    return f"not running; stopped {when}"


def _platforms(reported: Mapping[str, Any]) -> list[tuple[str, str]]:
    known = reported.get("platforms")
    if not isinstance(known, dict) or not known:
        return [("Platforms", "none")]
    pairs = []
    for name, facts in known.items():
        why = facts.get("error_message") if isinstance(facts, dict) else ""
        state = facts.get("state", "?") if isinstance(facts, dict) else "?"
        pairs.append(("Platform", f"{name}: {state}{f' ({why})' if why else ''}"))
    return pairs


def _hooks(reported: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Only those that need a look; `hermes hooks list` shows all."""
    known = reported.get("hooks")
    return [
        ("Hook", f"{hook.get('name')}: {hook.get('state')} ({hook.get('why')})")
        for hook in (known if isinstance(known, list) else [])
        if isinstance(hook, dict) and hook.get("state") != "on"
    ]


def _facts(
    home: Path, loaded: LoadedSettings, holder: LockHolder | None, reported: Mapping[str, Any]
) -> dict[str, Any]:
    running = holder is not None and holder.what == GATEWAY
    return {
        "home": str(home),
        "running": running,
        "pid": holder.pid if holder is not None and running else None,
        "state": reported.get("gateway_state")
        if running or reported.get("gateway_state") not in _ALIVE
        else "cut off",
        "agents": reported.get("agents", []) if running else [],
        "platforms": reported.get("platforms", {}) if running else {},
        "hooks": reported.get("hooks", []) if running else [],
        "problems": [str(problem) for problem in loaded.problems],
        "updated_at": reported.get("updated_at"),
    }


def _time(text: object) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.now(UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
