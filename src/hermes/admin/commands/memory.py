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
from hermes.domain.knowledge.memory import EVERYBODY, MemoryEntry
from hermes.domain.text import one_line
from hermes.entry.memories import edit_memory, forget_memory, list_memory
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import set_setting
from hermes.state.settings.loader import load_settings

_LARGEST = 2**62
_PROVIDERS = {
    "hindsight": "Set its key, HINDSIGHT_API_KEY, or your own server, hindsight.api_url.",
    "honcho": "Set its key, HONCHO_API_KEY, or your own server, honcho.base_url.",
}


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
    declare(setup, {"provider": "its name, such as honcho or hindsight"})
    add("off", "Do without a memory provider; what is noted in the home stays.", _off)
    add("status", "Show how much agents remember, and by what.", _show_status, whose | JSON)
    reset = {"--target TARGET": "memory (what is shared), user (what is of persons) or all (all)"}
    declare(
        add(
            "reset", "Forget everything that an agent remembers.", _reset, whose | {"-y, --yes": "do not ask"}
        ),
        reset,
        choices=("memory", "user", "all"),
        default="all",
    )
    forget = add("forget", "Forget an entry, or all about a person.", _forget)
    declare(forget, {"[entry]": "its number"}, type=number_to(_LARGEST))
    declare(forget, whose | {"--person ID": "all about them", "-y, --yes": "do not ask"})


def _off(command: CliCommand) -> None:
    command.asked.provider = "none"
    _setup(command)


def _show_status(command: CliCommand) -> None:
    entries = _entries(command)
    settings = load_settings(command.home, command.environ).settings.memory
    facts = {
        "provider": settings.provider or "none",
        "entries": len(entries),
        "shared": sum(entry.person == EVERYBODY for entry in entries),
        "persons": len({entry.person for entry in entries} - {EVERYBODY}),
    }
    if command.asked.json:
        command.console.json(facts)
    else:
        command.console.facts([(name.capitalize(), str(value)) for name, value in facts.items()])
        _tell_missing_key(command)


def _reset(command: CliCommand) -> None:
    target, home = command.asked.target, open_home(command)
    wanted = [
        entry
        for entry in _entries(command)
        if target == "all" or (entry.person == EVERYBODY) == (target == "memory")
    ]
    if wanted and not command.asked.yes:
        command.console.confirm(f"Forget {len(wanted)} entries permanently?")
    for entry in wanted:
        home.ask(forget_memory, agent=_agent(command), entry=entry.id, person=None)
    command.console.line(
        f"{len(wanted)} entries are forgotten. {STILL_HELD}" if wanted else "Nothing is noted."
    )


def _setup(command: CliCommand) -> None:
    """Install what a provider needs, if that is missing, and choose it."""
    name = command.asked.provider.lower()
    if name != "none" and not plugins.is_installed(plugins.MEMORY, name):
        raise UserError(
            f"There is no memory provider “{one_line(name, 40)}”.",
            hint=f"Known: {', '.join(_PROVIDERS)}, none.",
        )
    extra = FURTHER_EXTRAS.get(name)
    if extra is not None and not is_installed(extra):
        install_extra(extra, name, command.console)
    set_setting(prepare_home(command.home), "memory.provider", name)
    command.console.line(f"memory.provider is {name} from the next start of the gateway on.")
    _tell_missing_key(command)


def _tell_missing_key(command: CliCommand) -> None:
    """Without a key or an address of its own a provider is left out, and only the log would tell."""
    loaded = load_settings(command.home, command.environ)
    name, settings = loaded.settings.memory.provider, loaded.settings
    honcho, hindsight = settings.honcho, settings.hindsight
    own = {"honcho": honcho.base_url, "hindsight": hindsight.api_url}.get(name)
    key = {"honcho": honcho.api_key, "hindsight": hindsight.api_key}.get(name)
    if not own and not key and name in _PROVIDERS and not loaded.variable(f"{name.upper()}_API_KEY"):
        command.console.note(f"{name} cannot be used yet. {_PROVIDERS[name]}")


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
    none = (
        "Nothing fits." if words else "Nothing is remembered yet. Agents note what they are told to remember."
    )
    command.list(_entries(command, words), columns, none=none)


def _export(command: CliCommand) -> None:
    command.console.json([entry_facts(entry) for entry in _entries(command)])


def entry_facts(entry: MemoryEntry) -> dict[str, object]:
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
        command.console.json(entry_facts(entry))
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
