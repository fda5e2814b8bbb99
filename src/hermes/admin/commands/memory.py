"""`hermes memory`: what agents remember, by entry and by person."""

from __future__ import annotations

import argparse

from hermes import plugins
from hermes.admin.commands.platform_packages import FURTHER_EXTRAS, install_extra, is_installed
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare, number_to
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column, ago
from hermes.control.people.memory import STILL_HELD
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.memory import EVERYBODY, MemoryEntry
from hermes.domain.text import one_line
from hermes.entry.memories import edit_memory, forget_memory, list_memory
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import set_setting

_LARGEST = 2**62


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    whose = {"--agent ID": "the agent, if not main"}
    person = {"--person ID": "only what is about them: owner, or as in the list"}
    add("list", "List what an agent remembers.", _list, whose | person | JSON)
    search = add("search", "Search it, the archive included.", _list, {"words": "what to look for"})
    declare(search, whose | person | JSON)
    add("export", "Print all entries as JSON.", _export, whose | person)
    number = {"entry": "its number, as in the list"}
    show, edit = add("show", "Print an entry.", _show), add("edit", "Change an entry.", _edit)
    for command in (show, edit):
        declare(command, number, type=number_to(_LARGEST))
        declare(command, whose)
    declare(show, JSON)
    declare(edit, {"[text]": "what it says from now on", "--share": "tell everybody's sessions of it"})
    declare(edit, {"--unshare": "tell only sessions of its person"})
    setup = add("setup", "Install what a memory provider needs, and choose it.", _setup)
    declare(setup, {"provider": "its name, such as honcho"})
    forget = add("forget", "Forget an entry, or all about a person.", _forget)
    declare(forget, {"[entry]": "its number"}, type=number_to(_LARGEST))
    declare(forget, whose | {"--person ID": "all about them", "-y, --yes": "do not ask"})


def _setup(command: CliCommand) -> None:
    """Install what a provider needs, if that is missing, and choose it."""
    name = command.asked.provider.lower()
    if name != "none" and not plugins.is_installed(plugins.MEMORY, name):
        raise UserError(f"There is no memory provider “{one_line(name, 40)}”.", hint="Known: honcho, none.")
    extra = FURTHER_EXTRAS.get(name)
    if extra is not None and not is_installed(extra):
        install_extra(extra, name, command.console)
    set_setting(prepare_home(command.home), "memory.provider", name)
    command.console.line(f"memory.provider is {name} from the next start of the gateway on.")
    if name == "honcho":
        command.console.line("Its key is HONCHO_API_KEY; your own server is honcho.base_url.")


def _agent(command: CliCommand) -> str:
    return command.asked.agent or MAIN_AGENT


def _entries(command: CliCommand, words: str = "") -> list[MemoryEntry]:
    person = getattr(command.asked, "person", None)
    return open_home(command).ask(list_memory, agent=_agent(command), person=person, words=words)


def _list(command: CliCommand) -> None:
    columns = [
        Column("id", "ENTRY"),
        Column("person", "WHOSE", lambda person: person or "agent"),
        Column("target", "ABOUT"),
        Column("at", "NOTED", ago),
        Column("in_prompt", "TOLD", lambda in_prompt: "yes" if in_prompt else "by search"),
        Column("text", "TEXT", lambda text: one_line(text, 300)),
        Column("author"),
        Column("turn"),
        Column("shared"),
    ]
    words = getattr(command.asked, "words", "")
    none = "Nothing fits." if words else "Nothing is remembered yet."
    command.list(_entries(command, words), columns, none=none)


def _export(command: CliCommand) -> None:
    command.console.json([_as_json(entry) for entry in _entries(command)])


def _as_json(entry: MemoryEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "person": entry.person,
        "target": entry.target.value,
        "text": entry.text,
        "author": entry.author,
        "turn": entry.turn,
        "at": entry.at.isoformat(),
        "in_prompt": entry.in_prompt,
        "shared": entry.shared,
    }


def _show(command: CliCommand) -> None:
    entry = next((one for one in _entries(command) if one.id == command.asked.entry), None)
    if entry is None:
        raise UserError(f"There is no entry {command.asked.entry}.", hint="`hermes memory list` shows them.")
    if command.asked.json:
        command.console.json(_as_json(entry))
        return
    command.console.line(entry.text)
    whose = "the agent" if entry.person == EVERYBODY else entry.person
    command.console.note(f"about {entry.target}, of {whose}, noted {entry.at:%Y-%m-%d %H:%M} {entry.author}")


def _edit(command: CliCommand) -> None:
    asked = command.asked
    shared = True if asked.share else False if asked.unshare else None
    if asked.text is None and shared is None:
        raise UserError("Nothing to change.", hint="Give a text, --share or --unshare.")
    open_home(command).ask(
        edit_memory, agent=_agent(command), entry=asked.entry, text=asked.text, shared=shared
    )
    command.console.line(f"Entry {asked.entry} is changed.")


def _forget(command: CliCommand) -> None:
    asked = command.asked
    if (asked.entry is None) == (asked.person is None):
        raise UserError("Name the entry to forget, or a --person.")
    if not asked.yes:
        what = f"entry {asked.entry}" if asked.person is None else f"all that is noted about {asked.person}"
        command.console.confirm(f"Forget {what}?")
    count = open_home(command).ask(
        forget_memory, agent=_agent(command), entry=asked.entry, person=asked.person
    )
    if not count:
        raise UserError("There is no such entry.", hint="`hermes memory list` shows them.")
    command.console.line(f"Forgotten: {count}. {STILL_HELD}")
