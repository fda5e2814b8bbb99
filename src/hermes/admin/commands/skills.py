"""`hermes skills`: what agents have learned, and what else they could. It works on the files of a home; a
gateway that runs sees them within a second."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hermes import plugins
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column
from hermes.admin.shell.picker import PickOption, pick_many
from hermes.app.agents.skills import AgentSkills
from hermes.app.egress import AppEgress
from hermes.app.skill_hub import SkillHub, SkillProposal
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.knowledge.skill import Skill, SkillTrust, check_name, find_skills, pick_skill, slug
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.text import closest, list_some, one_line
from hermes.domain.word import replace
from hermes.entry.desk import apply_settings
from hermes.state.home.homes import SKILLS_FOLDER, agent_home, prepare_home
from hermes.state.home.wholefile import write_whole
from hermes.state.settings.by_key import set_setting
from hermes.state.settings.loader import load_settings
from hermes.state.skills.installing import InstalledSkills
from hermes.state.skills.manifest import write_manifest
from hermes.state.skills.package import pack_folder

T = TypeVar("T")
_WHOSE = {"--agent ID": "the agent, if not main"}
_YES = {"-y, --yes": "do not ask"}
_FORCE = {"--force": "also if it was changed here, which is lost"}
_NO_SKILLS = "There are no skills yet. See what there is: hermes skills browse"
_BEGIN = "1. Say what to do first.\n2. Say how to check that it worked."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_choose, faults=False)
    parser.description = (
        "The skills of agents. Without a command it asks which to use, if there is a terminal."
    )
    declare(parser, _WHOSE | JSON)
    add = Subcommands(parser, required=False).add
    add(
        "list",
        "List the skills of an agent.",
        _list,
        _WHOSE | {"--faults": "those that cannot be used"} | JSON,
    )
    add("browse", "List skills that can be installed.", _search, _WHOSE | JSON)
    search = add("search", "Search skills, here and where they can be installed from.", _search)
    declare(search, {"words": "what it should do"} | _WHOSE | JSON)
    source = {"source": "a folder, a zip, https://…, https://…#name, or the name of an optional skill"}
    any_skill = {"source": f"the name of a skill that is there, {source['source']}"}
    add(
        "inspect",
        "Show what a skill does, runs and reaches: one that is there, or before it is installed.",
        _inspect,
        any_skill | _WHOSE,
    )
    add("install", "Install a skill, pinned to its digest.", _install, source | _WHOSE | _YES | _FORCE)
    update = add("update", "Update an installed skill, or all; shows what changes.", _update)
    declare(update, {"[name]": "the skill; all if none is named"} | _WHOSE | _YES | _FORCE)
    add(
        "check",
        "Say which installed skills are out of date or changed; exit code 1 if any.",
        _check,
        _WHOSE | JSON,
    )
    name = {"name": "the skill"}
    add("remove", "Remove an installed skill.", _remove, name | _WHOSE | _YES)
    add("uninstall", "The same as remove.", _remove, name | _WHOSE | _YES)
    platform = {"--platform NAME": "only on this platform or account"}
    add("enable", "Use a skill again.", _enable, name | platform)
    add("disable", "Do without a skill.", _disable, name | platform)
    new = add("new", "Begin a skill of your own.", _new, name)
    declare(new, {"--description TEXT": "what it does and when to use it"} | _WHOSE)


# --- the home ---


def _settings(command: CliCommand) -> Settings:
    names = [manifest.name for manifest in plugins.platform_manifests()]
    return load_settings(command.home, command.environ, platforms=names).settings


def _agent(command: CliCommand) -> AgentId:
    return AgentId(getattr(command.asked, "agent", None) or MAIN_AGENT)


def _home(command: CliCommand, settings: Settings) -> Path:
    agent = _agent(command)
    if agent != MAIN_AGENT and agent not in settings.agents:
        raise UserError(f"There is no agent “{one_line(agent, 60)}”.")
    return agent_home(command.home, agent, settings)


def _hub(command: CliCommand) -> SkillHub:
    settings = _settings(command)
    egress = AppEgress(command.home, command.environ, lambda: settings)
    home = _home(command, settings)
    InstalledSkills(home).recover()
    return SkillHub(home, lambda: settings.skills, egress.client(), egress.pin_host, SystemClock())


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def skills_of(command: CliCommand, *, every: bool = False) -> AgentSkills:
    """With `every`, those too that are disabled."""
    settings = _settings(command)
    if every:
        settings = replace(settings, skills=replace(settings.skills, disabled=()))
    home = _home(command, settings)
    profile = Profile(agent=_agent(command), home=home, settings=settings)
    skills = AgentSkills(profile, lambda: settings, SystemClock())
    skills.recover()
    skills.scan()
    return skills


# --- looking ---


def _print(command: CliCommand, skills: list[Skill], none: str) -> None:
    columns = [
        Column("name", "SKILL"),
        Column("category", "CATEGORY", lambda category: category or "-"),
        Column("trust", "TRUST"),
        Column("description", "DESCRIPTION", lambda text: one_line(text, 200)),
        Column("folder"),
    ]
    command.list(skills, columns, none=none)


def _list(command: CliCommand) -> None:
    skills = skills_of(command)
    if command.asked.faults:
        columns = [Column("folder", "FOLDER"), Column("why", "WHY")]
        command.list(list(skills.faults), columns, none="Every skill can be used.")
        return
    _print(command, list(skills.all()), _NO_SKILLS)
    off = sorted(_settings(command).skills.disabled)
    if off and not command.asked.json:
        command.console.note(f"Not used: {list_some(off)}; take one back: hermes skills enable NAME")
    if skills.faults and not command.asked.json:
        command.console.note(f"{len(skills.faults)} cannot be used; see: hermes skills list --faults")


def _search(command: CliCommand) -> None:
    words = getattr(command.asked, "words", "")
    offered = _run(_hub(command).search(words))
    here = skills_of(command).all() if words else ()
    every = {skill.name: skill for skill in (*offered, *here)}
    _print(command, find_skills(words, every.values(), 50), "Nothing fits.")


def _inspect(command: CliCommand) -> None:
    source = command.asked.source
    here = {skill.name: skill for skill in skills_of(command, every=True).all()}.get(source)
    if here is None:
        _show(command, _run(_hub(command).propose(source)))
    else:
        package = pack_folder(Path(here.folder))
        _show(command, SkillProposal(package=package, source=here.folder, trust=here.trust))


def _show(command: CliCommand, proposal: SkillProposal) -> None:
    for line in proposal.lines():
        command.console.line(line)


# --- changing ---


def _install(command: CliCommand) -> None:
    prepare_home(command.home)
    hub = _hub(command)
    _decide(command, hub, _run(hub.propose(command.asked.source)))


def _decide(command: CliCommand, hub: SkillHub, proposal: SkillProposal) -> None:
    """Show all that is known, ask, install."""
    console, name = command.console, proposal.package.name
    if proposal.is_current:
        console.line(f"{name} is up to date.")
        return
    _show(command, proposal)
    if proposal.changed and not command.asked.force:
        raise UserError(f"{name} was changed here, so it stays.", hint="Add --force to lose those changes.")
    if not command.asked.yes:
        console.confirm(f"Install {name}?")
    pin = _run(hub.install(proposal))
    console.line(f"Installed {pin.name}, pinned to {pin.digest}.")


def _update(command: CliCommand) -> int:
    """One that cannot be updated keeps no other from it."""
    hub = _hub(command)
    names = [command.asked.name] if command.asked.name else sorted(hub.installed.pins())
    if not names:
        command.console.line("No skill was installed from anywhere.")
    failed = 0
    for name in names:
        try:
            _decide(command, hub, _run(hub.propose_update(name)))
        except UserError as error:
            if len(names) == 1:
                raise
            command.console.note(f"{name}: {error}")
            failed = 1
    return failed


def _check(command: CliCommand) -> int:
    hub = _hub(command)
    rows = []
    for name in sorted(hub.installed.pins()):
        try:
            found = _run(hub.propose_update(name))
            state = "changed here" if found.changed else "up to date" if found.is_current else "out of date"
        except UserError as error:
            state = f"not found: {error.message}"
        rows.append({"name": name, "state": state})
    columns = [Column("name", "SKILL"), Column("state", "STATE")]
    command.list(rows, columns, none="No skill was installed from anywhere.")
    return int(any(row["state"] != "up to date" for row in rows))


def _remove(command: CliCommand) -> None:
    hub, name = _hub(command), slug(command.asked.name)
    pin = hub.installed.pins().get(name)
    if pin is None:
        skill = pick_skill(name, skills_of(command).all())
        hint = f"Do without it: hermes skills disable {name}"
        hint = hint if skill.trust is SkillTrust.BUNDLED else f"It is your own: delete {skill.folder}"
        raise UserError(f"{name} was not installed.", hint=hint)
    if not command.asked.yes:
        lost = " It was changed here; those changes are lost." if hub.installed.is_changed(pin) else ""
        command.console.confirm(f"Remove {name}?{lost}")
    _run(hub.remove(name))
    command.console.line(f"Removed {name}.")


def _enable(command: CliCommand) -> None:
    _toggle(command, disabled=False)


def _disable(command: CliCommand) -> None:
    _toggle(command, disabled=True)


def _choose(command: CliCommand) -> None:
    """Which skills are used, switched at the terminal; without one they are listed."""
    if not command.console.interactive or command.asked.json:
        return _list(command)
    off = {slug(name) for name in _settings(command).skills.disabled}
    options = [
        PickOption(key=one.name, detail=one_line(one.description, 120), on=slug(one.name) not in off)
        for one in skills_of(command, every=True).all()
    ]
    if not options:
        command.console.line(_NO_SKILLS)
        return
    before = {option.key for option in options if option.on}
    after = pick_many(command.console, "Which skills?", options)
    for name in sorted(before ^ after):
        command.asked.name, command.asked.platform = name, None
        _toggle(command, disabled=name in before)
    if after == before:
        command.console.line("Nothing was changed.")


def _toggle(command: CliCommand, *, disabled: bool) -> None:
    name, platform, settings = slug(command.asked.name), command.asked.platform, _settings(command)
    key, listed = "skills.disabled", settings.skills.disabled
    if platform:
        key = f"skills.platform_disabled.{platform}"
        there = settings.skills.platform_disabled.get(platform)
        listed = () if there is None else there.disabled
    kept = [each for each in listed if slug(each) != name]
    known = [one.name for one in skills_of(command, every=True).all()]
    prepare_home(command.home)
    set_setting(command.home, key, f"[{', '.join([*kept, name] if disabled else kept)}]")
    command.console.line(f"{name} is {'disabled' if disabled else 'enabled'}.")
    if name not in known:
        near = closest(name, known)
        meant = f" Did you mean {near}?" if near else ""
        command.console.note(f"The main agent has no skill of this name now.{meant}")
    elif platform and not disabled and name in map(slug, settings.skills.disabled):
        command.console.note(f"It is off everywhere; first: hermes skills enable {name}")
    home = open_home(command)
    if home.running:
        home.ask(apply_settings)


def _new(command: CliCommand) -> None:
    name, description = command.asked.name, command.asked.description
    check_name(name)
    prepare_home(command.home)
    folder = _home(command, _settings(command)) / SKILLS_FOLDER / name
    if folder.exists():
        raise UserError(f"There is a skill {name} already: {folder}.")
    text = write_manifest(name, description or f"Say what {name} does and when to use it.", _BEGIN)
    folder.mkdir(mode=0o700, parents=True)
    write_whole(folder / "SKILL.md", text.encode())
    command.console.line(f"Write its steps into {folder / 'SKILL.md'}")
