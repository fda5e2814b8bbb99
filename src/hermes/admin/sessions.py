"""`hermes sessions`: list, search, show, export and delete conversations, whether a gateway runs or not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any

from hermes.admin.home import Place, agents_of, open_home
from hermes.admin.output import Commands, Console, ago, facts, number_to
from hermes.domain.chat_format import as_messages
from hermes.domain.errors import UserError
from hermes.domain.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)
from hermes.domain.rows import Hit
from hermes.domain.session import Session
from hermes.domain.text import one_line
from hermes.entry.desk import FoundSession
from hermes.state.session_log import FOLDER, log_path
from hermes.state.settings import load_settings
from hermes.state.textfile import replace_text
from hermes.stream.wire import read_entry

_NONE_YET = "No sessions yet. A chat with the gateway begins one."
_RESULT_SHOWN = 200


# --- the command line ------------------------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = Commands(parser)

    def command(name: str, told: str, *, json: bool = False) -> argparse.ArgumentParser:
        added = commands.add(name, told, json=json)
        added.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
        return added

    listed = command("list", "List the sessions, the latest first.", json=True)
    listed.add_argument(
        "-n", "--limit", type=number_to(100_000), default=20, metavar="N", help="how many (20)"
    )
    searched = command("search", "Find what was said, in all sessions.", json=True)
    searched.add_argument("words", nargs="+", help='words that must occur; "a phrase", OR, NOT and wor* work')
    searched.add_argument(
        "-n", "--limit", type=number_to(100_000), default=20, metavar="N", help="how many (20)"
    )
    shown = command("show", "Print a conversation.", json=True)
    shown.add_argument("session", help="its id, the beginning of it, or its title")
    exported = command("export", "Write a conversation as JSONL, one message in OpenAI format a line.")
    exported.add_argument("session", help="its id, the beginning of it, or its title")
    exported.add_argument("-o", "--output", metavar="FILE", help="write to this file instead of stdout")
    deleted = command("delete", "Delete a conversation for good.")
    deleted.add_argument("session", help="its id, the beginning of it, or its title")
    deleted.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    agents = agents_of(load_settings(home, environ).settings)
    if asked.agent is not None and asked.agent not in agents:
        known = ", ".join(agents)
        raise UserError(f"There is no agent “{one_line(asked.agent, 60)}”.", hint=f"Known: {known}.")
    asked.home, asked.several = home, asked.agent is None and len(agents) > 1
    _COMMANDS[asked.command](asked, open_home(home, environ, f"hermes sessions {asked.command}"), console)
    return 0


def _find_one(asked: argparse.Namespace, place: Place) -> tuple[Session, list[Entry]]:
    """The one session that is meant, and its visible transcript."""
    name = asked.session
    found = place.get("/control/session", list[FoundSession], agent=asked.agent, name=name)
    if len(found) == 1:
        return found[0].session, [read_entry(entry) for entry in found[0].entries]
    if found:
        ids = ", ".join(one.session.id for one in found[:5])
        raise UserError(f"“{one_line(name, 60)}” fits {len(found)} sessions.", hint=f"Write more: {ids}")
    raise UserError(
        f"There is no session “{one_line(name, 60)}”.", hint="`hermes sessions list` shows what there is."
    )


# --- the commands ----------------------------------------------------------------------------------


def _list(asked: argparse.Namespace, place: Place, console: Console) -> None:
    found = place.get("/control/sessions", list[Session], agent=asked.agent, limit=asked.limit)
    if asked.json:
        console.json([_facts(session) for session in found])
        return
    if not found:
        console.line(_NONE_YET)
        return
    now = datetime.now(UTC)
    several = asked.several
    rows = [
        [
            session.id,
            ago(session.updated_at, now),
            *([session.agent] if several else []),
            session.title or "–",
            session.place or session.owner or "–",
        ]
        for session in found
    ]
    console.table(["SESSION", "LAST USED", *(["AGENT"] if several else []), "TITLE", "WHERE"], rows, whole=2)


def _search(asked: argparse.Namespace, place: Place, console: Console) -> None:
    words = " ".join(asked.words)
    hits = place.get("/control/search", list[Hit], agent=asked.agent, words=words, limit=asked.limit)
    if asked.json:
        console.json([facts(hit, "session", "title", "seq", "at", "who", "excerpt") for hit in hits])
        return
    if not hits:
        console.line(f"Nothing was said with “{one_line(words, 60)}”.")
        return
    now = datetime.now(UTC)
    rows = [[hit.session, ago(hit.at, now), hit.who, hit.excerpt] for hit in hits]
    console.table(["SESSION", "SAID", "WHO", "WORDS"], rows, whole=3)


def _show(asked: argparse.Namespace, place: Place, console: Console) -> None:
    session, entries = _find_one(asked, place)
    if asked.json:
        console.json({**_facts(session), "messages": as_messages(entries)})
        return
    console.strong(f"{session.title or 'Session'} ({session.id}), agent {session.agent}")
    if not entries:
        console.line("Nothing has been said in it.")
    for entry in entries:
        told = _told(entry)
        if told:
            console.line(f"\n{entry.at.astimezone():%Y-%m-%d %H:%M:%S}  {told}")


def _export(asked: argparse.Namespace, place: Place, console: Console) -> None:
    _, entries = _find_one(asked, place)
    lines = [json.dumps(message, ensure_ascii=False) for message in as_messages(entries)]
    text = "".join(f"{line}\n" for line in lines)
    if asked.output is None:
        console.out.write(text)
        return
    replace_text(Path(asked.output), text, 0o600)
    console.note(f"{len(lines)} messages are in {asked.output}.")


def _delete(asked: argparse.Namespace, place: Place, console: Console) -> None:
    session, entries = _find_one(asked, place)
    name = f"“{session.title}” ({session.id})" if session.title else session.id
    if not asked.yes:
        console.confirm(f"Delete {name} with its {len(entries)} records for good?")
    place.delete("/control/session", NoneType, agent=session.agent, name=session.id)
    log_path(asked.home / FOLDER, session.id).unlink(missing_ok=True)
    console.line(f"{name} is deleted.")


_COMMANDS: dict[str, Callable[[argparse.Namespace, Place, Console], None]] = {
    "list": _list,
    "search": _search,
    "show": _show,
    "export": _export,
    "delete": _delete,
}


# --- a conversation in words and in OpenAI format ----------------------------------------------------


def _told(entry: Entry) -> str:
    """A record as a person reads it; empty for what only machines need."""
    match entry.record:
        case UserSaid() as said:
            files = "".join(f"\n[{file.kind.value}: {file.name or file.ref}]" for file in said.attachments)
            return f"{said.author or 'user'}:\n{said.text}{files}"
        case ModelSaid() as said:
            cut = " (interrupted)" if said.partial else ""
            calls = "".join(f"\n→ {call.name} {one_line(call.arguments, 120)}" for call in said.calls)
            return f"agent{cut}:\n{said.text}{calls}".replace(":\n\n", ":\n")
        case ToolFinished() as done:
            how = "outcome unknown" if done.unknown else "failed" if done.failed else "result"
            return f"tool, {how}: {one_line(done.text, _RESULT_SHOWN)}"
        case Asked() as asked:
            return f"asked: {one_line(asked.text, _RESULT_SHOWN)}"
        case Answered() as answered:
            return f"answered: {answered.verdict.value} {one_line(answered.text, _RESULT_SHOWN)}".rstrip()
        case Summarised() as summary:
            return f"summary of what was said before:\n{summary.text}"
        case Failed() as failed:
            return f"failed: {failed.reason}"
        case Stopped() as stopped:
            return f"stopped: {stopped.reason}".removesuffix(": ")
        case Finished() as finished:
            return f"note: {finished.note}" if finished.note else ""
        case ToolStarted() | Undone():
            return ""


def _facts(session: Session) -> dict[str, Any]:
    names = ("id", "agent", "title", "place", "owner", "model", "created_at", "updated_at")
    return facts(session, *names)
