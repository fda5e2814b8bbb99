"""`hermes sessions`: list, search, show, export, rename, archive, prune and delete conversations, whether a
gateway runs or not; optimize and repair their database while none does."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from html import escape
from pathlib import Path

from hermes.admin.process.home_files import hold_home
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, UsageError, declare, number_to
from hermes.admin.shell.home import HomeAccess, agents_of, open_home
from hermes.admin.shell.output import Column, ago, dash, facts
from hermes.admin.shell.picker import PickOption, pick
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.text import one_line, size_told
from hermes.domain.turns.chat_format import as_messages
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Cleared,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Restored,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)
from hermes.domain.turns.session import Session
from hermes.entry.desk import (
    delete_session,
    find_session,
    list_sessions,
    list_unused,
    put_away,
    rename_session,
    search,
)
from hermes.state.files.session_log import FOLDER, log_path
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.home.textfile import replace_text
from hermes.state.settings.loader import load_settings
from hermes.stream.wire.socket import read_entry

_NONE_YET = "No sessions yet. A chat with the agent starts one: hermes"
_RESULT_SHOWN = 200
_FORMATS = ("jsonl", "md", "html")
_MOST_PRUNED = 10_000
_MOST_BROWSED = 200
_HTML = """<!doctype html>
<html><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto}}pre{{white-space:pre-wrap}}</style>
</head><body><h1>{title}</h1>
{body}</body></html>
"""
_FACTS = ("id", "agent", "title", "place", "owner", "model", "created_at", "updated_at")


# --- the command line ------------------------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    agent = {"--agent NAME": "only sessions of this agent"}
    named = agent | {"session": "its id, the beginning of the id, or its title"}
    listed = add("list", "List the sessions, latest first.", _list, JSON | agent)
    searched = add("search", "Search the messages of all sessions.", _search, JSON | agent)
    searched.add_argument("words", nargs="+", help='words that must occur; "a phrase", OR, NOT and wor* work')
    declare(listed, {"--source NAME": "only of this platform, like telegram or terminal, or with this tag"})
    declare(listed, {"--archived": "those that are archived, and no others"})
    for limited in (listed, searched):
        declare(limited, {"-n, --limit N": "how many (20)"}, type=number_to(100_000), default=20)
    add("show", "Print a conversation.", _show, JSON | named)
    add("browse", "Choose a conversation from a list, and go on with it.", _browse, agent)
    add("stats", "Show how many conversations there are, where, and since when.", _stats, JSON | agent)
    summary = "Write a conversation: JSONL (one message in OpenAI format a line), Markdown or HTML."
    exported = add(
        "export", summary, _export, named | {"-o, --output FILE": "write to this file, not stdout"}
    )
    declare(exported, {"--format FORMAT": "jsonl, md or html (jsonl)"}, choices=_FORMATS, default="jsonl")
    add("rename", "Give a conversation another title.", _rename, named | {"title": "the title"})
    summary = "Take a conversation out of the lists until somebody uses it again. Nothing of it is deleted."
    archived = add("archive", summary, _archive, {"[session]": named["session"]} | agent)
    declare(archived, {"--older-than DAYS": "those without use for so many days"}, type=number_to(36_500))
    declare(archived, {"--undo": "put it back into the lists", "--dry-run": "only list them"} | JSON)
    words = {"-y, --yes": "do not ask", "--dry-run": "only list them"} | JSON | agent
    pruned = add("prune", "Delete conversations that were not used for long.", _prune, words)
    declare(pruned, {"--older-than DAYS": "days without use (90)"}, type=number_to(36_500), default=90)
    add("delete", "Delete a conversation permanently.", _delete, named | {"-y, --yes": "do not ask"})
    add(
        "optimize",
        "Make the database smaller and its search quicker, while no gateway runs.",
        _optimize,
        JSON,
    )
    summary = "Check the whole database and mend what is damaged, while no gateway runs."
    add("repair", summary, _repair, JSON)


def _open(command: CliCommand) -> tuple[HomeAccess, bool]:
    """The home, and whether sessions of several agents are meant."""
    agents, wanted = agents_of(load_settings(command.home, command.environ).settings), command.asked.agent
    if wanted is not None and wanted not in agents:
        raise UserError(f"There is no agent “{one_line(wanted, 60)}”.", hint=f"Agents: {', '.join(agents)}.")
    return open_home(command), wanted is None and len(agents) > 1


def _find_one(command: CliCommand) -> tuple[HomeAccess, Session, list[Entry]]:
    """The session that the name selects, and its visible transcript."""
    name, place = command.asked.session, _open(command)[0]
    matches = place.ask(find_session, agent=command.asked.agent, name=name)
    if len(matches) == 1:
        return place, matches[0].session, [read_entry(entry) for entry in matches[0].entries]
    if matches:
        ids = ", ".join(match.session.id for match in matches[:5])
        raise UserError(
            f"“{one_line(name, 60)}” matches {len(matches)} sessions.", hint=f"Write more of the id: {ids}"
        )
    raise UserError(f"There is no session “{one_line(name, 60)}”.", hint="`hermes sessions list` shows them.")


# --- the commands ----------------------------------------------------------------------------------


def _list(command: CliCommand) -> None:
    asked = command.asked
    place, several = _open(command)
    sessions = place.ask(
        list_sessions, agent=asked.agent, limit=asked.limit, source=asked.source, archived=asked.archived
    )
    columns = [
        Column("id", "SESSION"),
        Column("updated_at", "LAST USED", ago),
        Column("agent", "AGENT" if several else ""),
        Column("title", "TITLE", dash),
        Column("place"),
        Column("owner"),
        Column("tag"),
        Column("archived"),
        Column("", "WHERE", dash, lambda session: session.tag or session.place or session.owner),
        Column("model"),
        Column("created_at"),
    ]
    none = "There is no such session." if asked.archived or asked.source else _NONE_YET
    command.list(sessions, columns, none=none, whole=2)


def _browse(command: CliCommand) -> None:
    """The chat takes the place of this process."""
    place, agent = _open(command)[0], command.asked.agent
    sessions = place.ask(list_sessions, agent=agent, limit=_MOST_BROWSED, archived=False)
    if not sessions:
        command.console.line(_NONE_YET)
        return
    if not command.console.interactive:
        raise UserError("There is no terminal to choose in.", hint="See: hermes sessions list")
    options = [
        PickOption(
            key=one.id, label=one.title or one.id, detail=f"{ago(one.updated_at)}, {one.place or one.owner}"
        )
        for one in sessions
    ]
    chosen = pick(command.console, "Which conversation?", options)
    words = [sys.executable, "-P", "-m", "hermes", "--resume", chosen]
    environ = {**command.environ, "HERMES_HOME": str(command.home)}
    environ.pop("HERMES_PROFILE", None)
    command.console.err.flush()
    os.execve(sys.executable, words, environ)


def _stats(command: CliCommand) -> None:
    sessions = _open(command)[0].ask(list_sessions, agent=command.asked.agent, limit=_MOST_PRUNED)
    places = Counter((one.place or one.owner or "?").partition(":")[0] for one in sessions)
    facts = {
        "sessions": len(sessions),
        "archived": sum(one.archived for one in sessions),
        "first": min((one.created_at for one in sessions), default=None),
        "last used": max((one.updated_at for one in sessions), default=None),
        **{f"from {place}": count for place, count in places.most_common()},
    }
    shown = {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in facts.items()
    }
    if command.asked.json:
        command.console.json(shown)
    elif not sessions:
        command.console.line(_NONE_YET)
    else:
        command.console.facts([(name.capitalize(), str(value)) for name, value in shown.items()])


def _search(command: CliCommand) -> None:
    place, words = _open(command)[0], " ".join(command.asked.words)
    hits = place.ask(search, agent=command.asked.agent, words=words, limit=command.asked.limit)
    columns = [
        Column("session", "SESSION"),
        Column("at", "SAID", ago),
        Column("who", "WHO"),
        Column("excerpt", "WORDS"),
        Column("title"),
        Column("seq"),
    ]
    command.list(hits, columns, none=f"No message matches “{one_line(words, 60)}”.", whole=3)


def _show(command: CliCommand) -> None:
    console = command.console
    _, session, entries = _find_one(command)
    if command.asked.json:
        console.json({**facts(session, *_FACTS), "messages": as_messages(entries)})
        return
    console.strong(f"{session.title or 'Session'} ({session.id}), agent {session.agent}")
    if not entries:
        console.line("Nothing has been said in it.")
    for entry in entries:
        if text := _readable(entry):
            console.line(f"\n{entry.at.astimezone():%Y-%m-%d %H:%M:%S}  {text}")


def _export(command: CliCommand) -> None:
    _, session, entries = _find_one(command)
    lines = [json.dumps(message, ensure_ascii=False) for message in as_messages(entries)]
    text = "".join(f"{line}\n" for line in lines)
    if command.asked.format != "jsonl":
        text = _page(session, entries, command.asked.format)
    output = command.asked.output
    if output is None:
        command.console.out.write(text)
        return
    replace_text(Path(output), text, 0o600)
    command.console.note(f"{len(lines)} messages are in {output}.")


def _page(session: Session, entries: list[Entry], form: str) -> str:
    """The conversation as people read it, as a page of Markdown or HTML."""
    title = session.title or session.id
    parts = ((entry.at.astimezone(), _readable(entry)) for entry in entries)
    told = [(f"{at:%Y-%m-%d %H:%M}", text) for at, text in parts if text]
    if form == "html":
        sections = [f"<h3>{at}</h3>\n<pre>{escape(text)}</pre>\n" for at, text in told]
        return _HTML.format(title=escape(title), body="".join(sections))
    return f"# {one_line(title, 200)}\n" + "".join(f"\n## {at}\n\n{text}\n" for at, text in told)


def _rename(command: CliCommand) -> None:
    place, session, _ = _find_one(command)
    renamed = place.ask(rename_session, agent=session.agent, name=session.id, title=command.asked.title)
    called = f"is called “{renamed.title}”" if renamed.title else "has no title now"
    command.console.line(f"{session.id} {called}.")


def _archive(command: CliCommand) -> None:
    """One that is named, or all that were not used for long."""
    asked = command.asked
    if (asked.session is None) == (asked.older_than is None):
        raise UsageError("Name a conversation, or say --older-than DAYS.")
    if asked.session is not None:
        place, one, _ = _find_one(command)
        chosen = [] if one.archived is not asked.undo else [one]
    elif asked.undo:
        raise UsageError("--undo needs the name of a conversation.")
    else:
        place = _open(command)[0]
        unused = place.ask(list_unused, days=asked.older_than, limit=_MOST_PRUNED, agent=asked.agent)
        chosen = [one for one in unused if not one.archived]
    columns = [Column("id", "SESSION"), Column("updated_at", "LAST USED", ago)]
    columns += [Column("title", "TITLE", dash), Column("agent")]
    command.list(chosen, columns, none="There is nothing to do.")
    if asked.dry_run:
        return
    for one in chosen:
        place.ask(put_away, name=one.id, agent=one.agent, archived=not asked.undo)
    if chosen:
        where = "in the lists again" if asked.undo else "archived: hermes sessions list --archived"
        command.console.note(f"Conversations {where} ({len(chosen)}).")


def _prune(command: CliCommand) -> None:
    place, days = _open(command)[0], command.asked.older_than
    unused = place.ask(list_unused, days=days, limit=_MOST_PRUNED, agent=command.asked.agent)
    columns = [Column("id", "SESSION"), Column("updated_at", "LAST USED", ago)]
    columns += [Column("title", "TITLE", dash), Column("agent")]
    command.list(unused, columns, none=f"Every conversation was used in the last {days} days.")
    if command.asked.dry_run or not unused:
        return
    if not command.asked.yes:
        command.console.confirm(f"Delete these {len(unused)} conversations permanently?")
    for session in unused:
        place.ask(delete_session, agent=session.agent, name=session.id)
        log_path(command.home / FOLDER, session.id).unlink(missing_ok=True)
    command.console.note(f"{len(unused)} conversations are deleted.")


def _delete(command: CliCommand) -> None:
    place, session, entries = _find_one(command)
    name = f"“{session.title}” ({session.id})" if session.title else session.id
    if not command.asked.yes:
        command.console.confirm(f"Delete {name} with its {len(entries)} records permanently?")
    place.ask(delete_session, agent=session.agent, name=session.id)
    log_path(command.home / FOLDER, session.id).unlink(missing_ok=True)
    command.console.line(f"{name} is deleted.")


@contextmanager
def _resting(command: CliCommand) -> Iterator[Path]:
    """The database, in nobody else's hands."""
    if HomeAccess(command=command, gateway=None).empty:
        raise UserError("There is no database yet.", hint="A chat with the agent makes it: hermes")
    with hold_home(command.home, command.name):
        yield command.home / DATABASE_FILE


def _optimize(command: CliCommand) -> None:
    from hermes.state.store.care.on_demand import optimize

    with _resting(command) as path:
        done = optimize(path)
    if command.asked.json:
        command.console.json(facts(done, "before", "after"))
    else:
        command.console.line(f"{path} takes {size_told(done.after)} now; it took {size_told(done.before)}.")


def _repair(command: CliCommand) -> None:
    from hermes.state.store.care.on_demand import examine_in_full

    with _resting(command) as path:
        notices = asyncio.run(examine_in_full(path, SystemClock()))
    if command.asked.json:
        command.console.json({"sound": not notices, "notices": list(notices)})
        return
    for line in notices or [f"{path} was checked in full: nothing is damaged."]:
        command.console.line(line)


# --- a conversation in words and in OpenAI format ----------------------------------------------------


def _readable(entry: Entry) -> str:
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
        case ToolStarted() | Undone() | Cleared() | Restored():
            return ""
