"""`hermes doctor`: whether everything works, with cause and remedy of what does not; `--fix` does what is
safe. Here: the sandboxes (each is started for a moment), the browser, the files of the home. What else is
looked at is in `doctor_checks.py`. A gateway that runs is asked which boundary it uses."""

from __future__ import annotations

import argparse
import asyncio
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hermes.admin.commands.doctor_checks import CheckState, DoctorCheck, Patient, further_checks
from hermes.admin.commands.status import ask_gateway, failed_chores
from hermes.admin.process.home_files import GATEWAY, home_holder
from hermes.admin.shell.boundary_lines import apart_note, boundary_lines
from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.app.agents.ladder import SandboxProbes, boundary_facts
from hermes.app.agents.terminal_settings import nameless_machine, terminal_problems
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.world import BackendRequest
from hermes.domain.settings.browser import BrowserSettings
from hermes.domain.settings.settings import AUTO, Profile
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.sandboxes.probe import SandboxProbe
from hermes.execution.sandboxes.ssh_machine import NAME as SSH
from hermes.execution.sandboxes.ssh_machine import probe_ssh
from hermes.execution.web.access import NOT_SET_UP, SET_UP
from hermes.execution.web.services import searches
from hermes.plugins import platform_manifests
from hermes.state.home.homes import DATABASE_FILE, agent_home
from hermes.state.settings.loader import (
    CONFIG_FILE,
    SECRETS_FILE,
    LoadedSettings,
    agent_problems,
    load_settings,
)

_ROOT = 0
_OTHERS = 0o077
_NO_ROOT = "Run it as a user of its own: root passes every protection of files, and sandboxes hold less."
_HOLD_PAGES = "Install bubblewrap, and let it work for the gateway's user."
_SEES_ANEW = "Let the gateway look again: hermes config apply"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=run)
    parser.description = "Check that everything works; exit code 1 if something must be put right."
    options = {"--fix": "fix what can be fixed safely", "--offline": "ask no provider and no platform"}
    declare(parser, options | JSON)


def run(command: CliCommand) -> int:
    """The exit code is 1 if something must be put right."""
    home, environ, console = command.home, command.environ, command.console
    loaded = load_settings(home, environ, platforms=[one.name for one in platform_manifests()])
    probes = asyncio.run(SandboxProbes(environ, terminal=lambda: loaded.settings.terminal).get())
    live = ask_gateway(home, environ)
    used = [] if live is None else live["facts"].get("boundaries", [])
    facts = used or boundary_facts(loaded.settings, probes)
    checks = [
        *further_checks(Patient(command=command, loaded=loaded, live=live)),
        *_sandbox_checks(probes, facts),
        *_ssh_checks(home, environ, loaded),
        *_gateway_checks(live, probes),
        *_settings_checks(loaded, environ),
        _browser_check(loaded.settings.browser, environ),
        *_file_checks(home, loaded),
        *_agent_checks(home, loaded),
        _web_check(loaded),
        _root_check(home),
    ]
    if command.asked.fix:
        checks = [_fixed(check, command) for check in checks]
    well = all(check.state is not CheckState.PROBLEM for check in checks)
    if command.asked.json:
        told = {"ok": well, "checks": [check.facts for check in checks]}
        console.json(told | {"boundaries": facts, "gateway": live is not None})
        return 0 if well else 1
    for check in checks:
        console.words(f"{check.state:8}{check.name}: {check.detail}", " " * 8)
        if check.remedy and check.state is not CheckState.OK:
            console.words(" " * 8 + console.spell(check.remedy), " " * 8)
    console.line()
    console.facts([("Sandbox", line) for line in boundary_lines(facts)])
    _tell_next(command, checks)
    return 0 if well else 1


def _fixed(check: DoctorCheck, command: CliCommand) -> DoctorCheck:
    if check.fix is None or check.state is CheckState.OK:
        return check
    try:
        detail = check.fix()
    except (OSError, UserError) as error:
        return replace(check, detail=f"{check.detail}; it could not be fixed ({one_line(str(error), 200)})")
    return DoctorCheck(name=check.name, state=CheckState.OK, detail=f"fixed: {detail}")


def _tell_next(command: CliCommand, checks: Sequence[DoctorCheck]) -> None:
    """What is left to do, by number."""
    console = command.console
    left = [check for check in checks if check.state is CheckState.PROBLEM]
    if left:
        console.line("\nTo do:")
    for number, check in enumerate(left, 1):
        console.words(console.spell(f"{number:2}. {check.name}: {check.remedy or check.detail}"), "    ")
    if any(check.fix is not None and check.state is not CheckState.OK for check in checks):
        console.line(console.spell("\nSome of this can be fixed at once: hermes doctor --fix"))


def _sandbox_checks(
    probes: Sequence[SandboxProbe], facts: Sequence[Mapping[str, Any]]
) -> Iterator[DoctorCheck]:
    """One that does not work matters if it is the one that was named, or if none is left."""
    named = {fact["backend"] for fact in facts if fact["why"]}
    bare = any(fact["ask_all"] or fact["refused"] for fact in facts) and not any(
        probe.works and probe.boundary.holds_strangers for probe in probes
    )
    for probe in probes:
        matters = bare or probe.name in named
        state = CheckState.OK if probe.works else CheckState.PROBLEM if matters else CheckState.NOTE
        detail = f"works ({probe.boundary})" if probe.works else f"does not work: {probe.why}"
        yield DoctorCheck(name=probe.name, state=state, detail=detail, remedy=probe.remedy)
    if not probes:
        yield DoctorCheck(name="sandbox", state=CheckState.PROBLEM, detail="there is none on this system")


def _ssh_checks(home: Path, environ: Mapping[str, str], loaded: LoadedSettings) -> Iterator[DoctorCheck]:
    """Connects, if commands are to run on another machine."""
    settings, machine = loaded.settings, loaded.settings.terminal.ssh_host
    names = (settings.terminal.backend, *(route.backend for route in settings.routes))
    if not machine or SSH not in (name.strip().lower() for name in names):
        return
    request = BackendRequest(
        profile=Profile(agent=MAIN_AGENT, home=home, settings=settings),
        workspace=home,
        environ=environ,
        share=lambda key, make: make(),
    )
    probe = asyncio.run(probe_ssh(request))
    state = CheckState.OK if probe.works else CheckState.PROBLEM
    detail = f"{machine} lets us in" if probe.works else probe.why
    yield DoctorCheck(name=SSH, state=state, detail=detail, remedy=probe.remedy)


def _gateway_checks(live: Mapping[str, Any] | None, probes: Sequence[SandboxProbe]) -> Iterator[DoctorCheck]:
    """What the gateway found at its start may have changed since."""
    if live is None:
        yield DoctorCheck(name="gateway", state=CheckState.OK, detail="not running")
        return
    for chore in failed_chores(live):
        yield DoctorCheck(
            name=chore["name"],
            state=CheckState.PROBLEM,
            detail=chore["outcome"],
            remedy="It is tried again at its next time: hermes status --jobs",
        )
    then = {probe["sandbox"]: probe["works"] for probe in live["facts"].get("sandboxes", [])}
    changed = [probe.name for probe in probes if then and then.get(probe.name) != probe.works]
    detail = f"it found something else about {', '.join(changed)} when it looked" if changed else "running"
    state = CheckState.NOTE if changed else CheckState.OK
    yield DoctorCheck(name="gateway", state=state, detail=detail, remedy=_SEES_ANEW if changed else "")


def _settings_checks(loaded: LoadedSettings, environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    errors = [*loaded.stops, *terminal_problems(loaded, environ), *nameless_machine(loaded)]
    for error in errors:
        yield DoctorCheck(
            name="settings", state=CheckState.PROBLEM, detail=error.message, remedy=error.hint or ""
        )
    if not errors:
        backend = loaded.settings.terminal.backend
        detail = f"terminal.backend is {backend or AUTO}"
        yield DoctorCheck(name="settings", state=CheckState.OK, detail=detail)
    for note in loaded.weak:
        yield DoctorCheck(name="secrets", state=CheckState.NOTE, detail=note.message, remedy=note.hint or "")


def _browser_check(settings: BrowserSettings, environ: Mapping[str, str]) -> DoctorCheck:
    """Starts it for a moment."""
    from hermes.execution.browser.launch import try_browser
    from hermes.execution.browser.program import HOW_TO_INSTALL, find_browser

    found = partial(DoctorCheck, name="browser")
    if settings.cdp_url:
        return found(state=CheckState.OK, detail="that of browser.cdp_url, for owner and admins alone")
    program = find_browser(settings.path, environ)
    if not program:
        what = f"{settings.path} is no program" if settings.path else "there is no Chromium or Chrome"
        state = CheckState.PROBLEM if settings.path else CheckState.NOTE
        return found(state=state, detail=f"{what}, so agents have no browser", remedy=HOW_TO_INSTALL)
    try:
        way = asyncio.run(try_browser(program, environ))
    except UserError as error:
        return found(state=CheckState.PROBLEM, detail=error.message, remedy=error.hint)
    if way.boundary.holds_strangers:
        return found(state=CheckState.OK, detail=f"{program} works, held by {way.name}")
    weak = f"{program} works with {way.name}: strangers get none"
    return found(state=CheckState.NOTE, detail=weak, remedy=_HOLD_PAGES)


def _file_checks(home: Path, loaded: LoadedSettings) -> Iterator[DoctorCheck]:
    """Homes and what is secret in them belong to their user alone."""
    places = [home]
    for name in (MAIN_AGENT, *loaded.settings.agents):
        try:
            folder = agent_home(home, AgentId(name), loaded.settings)
        except UserError:
            continue  # the agent is left out, with the reason
        places += [folder, folder / SECRETS_FILE]
    places += [home / CONFIG_FILE, home / DATABASE_FILE]
    open_to = [place for place in dict.fromkeys(places) if _others_may(place)]
    for place in open_to:
        mode = "700" if place.is_dir() else "600"
        detail = f"others on this machine can get into {place}"
        remedy = f"chmod {mode} {place}"
        # What is in a closed folder is out of reach, whatever its own mode is.
        state = CheckState.NOTE if place != home and home not in open_to and home in place.parents else None
        yield DoctorCheck(
            name="files",
            state=state or CheckState.PROBLEM,
            detail=detail,
            remedy=remedy,
            fix=partial(_close, place, int(mode, 8)),
        )
    if not open_to:
        yield DoctorCheck(name="files", state=CheckState.OK, detail="only you can read the home")


def _agent_checks(home: Path, loaded: LoadedSettings) -> Iterator[DoctorCheck]:
    """Agents that are left out, routes that never count, and what keeps several agents apart."""
    from hermes.admin.commands.route import route_notes

    settings, found = loaded.settings, partial(DoctorCheck, name="agents")
    for error in agent_problems(home, settings):
        yield found(state=CheckState.PROBLEM, detail=f"{error.place}: {error.message}", remedy=error.hint)
    for note in route_notes(settings):
        yield found(state=CheckState.NOTE, detail=note, remedy="hermes route list")
    if detail := apart_note(settings):
        yield found(state=CheckState.NOTE, detail=detail, remedy="Name a sandbox: docs/guides/agents.md")


def _close(place: Path, mode: int) -> str:
    place.chmod(mode)
    return f"{place} is yours alone"


def _web_check(loaded: LoadedSettings) -> DoctorCheck:
    if names := searches(loaded.settings.web, loaded.variable):
        return DoctorCheck(name="web search", state=CheckState.OK, detail=", ".join(names))
    return DoctorCheck(name="web search", state=CheckState.NOTE, detail=NOT_SET_UP, remedy=SET_UP)


def _others_may(place: Path) -> bool:
    try:
        return bool(stat.S_IMODE(place.stat().st_mode) & _OTHERS)
    except OSError:
        return False


def _root_check(home: Path) -> DoctorCheck:
    holder = home_holder(home)
    running = holder is not None and holder.what == GATEWAY
    try:
        user = os.stat(f"/proc/{holder.pid}").st_uid if holder is not None and running else os.getuid()
    except OSError:
        user = os.getuid()
    if user != _ROOT:
        return DoctorCheck(name="user", state=CheckState.OK, detail="not root")
    what = "the gateway runs" if running else "this runs"
    return DoctorCheck(name="user", state=CheckState.PROBLEM, detail=f"{what} as root", remedy=_NO_ROOT)
