"""`hermes platforms`: which there are, what each can do and needs, and whether its credentials work."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hermes.admin.gateway import setup_arguments
from hermes.admin.output import Commands, Console, facts
from hermes.admin.status import read_state
from hermes.app.accounts import Declared, adapter_maker, declared_accounts
from hermes.domain.address import DEFAULT_ACCOUNT, account_problem, read_platform
from hermes.domain.capabilities import Capabilities, Manifest
from hermes.domain.clock import SystemClock
from hermes.domain.errors import HermesError, NeedsLogin, Unreachable, UserError
from hermes.domain.outfit import Checks, Finding, Outfit
from hermes.domain.text import one_line
from hermes.plugins import load_login, platform_manifests
from hermes.state.findings import nearest
from hermes.state.profiles import prepare_home
from hermes.state.settings import Loaded, load_settings
from hermes.state.settings_write import set_setting

_SECONDS = 45.0
_GOOD, _WRONG = "✓", "✗"


def arguments(parser: argparse.ArgumentParser) -> None:
    command = Commands(parser).add
    command("list", "The platforms there are, and which of them are used.", json=True)
    shown = command("show", "What a platform can do, what it needs, and what of that is set.", json=True)
    shown.add_argument("name", help="the platform, like telegram, or an account of it, like telegram@work")
    setup_arguments(
        command("setup", "Asks for what a platform needs, tries it at the platform, and keeps it.")
    )
    logged = command("login", "Has you let the gateway into a platform by hand, and keeps what it gets.")
    logged.add_argument("name", help="the platform, like email, or an account of it, like email@work")
    tested = command(
        "test", "Ask the platform itself whether the credentials work; nothing is sent to anybody.", json=True
    )
    tested.add_argument("name", help="the platform, like telegram, or an account of it, like telegram@work")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    manifests = platform_manifests()
    loaded = load_settings(home, environ, platforms=[one.name for one in manifests])
    if asked.command == "list":
        return _list(asked, manifests, loaded, read_state(home), console)
    declared = _find(asked.name or _chosen(manifests, console), manifests, loaded)
    if asked.command == "show":
        return _show(asked, declared, console)
    if asked.command == "setup":
        from hermes.admin.platform_setup import Questions

        return Questions(declared, home, environ, console).run(everything=asked.all)
    if asked.command == "login":
        return _login(declared, home, console)
    return _test(asked, declared, home, console)


def _list(
    asked: argparse.Namespace,
    manifests: Sequence[Manifest],
    loaded: Loaded,
    state: Mapping[str, Any],
    console: Console,
) -> int:
    rows: list[dict[str, Any]] = [
        {
            "name": one.name,
            "title": one.title,
            "enabled": one.enabled,
            "missing": one.missing,
            "state": _last_heard(state, one.name),
            "evidence": one.manifest.evidence,
        }
        for one in declared_accounts(manifests, loaded)
    ]
    if asked.json:
        console.json(rows)
        return 0
    cells: list[list[str]] = [
        [
            row["name"],
            row["title"],
            "on" if row["enabled"] else "off",
            row["state"],
            ", ".join(row["missing"]),
        ]
        for row in rows
    ]
    console.table(["NAME", "PLATFORM", "USED", "LAST HEARD OF", "NEEDS"], cells)
    return 0


def _show(asked: argparse.Namespace, declared: Declared, console: Console) -> int:
    manifest = declared.manifest
    packages = {name: _is_there(name) for name in manifest.requires}
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
    facts = {
        "name": declared.name,
        "title": declared.title,
        "enabled": declared.enabled,
        "packages": packages,
        "settings": settings,
        "capabilities": _able(manifest.capabilities),
        "evidence": manifest.evidence,
        "docs": manifest.docs,
    }
    if asked.json:
        console.json(facts)
        return 0
    console.strong(declared.title)
    pairs = [("Used", "yes" if facts["enabled"] else "no")]
    pairs += [("Package", f"{name}{'' if there else ' (missing)'}") for name, there in packages.items()]
    pairs += list(_able(manifest.capabilities).items())
    pairs += [("Tried against", manifest.evidence or "nothing yet"), ("Guide", manifest.docs)]
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
    return 0


def _login(declared: Declared, home: Path, console: Console) -> int:
    manifest = declared.manifest
    if not manifest.login:
        raise UserError(f"{declared.title} has no such login.", hint=f"{manifest.docs} says what it needs.")
    outfit = Outfit(settings=declared.block, find=declared.find, account=declared.account)
    log_in = load_login(manifest)

    async def ask() -> Mapping[str, str]:
        return await log_in(outfit, console.line)

    try:
        kept = asyncio.run(ask())
    except (NeedsLogin, Unreachable) as error:
        told = declared.loaded.secrets.redact(declared.worded(one_line(str(error), 300)))
        raise UserError(f"{told}.", hint="Nothing was kept.") from None
    prepare_home(home)
    for name, value in kept.items():
        written = set_setting(home, declared.variable(name), value, kept)
        console.line(f"{written.name} is kept in {written.file}.")
    console.line(f"Next: hermes platforms test {declared.name}")
    return 0


def _test(asked: argparse.Namespace, declared: Declared, home: Path, console: Console) -> int:
    findings = asyncio.run(findings_of(declared, home))
    if not asked.json:
        return 0 if tell_findings(findings, console) else 1
    good = all(finding.good for finding in findings)
    told = [facts(one, "good", "text", "hint") for one in findings]
    console.json({"name": declared.name, "good": good, "findings": told})
    return 0 if good else 1


def tell_findings(findings: Sequence[Finding], console: Console) -> bool:
    """Print them; whether all is well."""
    for finding in findings:
        console.words(f"{_GOOD if finding.good else _WRONG} {finding.text}", "  ")
        if finding.hint:
            console.words(f"  {finding.hint}", "  ")
    return all(finding.good for finding in findings)


async def findings_of(declared: Declared, home: Path) -> list[Finding]:
    """What the platform itself says of the credentials."""

    def hide(text: str) -> str:
        return declared.loaded.secrets.redact(declared.worded(text))

    try:
        async with asyncio.timeout(_SECONDS):
            platform = await adapter_maker(declared, SystemClock(), home=home)()
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


def _chosen(manifests: Sequence[Manifest], console: Console) -> str:
    if not console.interactive:
        raise UserError("Which platform?", hint="`hermes platforms list` names them.")
    console.table(["NAME", "PLATFORM"], [[one.name, one.title] for one in manifests])
    return console.ask("Which one?")


def _find(name: str, manifests: Sequence[Manifest], loaded: Loaded) -> Declared:
    """A platform, or an account of it, which may be one that nobody has told of yet."""
    platform, account = read_platform(name)
    problem = None if account == DEFAULT_ACCOUNT else account_problem(platform, account)
    for manifest in manifests:
        if manifest.name == platform:
            if problem is not None:
                raise problem
            return Declared(manifest=manifest, loaded=loaded, account=account)
    meant = nearest(platform, [one.name for one in manifests])
    hint = f"Did you mean {meant}?" if meant else "`hermes platforms list` names them."
    raise UserError(f"There is no platform “{one_line(name, 40)}”.", hint=hint)


def _able(able: Capabilities) -> dict[str, str]:
    """What a platform can do, in words."""
    found = {
        "Text": f"{able.max_text:,} {able.unit.value} a message, {able.flavour.value}",
        "Drafts": "edited as the answer grows" if able.edits else "no",
        "Threads": able.threads.value,
        "Buttons": able.buttons.value,
        "Files": ", ".join(kind.value for kind in able.media) or "no",
    }
    more = {"Typing": able.typing, "Reactions": able.reactions, "Looks back": able.history}
    return found | {name: "yes" for name, there in more.items() if there}


def _last_heard(state: Mapping[str, Any], name: str) -> str:
    known = state.get("platforms")
    facts = known.get(name) if isinstance(known, dict) else None
    if not isinstance(facts, dict):
        return ""
    why = facts.get("error_message") or ""
    return f"{facts.get('state', '?')}{f' ({why})' if why else ''}"


def _is_there(package: str) -> bool:
    try:
        return find_spec(package.replace("-", "_")) is not None
    except (ImportError, ValueError):
        return False
