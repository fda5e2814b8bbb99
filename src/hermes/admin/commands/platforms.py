"""`hermes platforms`: which there are, what each can do and needs, and whether its credentials work."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.admin.commands.gateway import setup_arguments
from hermes.admin.commands.platform_packages import FURTHER_EXTRAS, install_extra, is_importable, is_installed
from hermes.admin.process.home_files import read_state
from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.output import CliConsole, Column, facts
from hermes.admin.shell.picker import PickOption, pick
from hermes.app.accounts import DeclaredAccount, declared_accounts, make_adapter, state_name
from hermes.control.commands.menu import menu_entries
from hermes.domain.chats.adapter import AdapterContext, Finding
from hermes.domain.chats.address import DEFAULT_ACCOUNT, account_problem, read_platform
from hermes.domain.chats.capabilities import Capabilities, Grade, Manifest, MenuLimits, TextUnit
from hermes.domain.clock import SystemClock
from hermes.domain.errors import HermesError, NeedsLogin, Unreachable, UserError
from hermes.domain.ports.platform import Checks
from hermes.domain.text import one_line
from hermes.plugins import load_app, load_commands, load_login, platform_manifests
from hermes.state.home.findings import nearest
from hermes.state.home.homes import prepare_home
from hermes.state.settings.by_key import set_setting
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.names import PlatformNames

_SECONDS = 45.0
_GOOD, _WRONG = "✓", "✗"
_GRADES = {Grade.FULL: "yes", Grade.PARTIAL: "in part", Grade.NONE: "no"}
_UNITS = {TextUnit.CHARS: "characters", TextUnit.UTF16: "characters (UTF-16)", TextUnit.BYTES: "bytes"}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    name = {"name": "the platform, like telegram, or an account of it, like telegram@work"}
    add("list", "List the platforms, and which of them are used.", _list, JSON)
    add("show", "Show what a platform can do, what it needs, and what is set.", _show, JSON | name)
    setup_arguments(add("setup", "Ask for a platform's settings, test them, and save them.", setup))
    packages = {"name": "the platform, like email; or socks (such proxies), local (models from files)"}
    add("install", "Install the packages that only this platform needs.", _install, packages)
    email = {"name": "the platform, like email, or an account of it, like email@work"}
    add("login", "Log in to a platform by hand, and save the token.", _login, email)
    summary = "Ask the platform whether the credentials work. No message is sent to anyone."
    add("test", summary, _test, JSON | name)
    app = {
        "name": "the platform, like slack, or an account of it, like slack@work",
        "--url URL": "the public address that the platform calls, instead of a socket",
    }
    add("manifest", "Print the description of the app that a platform asks for.", _describe_app, app)


def _list(command: CliCommand) -> None:
    manifests, state = platform_manifests(), read_state(command.home)
    columns = [
        Column("name", "NAME"),
        Column("title", "PLATFORM"),
        Column("enabled", "USED", lambda enabled: "on" if enabled else "off"),
        Column("state", "LAST STATE", value=lambda account: _last_state(state, account.name)),
        Column("missing", "NEEDS", ", ".join),
        Column("evidence", value=lambda account: account.manifest.evidence),
    ]
    command.list(list(declared_accounts(manifests, _loaded(command, manifests))), columns)


def _show(command: CliCommand) -> None:
    declared, console = find_account(command), command.console
    manifest = declared.manifest
    packages = {name: is_importable(name) for name in manifest.requires}
    settings = [
        {
            "variable": declared.variable(field.env),
            "what": field.title,
            "required": field.required,
            "set": bool(declared.find(field.env)),
            "where": field.hint,
        }
        for field in manifest.settings
    ]
    told = {
        "name": declared.name,
        "title": declared.title,
        "enabled": declared.enabled,
        "packages": packages,
        "settings": settings,
        "capabilities": _able(manifest.capabilities),
        "evidence": manifest.evidence,
        "docs": manifest.docs,
    }
    if command.asked.json:
        console.json(told)
        return
    console.strong(declared.title)
    pairs = [("Used", "yes" if declared.enabled else "no")]
    pairs += [("Package", f"{name}{'' if there else ' (missing)'}") for name, there in packages.items()]
    pairs += list(_able_in_words(manifest.capabilities).items())
    pairs += [("Tested", manifest.evidence), ("Guide", manifest.docs)]
    console.facts(pairs)
    console.line()
    rows = [
        [
            str(row["variable"]),
            "set" if row["set"] else "missing" if row["required"] else "not set",
            f"{row['what']}. {row['where']}".strip(),
        ]
        for row in settings
    ]
    console.table(["VARIABLE", "IS", "WHAT IT IS"], rows, whole=2, wrap=True)


def setup(command: CliCommand) -> int:
    from hermes.admin.commands.platform_setup import SetupWizard

    return SetupWizard(command, find_account(command)).run(everything=command.asked.all)


def _install(command: CliCommand) -> None:
    name, console = command.asked.name, command.console
    extra, title = FURTHER_EXTRAS.get(name), name
    if extra is None:
        manifest = find_account(command).manifest
        extra, title = manifest.extra, manifest.title
    if extra is None:
        console.line(f"{title} needs no further packages.")
    elif is_installed(extra):
        console.line(f"The packages for {title} are installed.")
    else:
        install_extra(extra, name, console)


def _login(command: CliCommand) -> None:
    declared, console = find_account(command), command.console
    manifest = declared.manifest
    if not manifest.login:
        raise UserError(f"{declared.title} has no such login.", hint=f"{manifest.docs} says what it needs.")
    kept = log_in_by_hand(declared, command.home, console)
    home = prepare_home(command.home)
    platforms = PlatformNames(names=PlatformNames.of([manifest]).names, variables=tuple(kept))
    for name, value in kept.items():
        written = set_setting(home, declared.variable(name), value, platforms)
        console.line(f"Saved {written.name} in {written.file}.")
    console.line(console.spell(f"Next: hermes platforms test {declared.name}"))


def log_in_by_hand(declared: DeclaredAccount, home: Path, console: CliConsole) -> Mapping[str, str]:
    """What a person's login gives to be kept, by the plain names of the variables."""
    context = AdapterContext(
        settings=declared.block,
        find=declared.find,
        account=declared.account,
        folder=home / "platforms" / declared.name,
        ask=console.ask,
    )
    log_in = load_login(declared.manifest)

    async def ask() -> Mapping[str, str]:
        return await log_in(context, console.line)

    try:
        return asyncio.run(ask())
    except (NeedsLogin, Unreachable) as error:
        told = declared.loaded.secrets.redact(declared.worded(one_line(str(error), 300)))
        raise UserError(f"{told}.", hint="Nothing was saved.") from None


def _test(command: CliCommand) -> int:
    declared, console = find_account(command), command.console
    findings = asyncio.run(findings_of(declared, command.home))
    if not command.asked.json:
        return 0 if tell_findings(findings, console) else 1
    good = all(finding.good for finding in findings)
    told = [facts(one, "good", "text", "hint") for one in findings]
    console.json({"name": declared.name, "good": good, "findings": told})
    return 0 if good else 1


def _describe_app(command: CliCommand) -> None:
    declared = find_account(command)
    manifest, settings = declared.manifest, declared.loaded.settings
    if not manifest.app:
        raise UserError(
            f"{declared.title} asks for no description of an app.",
            hint=f"{manifest.docs} says what it needs.",
        )
    load_commands(settings.plugins)
    context = AdapterContext(settings=declared.block, find=declared.find, account=declared.account)
    entries = menu_entries(manifest.name, settings, manifest.capabilities.menu or MenuLimits())
    command.console.json(load_app(manifest)(context, entries, command.asked.url or ""))


def tell_findings(findings: Sequence[Finding], console: CliConsole) -> bool:
    """Print them; whether all is well."""
    for finding in findings:
        console.words(f"{_GOOD if finding.good else _WRONG} {finding.text}", "  ")
        if finding.hint:
            console.words(f"  {finding.hint}", "  ")
    return all(finding.good for finding in findings)


async def findings_of(declared: DeclaredAccount, home: Path) -> list[Finding]:
    """What the platform itself says of the credentials."""

    def hide(text: str) -> str:
        return declared.loaded.secrets.redact(declared.worded(text))

    try:
        async with asyncio.timeout(_SECONDS):
            platform = await make_adapter(declared, home, clock=SystemClock())
            if not isinstance(platform, Checks):
                return [Finding(good=True, text=f"{declared.title} has nothing that could be tested.")]
            found = await platform.check()
            return [Finding(good=one.good, text=hide(one.text), hint=hide(one.hint)) for one in found]
    except UserError as error:
        return [Finding(good=False, text=hide(error.message), hint=hide(error.hint))]
    except HermesError as error:
        hint = f"See {declared.manifest.docs}."
        return [Finding(good=False, text=hide(one_line(str(error), 300)), hint=hint)]
    except TimeoutError:
        return [Finding(good=False, text=f"{declared.title} did not answer within {_SECONDS:.0f} s.")]


def _chosen(manifests: Sequence[Manifest], console: CliConsole) -> str:
    if not console.interactive:
        raise UserError("Which platform?", hint="`hermes platforms list` shows them.")
    return pick(console, "Which platform?", [PickOption(key=one.name, label=one.title) for one in manifests])


def _loaded(command: CliCommand, manifests: Sequence[Manifest]) -> LoadedSettings:
    return load_settings(command.home, command.environ, platforms=[one.name for one in manifests])


def find_account(command: CliCommand) -> DeclaredAccount:
    """A platform or an account of it, which need not be configured yet."""
    manifests = platform_manifests()
    name = command.asked.name or _chosen(manifests, command.console)
    platform, account = read_platform(name)
    problem = None if account == DEFAULT_ACCOUNT else account_problem(platform, account)
    for manifest in manifests:
        if manifest.name == platform:
            if problem is not None:
                raise problem
            loaded = _loaded(command, manifests)
            return DeclaredAccount(manifest=manifest, loaded=loaded, account=account)
    meant = nearest(platform, [one.name for one in manifests])
    hint = f"Did you mean {meant}?" if meant else "`hermes platforms list` shows them."
    raise UserError(f"There is no platform “{one_line(name, 40)}”.", hint=hint)


def _able(able: Capabilities) -> dict[str, str]:
    """What a platform can do, for programs: names and values stay as they are."""
    facts = {
        "Text": f"{able.max_text:,} {able.unit.value} a message, {able.flavour.value}",
        "Drafts": "edited as the answer grows" if able.edits else "no",
        "Threads": able.threads.value,
        "Buttons": able.buttons.value,
        "Files": ", ".join(kind.value for kind in able.media) or "no",
    }
    more = {"Typing": able.typing, "Reactions": able.reactions, "Looks back": able.history}
    return facts | {name: "yes" for name, there in more.items() if there}


def _able_in_words(able: Capabilities) -> dict[str, str]:
    flavour = able.flavour.value.replace("_", " ")
    shown = _able(able) | {
        "Text": f"{able.max_text:,} {_UNITS[able.unit]} a message, {flavour}",
        "Threads": _GRADES[able.threads],
        "Buttons": _GRADES[able.buttons],
    }
    return {"Reads history" if name == "Looks back" else name: text for name, text in shown.items()}


def _last_state(state: Mapping[str, Any], name: str) -> str:
    platforms = state.get("platforms")
    facts = platforms.get(state_name(name)) if isinstance(platforms, dict) else None
    if not isinstance(facts, dict):
        return ""
    why = facts.get("error_message") or ""
    return f"{facts.get('state', '?')}{f' ({why})' if why else ''}"
