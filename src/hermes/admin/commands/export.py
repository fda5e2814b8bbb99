"""`hermes export`: everything that an agent's people would miss, in formats that other programs read: text,
JSON, JSON lines, and files as they are. Settings and keys are in backups alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec

from hermes.admin.commands.memory import entry_facts
from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.admin.shell.home import open_home
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.turns.chat_format import as_messages
from hermes.domain.turns.session import Session
from hermes.entry.desk import find_session, list_jobs, list_people, list_sessions
from hermes.entry.memories import list_memory
from hermes.state.files.session_log import log_path
from hermes.state.home.homes import AGENTS_FOLDER, agent_home
from hermes.state.moving.arriving import Arrival
from hermes.state.settings.loader import load_settings
from hermes.stream.wire.socket import read_entry

_EVERY_ONE = 2**31
_FILES = {
    "SOUL.md": "identity",
    "skills": "skills",
    "media": "files of messages",
    "cron/output": "what jobs said",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write conversations, memory, skills, jobs, people and files into a folder, in open formats. "
        "Settings and keys are left out: they are in backups (hermes backup create)."
    )
    declare(parser, {"folder": "a new or empty folder"} | JSON)
    parser.set_defaults(act=_export)


def _export(command: CliCommand) -> None:
    folder = Path(command.asked.folder).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already, and not empty.", hint="Name another folder.")
    home = open_home(command)
    out = Arrival(home=folder, dry=False)
    sessions = home.ask(list_sessions, limit=_EVERY_ONE)
    for session in sessions:
        answers = home.ask(find_session, name=session.id)  # none, if it is gone by now
        messages = as_messages([read_entry(entry) for answer in answers for entry in answer.entries])
        lines = (f"{json.dumps(message, ensure_ascii=False)}\n" for message in messages)
        place = log_path(Path("sessions") / session.agent, session.id)
        out.text(str(place), "".join(lines), "")
    told = {"sessions.json": [_facts(session) for session in sessions], "jobs.json": home.ask(list_jobs)}
    told["people.json"] = msgspec.to_builtins(home.ask(list_people).paired)
    settings = load_settings(command.home, command.environ).settings
    declared = {MAIN_AGENT, *map(AgentId, settings.agents)}
    for agent in sorted(declared | {session.agent for session in sessions}):
        try:
            entries = home.ask(list_memory, agent=agent, person=None, words="")
        except UserError:
            if agent in declared:
                raise
            continue  # it is removed, and remembered nothing
        told[f"memory/{agent}.json"] = [entry_facts(entry) for entry in entries]
    for name, content in told.items():
        out.text(name, json.dumps(content, ensure_ascii=False, indent=1, default=str) + "\n", "")
    places = {Path(AGENTS_FOLDER, place.name): place for place in (command.home / AGENTS_FOLDER).glob("*/")}
    places |= {Path(AGENTS_FOLDER, agent): agent_home(command.home, agent, settings) for agent in declared}
    del places[Path(AGENTS_FOLDER, MAIN_AGENT)]
    for into, place in sorted({Path(): command.home, **places}.items()):
        for name, what in _FILES.items():
            target = str(into / name)
            if (place / name).is_dir():
                out.folder(place / name, target, what)
            elif (place / name).is_file():
                out.file(place / name, target, what)
    counts = {"sessions": len(sessions), "jobs": len(told["jobs.json"]), "folder": str(folder)}
    if command.asked.json:
        command.console.json(counts)
        return
    command.console.line(
        f"{folder}: {counts['sessions']} conversations, {counts['jobs']} jobs, and what agents know."
    )
    command.console.note("It is not encrypted, and may hold private words. Settings and keys are not in it.")


def _facts(session: Session) -> dict[str, Any]:
    names = ("id", "agent", "title", "place", "owner", "tag", "archived", "created_at", "updated_at")
    return {name: getattr(session, name) for name in names}
