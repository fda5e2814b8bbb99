"""`hermes agent`: the agents that this gateway hosts beside `main`. It changes `agents` and what names them
in config.yaml, and a running gateway adopts that; an agent's conversations stay unless they are to go."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.admin.commands.model import check_model
from hermes.admin.shell.changing import DRY_RUN, UNCHANGED, apply_change, load
from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.home import HomeAccess, agents_of, open_home
from hermes.admin.shell.output import Column
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import NAME_RULE, Settings, is_name
from hermes.domain.text import closest, list_some, one_line
from hermes.entry.desk import apply_settings
from hermes.entry.hosted_agents import (
    check_agent_idle,
    count_agent_rows,
    purge_agent_rows,
    rename_agent_rows,
)
from hermes.execution.sandboxes.kept import list_kept
from hermes.state.files.subscriptions import WebhookSubscriptions
from hermes.state.home.homes import AGENTS_FOLDER, agent_home, prepare_home
from hermes.state.home.jsonfile import read_json
from hermes.state.home.textfile import replace_text
from hermes.state.home.wholefile import write_whole
from hermes.state.settings.loader import SECRETS_FILE, LoadedSettings, without_accounts
from hermes.state.settings.model_access import model_of
from hermes.state.settings.whole_changes import plan_change, section_of

_COPIED = ("SOUL.md", SECRETS_FILE, "skills")
"""What one agent is made like another with; memory and conversations stay whose they are."""
_OF_GATEWAY = ("SUDO_PASSWORD", "HERMES_BACKUP_PASSPHRASE")
"""Secrets that no agent has, beside accounts."""
_REMOVED, _RENAMING = ".removed", ".renaming"
"""In `agents/`. Not names that an agent can have. The second is a file: the rename that is under way."""


class ListedAgent(Struct, frozen=True, kw_only=True):
    id: AgentId
    model: str
    mode: str
    routes: list[int]
    default: bool
    home: Path
    description: str
    problem: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "The agents of this gateway. See docs/guides/agents.md."
    add = Subcommands(parser).add
    add("list", "List the agents.", _list, JSON)
    name = {"agent": "its id"}
    add("show", "Show what an agent has, and what goes to it.", _show, name | JSON)
    options = {
        "--model NAME": "its model",
        "--provider NAME": "its provider",
        "--description TEXT": "what it is for",
        "--from ID": "like this agent: settings, SOUL.md, skills and keys",
    }
    added = add("add", "Add an agent.", _add, {"agent": f"its id: {NAME_RULE}"} | DRY_RUN)
    for spelled, about in options.items():
        option, _, metavar = spelled.partition(" ")
        added.add_argument(
            option, metavar=metavar, help=about, dest=option.strip("-").replace("from", "like")
        )
    purge = {"--purge": "delete its folder and its conversations, too", "-y, --yes": "do not ask"}
    add("remove", "Remove an agent and its routes.", _remove, name | purge | DRY_RUN)
    renamed = add(
        "rename", "Give an agent another id; its conversations and its folder stay.", _rename, DRY_RUN
    )
    renamed.add_argument("agent", help="its id")
    renamed.add_argument("new", help=f"its new id: {NAME_RULE}")


# --- looking -----------------------------------------------------------------------------------------


def _listed(
    command: CliCommand, loaded: LoadedSettings, agent: AgentId, broken: dict[str, str]
) -> ListedAgent:
    settings = loaded.settings
    hosted = settings.agents.get(agent)
    return ListedAgent(
        id=agent,
        model=model_of(agent, loaded).default,
        mode="all" if hosted is None else hosted.mode,
        routes=[n for n, route in enumerate(settings.routes, 1) if route.agent == agent],
        default=settings.default_agent == agent,
        home=_home_of(command.home, agent, settings),
        description="" if hosted is None else hosted.description,
        problem=broken.get(agent, ""),
    )


def _broken(command: CliCommand) -> dict[str, str]:
    """The agents that a running gateway could not build, and why."""
    gateway = open_home(command).gateway
    facts = {} if gateway is None else gateway.ask("GET", "/control/status", dict[str, Any])["facts"]
    return dict(facts.get("agents_left_out") or {})


def _list(command: CliCommand) -> None:
    loaded, broken = load(command), _broken(command)
    ids = dict.fromkeys(agents_of(loaded.settings))
    listed = [_listed(command, loaded, agent, broken) for agent in ids]
    columns = [
        Column("id", "AGENT"),
        Column("model", "MODEL"),
        Column("mode", "MODE"),
        Column("routes", "ROUTES", lambda routes: ", ".join(map(str, routes))),
        Column("default", "DEFAULT", lambda default: "yes" if default else ""),
        Column("description", "FOR"),
        Column("home", ""),
        Column("problem", "PROBLEM"),
    ]
    command.list(listed, columns, whole=5)


def _show(command: CliCommand) -> None:
    loaded = load(command)
    agent = _known(loaded.settings, command.asked.agent)
    shown = _listed(command, loaded, agent, _broken(command))
    settings, hosted = loaded.settings.of(agent), loaded.settings.agents.get(agent)
    own = loaded.agent_variables.get(agent, {})
    limits = settings.toolsets if hosted is None else hosted.enabled_toolsets or settings.toolsets
    facts: dict[str, Any] = {
        "agent": agent,
        "for": shown.description,
        "home": str(shown.home),
        "model": f"{shown.model} ({model_of(agent, loaded).provider})",
        "mode": shown.mode,
        "toolsets": list_some(limits) or "all",
        "backend": settings.terminal.backend,
        "approvals": settings.approvals.mode,
        "time zone": settings.timezone or "the machine's",
        "keys of its own": ", ".join(own),
        "routes": ", ".join(map(str, shown.routes)),
        "default": "yes" if shown.default else "no",
        "sessions, jobs, memory": open_home(command).ask(count_agent_rows, agent=agent),
        "problem": shown.problem,
    }
    if command.asked.json:
        command.console.json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        if value not in ("", None):
            command.console.line(f"{name.ljust(width)}  {value}")


def _known(settings: Settings, name: str) -> AgentId:
    if name in agents_of(settings):
        return AgentId(name)
    near = closest(name, agents_of(settings))
    hint = f"Did you mean “{near}”?" if near else "`hermes agent list` names them."
    raise UserError(f"There is no agent “{one_line(name, 60)}”.", hint=hint)


# --- changing ----------------------------------------------------------------------------------------


def _new_name(settings: Settings, name: str) -> AgentId:
    if not is_name(name) or name == MAIN_AGENT:
        raise UserError(f"An agent cannot be called “{one_line(name, 60)}”.", hint=f"Use {NAME_RULE}.")
    if name in settings.agents:
        raise UserError(f"There is an agent “{name}” already.", hint="Choose another id.")
    return AgentId(name)


def _has_rows(command: CliCommand, agent: AgentId) -> bool:
    home = open_home(command)
    return not home.empty and home.ask(count_agent_rows, agent=agent) > 0


def _check_no_rows(command: CliCommand, agent: AgentId) -> None:
    """Conversations, memory and jobs go by the id: nobody new gets those of another."""
    if _has_rows(command, agent):
        hint = f"Choose another id, or delete it for good: hermes agent remove --purge {agent}. {UNCHANGED}"
        raise UserError(f"An earlier agent {agent} left something behind.", hint=hint)


def _add(command: CliCommand) -> None:
    prepare_home(command.home)
    settings, asked = load(command).settings, command.asked
    if asked.like == asked.agent:
        raise UserError("An agent cannot be made like itself.", hint="Name another one with --from.")
    agent = _new_name(settings, asked.agent)
    like = None if asked.like is None else _known(settings, asked.like)
    if asked.model:
        asyncio.run(check_model(command, asked.model, asked.provider or ""))
    given = {name: getattr(asked, name) for name in ("description", "model", "provider")}
    entry = {name: value for name, value in given.items() if value}
    home = command.home / "agents" / agent
    if home.exists():
        hint = f"Move it away, or keep it with: hermes config set agents.{agent}.home_dir agents/{agent}"
        raise UserError(f"{home} is there already, from an earlier agent.", hint=f"{hint}. {UNCHANGED}")
    _check_no_rows(command, agent)

    def change(data: Any) -> None:
        agents = section_of(data, "agents", dict)
        kept = {} if like is None else dict(agents.get(like) or {})
        kept.pop("home_dir", None)
        agents[agent] = kept | entry

    planned, copied, added = plan_change(command.home, change), list[str](), False
    if not asked.dry_run:  # its keys are there before a gateway adopts it
        home.mkdir(mode=0o700, parents=True)
    try:
        if like is not None and not asked.dry_run:
            copied = _copy(agent_home(command.home, like, settings), home)
        added = apply_change(command, planned)
    finally:
        if not added:
            _discard(home)
    if not added:
        return
    if copied:
        command.console.line(f"Copied from {like}: {', '.join(copied)}.")
    command.console.line(f"The agent {agent} is there. Its folder: {home}")
    command.console.note(f"Talk with it: hermes --agent {agent}   Give it a chat: hermes route add {agent} …")


def _copy(source: Path, target: Path) -> list[str]:
    """Links are copied as links, so that none leads in a circle."""
    copied = []
    for name in _COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, symlinks=True, dirs_exist_ok=True)
        elif (source / name).is_file():
            text = (source / name).read_text(encoding="utf-8", errors="replace")
            if name == SECRETS_FILE:
                text = without_accounts(text, *_OF_GATEWAY)
            replace_text(target / name, text, 0o600)
        else:
            continue
        copied.append(name)
    return copied


def _remove(command: CliCommand) -> None:
    settings, console, name = load(command).settings, command.console, command.asked.agent
    gone = command.home / AGENTS_FOLDER / name
    is_gone = command.asked.purge and is_name(name) and name not in agents_of(settings)
    if is_gone and (gone.is_dir() or _has_rows(command, AgentId(name))):
        _check_unused(command.home, settings, gone)
        for note in _purge_notes(command.home, gone):
            console.note(note)
        if not command.asked.yes:
            console.confirm(f"Delete what the agent {name} left behind?")
        _purge(command, AgentId(name), gone)
        return
    agent = _known(settings, name)
    if agent == MAIN_AGENT:
        raise UserError("The agent main is the gateway's own and stays.", hint=UNCHANGED)
    folder = _home_of(command.home, agent, settings)

    def change(data: Any) -> None:
        del section_of(data, "agents", dict)[agent]
        if settings.routes:
            routes = section_of(data, "routes", list)
            for place in reversed(range(len(routes))):
                if isinstance(routes[place], dict) and routes[place].get("agent") == agent:
                    del routes[place]

    access = open_home(command)
    if command.asked.purge and not access.empty:
        access.ask(check_agent_idle, agent=agent, waiting=False)
    planned = plan_change(command.home, change)
    for note in _left_behind(command.home, settings, agent):
        console.note(note)
    for note in _purge_notes(command.home, folder) if command.asked.purge else ():
        console.note(note)
    if not (command.asked.yes or command.asked.dry_run):
        what = "and delete its folder and its conversations" if command.asked.purge else "(its data are kept)"
        console.confirm(f"Remove the agent {agent} {what}?")
    if not apply_change(command, planned):
        return
    if not command.asked.purge:
        console.line(f"The agent {agent} is removed. Its conversations stay, and its folder: {folder}")
        console.note("To have it again: hermes config rollback")
        console.note(f"To delete them: hermes agent remove --purge {agent}")
        return
    _purge(command, agent, folder)


def _home_of(home: Path, agent: AgentId, settings: Settings) -> Path:
    """Where it lives; if its home_dir leads nowhere, a folder that is not there."""
    try:
        return agent_home(home, agent, settings)
    except UserError:
        return home / settings.agents[agent].home_dir


def _check_unused(home: Path, settings: Settings, folder: Path) -> None:
    """A folder keeps its name when its agent gets another one."""
    place = Path(os.path.realpath(folder))
    for agent in settings.agents:
        try:
            lives = Path(os.path.realpath(_home_of(home, AgentId(agent), settings)))
        except UserError:
            continue  # nobody lives there
        if agent != MAIN_AGENT and (lives.is_relative_to(place) or place.is_relative_to(lives)):
            hint = f"To delete that agent: hermes agent remove --purge {agent}. {UNCHANGED}"
            raise UserError(f"The agent {agent} lives in {folder}.", hint=hint)


def _purge(command: CliCommand, agent: AgentId, folder: Path) -> None:
    home = open_home(command)
    if not home.empty:
        home.ask(purge_agent_rows, agent=agent)
    gone = _is_ours(command.home, folder) and _discard(folder)
    command.console.line(f"The {'folder and the ' * gone}conversations of {agent} are deleted.")


def _purge_notes(home: Path, folder: Path) -> Iterator[str]:
    """What goes with an agent that is purged, and what stays."""
    if folder.is_symlink():
        yield f"{folder} is a link; delete it and what it leads to yourself."
    elif not folder.is_dir():
        yield f"There is no folder {folder}; if it had another one, delete that yourself."
    elif _is_ours(home, folder):
        yield f"This deletes {folder} with all that is in it."
    else:
        yield f"{folder} lies outside the home and stays; delete it yourself."
    for service, name in list_kept(folder):
        yield f"A sandbox of it stays at {service}, with its files; delete it there: {name}"


def _is_ours(home: Path, folder: Path) -> bool:
    """Elsewhere a folder may hold more than the agent."""
    return folder.is_relative_to(home) and folder != home


def _left_behind(home: Path, settings: Settings, agent: AgentId) -> Iterator[str]:
    """What becomes of what went to an agent."""
    yield from _webhook_notes(home, agent)
    routes = [str(n) for n, route in enumerate(settings.routes, 1) if route.agent == agent]
    if routes:
        rest = f"what they took goes to later routes, hooks or {settings.default_agent}"
        yield f"Its routes go with it ({', '.join(routes)}): {rest}."


def _webhook_notes(home: Path, agent: AgentId) -> Iterator[str]:
    """Routes of webhooks that were made by a command stand in a file of their own."""
    for name, route in WebhookSubscriptions(home).read().items():
        if isinstance(route, dict) and route.get("agent") == agent:
            yield f"The webhook {name} is for {agent}, and its events are refused from now on: hermes webhook"


def _discard(folder: Path) -> bool:
    """Moved first, so that a deletion that is cut off leaves no half of a folder under its name. False if
    there is none: what a link leads to is somebody else's."""
    if folder.is_dir() and not folder.is_symlink():
        aside = folder.parent / _REMOVED / f"{folder.name}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        folder.rename(aside)
        shutil.rmtree(aside)
        return True
    return False


def _rename(command: CliCommand) -> None:
    settings, asked = load(command).settings, command.asked
    home = open_home(command)
    begun = _cut_off(command.home, settings)
    if begun == (asked.agent, asked.new):
        _finish_rename(command, home)
        return
    if begun is not None:
        hint = f"End it first: hermes agent rename {begun[0]} {begun[1]}"
        raise UserError(f"The agent {begun[0]} is half renamed.", hint=hint)
    agent = _known(settings, asked.agent)
    if agent == MAIN_AGENT:
        raise UserError("The agent main is the gateway's own and keeps its name.", hint=UNCHANGED)
    new = _new_name(settings, asked.new)
    _check_no_rows(command, new)
    if not home.empty:
        home.ask(check_agent_idle, agent=agent)
    folder = settings.agents[agent].home_dir or f"agents/{agent}"

    def change(data: Any) -> None:
        agents = section_of(data, "agents", dict)
        place = list(agents).index(agent)
        agents.insert(place, str(new), {**(agents.pop(agent) or {}), "home_dir": folder})
        _name_anew(data, agent, new)

    for note in _webhook_notes(command.home, agent):
        command.console.note(note)
    planned, mark, done = plan_change(command.home, change), command.home / AGENTS_FOLDER / _RENAMING, False
    try:
        if not asked.dry_run:
            mark.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(mark, json.dumps([agent, new, folder]).encode())
        done = apply_change(command, planned)
    finally:
        if not done:
            mark.unlink(missing_ok=True)
    if done:
        _finish_rename(command, open_home(command))


def _cut_off(home: Path, settings: Settings) -> tuple[str, str] | None:
    """The rename that began, wrote the settings, and no more: the new agent lives where the old one did."""
    match read_json(home / AGENTS_FOLDER / _RENAMING):
        case [str(old), str(new), folder] if old not in settings.agents and new in settings.agents:
            return (old, new) if settings.agents[new].home_dir == folder else None
    return None


def _finish_rename(command: CliCommand, home: HomeAccess) -> None:
    if not home.empty:
        home.ask(rename_agent_rows, agent=command.asked.agent, to=command.asked.new)
    if home.running:
        home.ask(apply_settings)  # what waits is looked for again
    (command.home / AGENTS_FOLDER / _RENAMING).unlink(missing_ok=True)
    command.console.line(f"The agent {command.asked.agent} is called {command.asked.new} now.")


def _name_anew(node: Any, old: str, new: str, key: str = "") -> None:
    """Wherever the settings name an agent: routes, the default, keys of the API, secrets, budgets."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("agent", "default_agent") and value == old:
                node[name] = new
            elif name == "agents" and isinstance(value, str):
                listed = [word.strip() for word in value.split(",")]
                node[name] = ", ".join(new if word == old else word for word in listed)
            else:
                _name_anew(value, old, new, name)
    elif isinstance(node, list):
        for place, value in enumerate(node):
            if key == "agents" and value == old:
                node[place] = new
            else:
                _name_anew(value, old, new, key)
