"""`hermes setup`: from nothing to an agent that answers. Each part asks, tries the answers where they count
(the provider, the platform, the sandbox), and only then writes them, in one step. So it can be left at any
point and run again: what was finished stays, and everything else is as before."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator

from msgspec import Struct

from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.admin.shell.picker import PickOption, pick
from hermes.domain.errors import UserError
from hermes.domain.text import closest, list_some, one_line
from hermes.plugins import platform_manifests
from hermes.state.home.homes import prepare_home
from hermes.state.home.textfile import replace_text
from hermes.state.settings.by_key import set_settings
from hermes.state.settings.loader import CONFIG_FILE, LoadedSettings, load_settings
from hermes.state.settings.migration import plan_migration
from hermes.state.settings.names import PlatformNames
from hermes.state.settings.whole_changes import write_change

_DONE = "done"
_OPTIONS = {
    "--non-interactive": "ask nothing: take options and the environment, try them, write them",
    "--provider NAME": "non-interactive: who serves the model; `demo` needs no key",
    "--model NAME": "non-interactive: the model; without it the provider's usual one",
    "--base-url URL": "non-interactive: your own server; its key is in CUSTOM_API_KEY or OPENAI_API_KEY",
    "--platform NAME": "non-interactive: set up this chat platform from its variables",
    "--no-check": "non-interactive: do not try what is set",
    "--quick": "ask only for what is missing",
    "--reconfigure": "ask for everything again (so it always is; what is set is kept with Enter)",
    "--reset": "begin with the default settings; config.yaml is moved aside first",
    "-y, --yes": "do not ask whether to reset",
}
_APPROVALS = {
    "manual": "you are asked before anything dangerous",
    "smart": "a second model decides, and asks you when in doubt",
    "off": "nobody is asked; only for machines that may break",
}


class SetupPart(Struct, frozen=True):
    """One part of the set-up: what it is about, how it stands, and how it is done."""

    name: str
    title: str
    state: Callable[[LoadedSettings], str]
    ask: Callable[[CliCommand], None]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=run)
    parser.description = (
        "Set up Hermes, step by step: every answer is tried before it is written. Stop with Ctrl-C at any"
        " point and run it again."
    )
    parts = ", ".join(part.name for part in PARTS)
    declare(parser, {"[part]": f"only this part: {parts}"} | _OPTIONS | JSON)


def run(command: CliCommand) -> int:
    asked, console = command.asked, command.console
    chosen = _part(asked.part) if asked.part else None
    if asked.reset:
        _reset(command)
    if asked.non_interactive or asked.provider or asked.platform or asked.base_url:
        return _unasked(command)
    if not console.interactive:
        raise UserError(
            "There is no terminal to ask questions in.",
            hint="For scripts: OPENROUTER_API_KEY=… hermes setup --non-interactive --provider openrouter"
            " --model NAME; and per platform: TELEGRAM_BOT_TOKEN=… hermes setup --non-interactive --platform"
            " telegram. Without a key: hermes setup --non-interactive --provider demo",
        )
    prepare_home(command.home)
    try:
        if chosen is not None:
            chosen.ask(command)
        else:
            _guide(command)
    except KeyboardInterrupt:
        console.err.write("\n")
        console.note("Stopped. What was finished is kept; go on with: hermes setup")
        raise
    return 0


def _part(name: str) -> SetupPart:
    for part in PARTS:
        if part.name == name:
            return part
    near = closest(name, [part.name for part in PARTS])
    hint = f"Did you mean {near}?" if near else f"There are: {', '.join(part.name for part in PARTS)}."
    raise UserError(f"There is no part “{one_line(name, 40)}” of the set-up.", hint=hint)


def _loaded(command: CliCommand) -> LoadedSettings:
    platforms = [manifest.name for manifest in platform_manifests()]
    return load_settings(command.home, command.environ, platforms=platforms)


# --- at a terminal -----------------------------------------------------------------------------------


def _guide(command: CliCommand) -> None:
    """First whatever is missing for an answer, then a choice of the rest until somebody is done."""
    console = command.console
    console.strong(f"Hermes {command.version}: set-up")
    console.words(
        "Each answer is tried before it is written. Ctrl-C stops; what is finished stays, and you can run"
        " this again at any time."
    )
    console.line()
    _offer_migration(command)
    if not _has_model(_loaded(command)):
        _do(command, PARTS[0])
        if command.asked.quick:
            return _farewell(command)
    elif command.asked.quick:
        console.line("Nothing is missing.")
        return _farewell(command)
    while True:
        console.line()
        loaded = _loaded(command)
        offers = [PickOption(key=_DONE, label="Done", detail="begin to talk")]
        offers += [PickOption(key=one.name, label=one.title, detail=one.state(loaded)) for one in PARTS]
        try:
            chosen = pick(console, "What next?", offers)
        except UserError:  # whoever leaves here has finished
            chosen = _DONE
        if chosen == _DONE:
            return _farewell(command)
        _do(command, _part(chosen))


def _offer_migration(command: CliCommand) -> None:
    """A file of an older version, after asking."""
    planned = plan_migration(command.home, PlatformNames.of(platform_manifests()).names)
    if planned.change is not None and planned.changes:
        command.console.words(f"config.yaml has older names: {', '.join(planned.changes)}.")
        if command.console.ask("Rename them? Nothing else changes. [Y/n]").lower() in ("", "y", "yes"):
            write_change(planned.change)


def _do(command: CliCommand, part: SetupPart) -> None:
    """Whoever leaves a part comes back to the choice."""
    command.console.strong(part.title)
    try:
        part.ask(command)
    except UserError as error:
        command.console.words(f"{error.message} {command.console.spell(error.hint)}".rstrip())


def _farewell(command: CliCommand) -> None:
    console = command.console
    console.line()
    console.line(console.spell("Talk with it:      hermes chat"))
    console.line(console.spell("Ask one thing:     hermes -q 'What is in this folder?'"))
    if any(one.enabled for one in _loaded(command).settings.platforms.values()):
        console.line(console.spell("Serve the chats:   hermes gateway start"))
    console.line(console.spell("If something is wrong: hermes doctor"))


def _has_model(loaded: LoadedSettings) -> bool:
    model = loaded.settings.model
    keyed = bool(model.api_key or model.base_url or model.path or loaded.credentials)
    return keyed or model.provider not in ("", "auto")


def _ask_model(command: CliCommand) -> None:
    from hermes.admin.commands.model_setup import ask_model

    ask_model(command)


def _ask_terminal(command: CliCommand) -> None:
    """Each sandbox of this machine is started for a moment before it is offered."""
    from hermes.admin.commands.config import check_terminal
    from hermes.admin.commands.sandbox_services import SERVICES, have_service
    from hermes.app.agents.ladder import SandboxProbes

    command.console.line("Trying the sandboxes …")
    settings = _loaded(command).settings.terminal
    probes = asyncio.run(SandboxProbes(command.environ, terminal=lambda: settings).get())
    offers = [
        PickOption(key="auto", detail="your terminal: this machine; everybody else: the best sandbox here"),
        PickOption(key="local", detail="no sandbox; commands run as you, on this machine"),
    ]
    offers += [
        PickOption(key=one.name, detail="works" if one.works else f"does not work: {one.why}")
        for one in probes
    ]
    offers += [
        PickOption(key=name, detail=f"a sandbox of {service.title}, elsewhere; needs a key")
        for name, service in SERVICES.items()
    ]
    chosen = pick(command.console, "Where do the agent's commands run?", offers)
    bad = next((one for one in probes if one.name == chosen and not one.works), None)
    if bad is not None:
        raise UserError(f"{chosen} does not work here: {bad.why}", hint=bad.remedy)
    check_terminal(command, "terminal.backend", chosen)
    if chosen in SERVICES:
        have_service(command, chosen, _loaded(command))
    set_settings(command.home, {"terminal.backend": chosen})
    command.console.line(f"terminal.backend is {chosen}.")


def _ask_agent(command: CliCommand) -> None:
    now = _loaded(command).settings
    offers = [PickOption(key=mode, detail=text) for mode, text in _APPROVALS.items()]
    mode = pick(command.console, "Who decides about dangerous actions?", offers)
    while True:
        turns = command.console.ask(f"How many steps may one task take? (Enter: {now.agent.max_turns})")
        turns = turns or str(now.agent.max_turns)
        if turns.isascii() and turns.isdigit() and 1 <= int(turns) <= 10_000:
            break
        command.console.line("That is no number from 1 to 10000.")
    set_settings(command.home, {"approvals.mode": mode, "agent.max_turns": turns})
    command.console.line(f"Approvals: {mode}; at most {turns} steps.")


def _ask_platform(command: CliCommand) -> None:
    from hermes.admin.commands.platform_setup import SetupWizard
    from hermes.admin.commands.platforms import find_account

    command.asked.name = None
    SetupWizard(command, find_account(command)).run(everything=False)


def _ask_tools(command: CliCommand) -> None:
    from hermes.admin.commands.tools import choose

    command.asked.platform = command.asked.agent = None
    choose(command)


def _ask_voice(command: CliCommand) -> None:
    """What it takes to hear and to speak without any service."""
    from hermes.admin.commands.platform_packages import FURTHER_EXTRAS, install_extra, is_installed

    for name, what in (("stt", "understand voice messages on this machine"), ("tts", "speak its answers")):
        extra = FURTHER_EXTRAS[name]
        if is_installed(extra):
            command.console.line(f"The packages to {what} are installed.")
        elif command.console.ask(f"Install what it takes to {what}? [y/N]").lower() in ("y", "yes"):
            install_extra(extra, name, command.console)


def _platforms_of(loaded: LoadedSettings) -> Iterator[str]:
    from hermes.app.accounts import declared_accounts

    return (one.name for one in declared_accounts(platform_manifests(), loaded) if one.enabled)


PARTS = (
    SetupPart(
        "model", "Model", lambda now: now.settings.model.default or now.settings.model.provider, _ask_model
    ),
    SetupPart(
        "gateway", "Chat platforms", lambda now: list_some([*_platforms_of(now)]) or "none", _ask_platform
    ),
    SetupPart("terminal", "Sandbox", lambda now: now.settings.terminal.backend, _ask_terminal),
    SetupPart("agent", "Approvals and limits", lambda now: now.settings.approvals.mode, _ask_agent),
    SetupPart("tools", "Tools", lambda now: "which toolsets agents have", _ask_tools),
    SetupPart("tts", "Voice", lambda now: "voice messages in and out", _ask_voice),
)


# --- from a script, and anew -------------------------------------------------------------------------


def _unasked(command: CliCommand) -> int:
    asked, console = command.asked, command.console
    if not (asked.provider or asked.platform or asked.base_url):
        raise UserError(
            "There is nothing to set up.", hint="Name a --provider, a --base-url or a --platform."
        )
    told: dict[str, str] = {}
    prepare_home(command.home)
    if asked.provider or asked.base_url:
        from hermes.admin.commands.model_setup import set_model

        told["model"] = set_model(command)
    if asked.platform:
        from hermes.admin.commands.platform_setup import SetupWizard
        from hermes.admin.commands.platforms import find_account

        asked.name = asked.platform
        SetupWizard(command, find_account(command)).run_unasked(check=not asked.no_check)
        told["platform"] = f"{asked.platform} is set up."
    if asked.json:
        console.json({"ok": True, "home": str(command.home), **told})
    else:
        for line in told.values():
            console.line(line)
    return 0


def _reset(command: CliCommand) -> None:
    """The old file is kept under another name; secrets, conversations and memory stay."""
    path = command.home / CONFIG_FILE
    if not path.exists():
        return
    if not command.asked.yes:
        command.console.confirm(f"Begin with the default settings? {path} is moved aside.")
    number = 1
    while (aside := path.with_name(f"{CONFIG_FILE}.reset-{number}")).exists():
        number += 1
    replace_text(aside, path.read_text(encoding="utf-8", errors="replace"), 0o600)
    path.unlink()
    command.console.note(f"The settings as they were: {aside}")
