"""`hermes security audit`: settings and files that let others in, or let an agent out, each with how bad it
is and what to do. One rule is one function; a rule finds things, it never changes any."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.output import Column
from hermes.domain.ports.world import LOCAL
from hermes.domain.text import one_line
from hermes.plugins import platform_manifests
from hermes.state.files.subscriptions import WebhookSubscriptions
from hermes.state.home.homes import DATABASE_FILE, SKILLS_FOLDER
from hermes.state.settings.loader import CONFIG_FILE, SECRETS_FILE, LoadedSettings, load_settings
from hermes.state.settings.names import is_key_like

_ROOT = 0
_CODE_FOLDERS = ("hooks", "scripts", SKILLS_FOLDER)
_LOOPBACK = ("", "localhost")


class Severity(IntEnum):
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class AuditFinding(Struct, frozen=True, kw_only=True):
    id: str
    severity: Severity
    text: str
    fix: str


class AuditedHome(Struct, frozen=True, kw_only=True):
    home: Path
    environ: Mapping[str, str]
    loaded: LoadedSettings


Rule = Callable[[AuditedHome], Iterator[AuditFinding]]


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    summary = "Look for settings and files that let others in; exit code 1 if there are any that matter."
    audited = add("audit", summary, _audit, JSON)
    levels = [severity.name.lower() for severity in Severity]
    declare(audited, {"--fail-on LEVEL": "from which severity (medium)"}, choices=levels, default="medium")
    declare(audited, {"--skip ID": "leave this finding out (repeatable)"}, action="append", default=[])


def _audit(command: CliCommand) -> int:
    found = [one for one in audit(command.home, command.environ) if one.id not in command.asked.skip]
    columns = [
        Column("severity", value=lambda finding: finding.severity.name.lower()),
        Column("id"),
        Column("text"),
        Column("fix"),
    ]
    failed = any(one.severity >= Severity[command.asked.fail_on.upper()] for one in found)
    if command.asked.json or not found:
        command.list(
            found, columns, none="Nothing was found.", wrap=lambda rows: {"ok": not failed, "findings": rows}
        )
        return int(failed)
    console = command.console
    for one in found:
        console.words(f"{one.severity.name.lower():9}{one.id}: {one.text}", " " * 9)
        console.words(" " * 9 + console.spell(one.fix), " " * 9)
    console.line(f"\n{len(found)} finding{'s' * (len(found) != 1)}.")
    return int(failed)


def audit(home: Path, environ: Mapping[str, str]) -> list[AuditFinding]:
    """All findings, the worst first."""
    loaded = load_settings(home, environ, platforms=[one.name for one in platform_manifests()])
    place = AuditedHome(home=home, environ=environ, loaded=loaded)
    found = [finding for rule in RULES for finding in rule(place)]
    return sorted(found, key=lambda finding: -finding.severity)


def _found(name: str, severity: Severity, text: str, fix: str) -> AuditFinding:
    return AuditFinding(id=one_line(name, 80), severity=severity, text=text, fix=fix)


# --- people ------------------------------------------------------------------------------------------


def _everybody(place: AuditedHome) -> Iterator[AuditFinding]:
    """Accounts that anybody may write to; without a sandbox that is a shell for strangers."""
    settings = place.loaded.settings
    bare = settings.terminal.backend.strip().lower() == LOCAL
    severity = Severity.CRITICAL if bare else Severity.HIGH
    fix = "hermes config set {0}allow_all_users false, and name people in {0}allowed_users"
    if settings.allow_all_users or "*" in settings.allowed_users:
        yield _found("everybody", severity, "Everybody may write to every platform.", fix.format(""))
    for name, block in settings.platforms.items():
        own = f"platforms.{name}."
        if block.enabled is not False and (block.allow_all_users or "*" in block.allowed_users):
            yield _found(f"everybody:{name}", severity, f"Everybody may write to {name}.", fix.format(own))
        if block.allow_bots == "all":
            text = f"Every bot may write to {name}; two bots can talk to each other without end."
            yield _found(f"bots:{name}", Severity.LOW, text, f"hermes config set {own}allow_bots mentions")


# --- what agents may do ------------------------------------------------------------------------------


def _approvals(place: AuditedHome) -> Iterator[AuditFinding]:
    approvals = place.loaded.settings.approvals
    if approvals.mode == "off":
        text = "Nobody is asked before dangerous actions."
        yield _found("approvals-off", Severity.HIGH, text, "hermes config set approvals.mode manual")
    if approvals.yolo_command:
        text = "/yolo can switch approvals off in a session."
        yield _found("yolo", Severity.LOW, text, "hermes config set approvals.yolo_command false")
    if approvals.cron_mode == "approve":
        text = "Scheduled jobs may do dangerous things without being asked."
        yield _found("cron-approves", Severity.MEDIUM, text, "hermes config set approvals.cron_mode deny")


def _terminal(place: AuditedHome) -> Iterator[AuditFinding]:
    """What makes a container hold nothing in, and keys that commands see."""
    terminal = place.loaded.settings.terminal
    for args in terminal.docker_extra_args:
        if "privileged" in args or "docker.sock" in args or "host" in args.partition("=")[2]:
            yield _escape("docker_extra_args", args)
    for volume in terminal.docker_volumes:
        source = volume.partition(":")[0]
        if source in ("/", "/etc", "/root", str(place.home)) or "docker.sock" in volume:
            yield _escape("docker_volumes", source)
    passed = [*terminal.env_passthrough, *terminal.docker_forward_env]
    if names := [name for name in passed if is_key_like(name)]:
        fix = "Take them out of terminal.env_passthrough and docker_forward_env; security.broker lets agents"
        fix += " use a secret that they do not have."
        yield _found("keys-passed-on", Severity.MEDIUM, f"Commands of agents see {', '.join(names)}.", fix)


def _escape(key: str, value: str) -> AuditFinding:
    text = f"terminal.{key} has {one_line(value, 120)}, so the container holds nothing in."
    return _found(f"sandbox:{key}", Severity.HIGH, text, f"hermes config unset terminal.{key}")


def _egress(place: AuditedHome) -> Iterator[AuditFinding]:
    security = place.loaded.settings.security
    if security.allow_private_urls:
        text = "Agents may fetch from private networks: routers, databases, other services of this host."
        fix = "hermes config set security.allow_private_urls false, and name hosts in security.private_hosts"
        yield _found("private-urls", Severity.MEDIUM, text, fix)
    if not security.redact_secrets:
        text = "What looks like a secret is not hidden in logs and answers."
        yield _found("no-redaction", Severity.MEDIUM, text, "hermes config set security.redact_secrets true")


def _endpoints(place: AuditedHome) -> Iterator[AuditFinding]:
    """Keys that go over a wire that others read."""
    settings = place.loaded.settings
    places = {"model.base_url": (settings.model.base_url, bool(settings.model.api_key))}
    for name, entry in settings.providers.items():
        places[f"providers.{name}.base_url"] = (entry.base_url, bool(entry.api_key or entry.key_env))
        if not entry.ssl_verify:
            text = f"The certificate of the provider {name} is not checked."
            fix = f"Name its authority in providers.{name}.ssl_ca_cert, and remove ssl_verify: false."
            yield _found(f"tls-unchecked:{name}", Severity.HIGH, text, fix)
    for key, (url, keyed) in places.items():
        host = urlsplit(url).hostname or ""
        if keyed and url.startswith("http://") and not _is_near(host):
            text = f"A key goes to {one_line(host, 80)} without encryption ({key})."
            yield _found(f"plain-http:{key}", Severity.HIGH, text, f"Use https:// in {key}.")


def _is_near(host: str) -> bool:
    """Whether it is this machine, or one of a private network."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host in _LOOPBACK or host.endswith((".local", ".internal", ".lan"))


# --- doors -------------------------------------------------------------------------------------------


def _doors(place: AuditedHome) -> Iterator[AuditFinding]:
    loaded = place.loaded
    for name, variable in (("api_server", "API_SERVER_HOST"), ("webhook", "WEBHOOK_HOST")):
        host = loaded.find(name, variable)
        bound = host.reveal() if host is not None else ""
        if bound not in _LOOPBACK and not bound.startswith("127.") and bound != "::1":
            text = f"{name} listens on {one_line(bound, 60)}, so other machines reach it."
            fix = f"hermes config set {variable} 127.0.0.1, and put a proxy with TLS in front of it"
            yield _found(f"wide:{name}", Severity.MEDIUM, text, fix)
    cors = loaded.find("api_server", "API_SERVER_CORS_ORIGINS")
    if cors is not None and "*" in cors.reveal():
        fix = "Name the sites: hermes config set API_SERVER_CORS_ORIGINS https://…"
        yield _found("cors", Severity.MEDIUM, "Pages of every site may call the API in a browser.", fix)


def _webhooks(place: AuditedHome) -> Iterator[AuditFinding]:
    from hermes.app.http import shared_secret, static_routes
    from hermes.entry.http.webhooks.routes import read_routes
    from hermes.entry.http.webhooks.signatures import NO_AUTH

    made = read_routes(WebhookSubscriptions(place.home).read(), shared_secret(place.loaded))
    for name, route in {**made, **static_routes(place.loaded)}.items():
        if route.enabled and route.secret.reveal() == NO_AUTH:
            text = f"The webhook route {one_line(name, 60)} takes events from anybody ({NO_AUTH})."
            fix = "Give it a secret, and let the sender sign with it."
            yield _found(f"unsigned:{name}", Severity.HIGH, text, fix)


# --- files -------------------------------------------------------------------------------------------


def _files(place: AuditedHome) -> Iterator[AuditFinding]:
    if place.loaded.exposed or _others_write(place.home):
        yield _mode(place.home, Severity.HIGH, "others on this machine can read its secrets or change it")
    for name in (SECRETS_FILE, CONFIG_FILE, DATABASE_FILE, "auth.json"):
        if _others_write(place.home / name):
            yield _mode(place.home / name, Severity.HIGH, "others on this machine can change it")
    for name in _CODE_FOLDERS:
        for path in (place.home / name, *(place.home / name).glob("*")):
            if _others_write(path):
                yield _mode(path, Severity.CRITICAL, "others can put code there that runs as you")


def _others_write(path: Path) -> bool:
    try:
        return bool(path.lstat().st_mode & 0o022) and not path.is_symlink()
    except OSError:
        return False


def _mode(path: Path, severity: Severity, why: str) -> AuditFinding:
    fix = f"chmod {'700' if path.is_dir() else '600'} {path}"
    return _found(f"mode:{path.name}", severity, f"{path}: {why}.", fix)


def _secrets(place: AuditedHome) -> Iterator[AuditFinding]:
    for note in place.loaded.weak:
        yield _found("weak-secret", Severity.MEDIUM, note.message, note.hint or "Choose another.")
    for stop in place.loaded.stops:
        text = f"A limit does not hold, so nothing starts: {stop.message}"
        yield _found("unread-limit", Severity.HIGH, text, stop.hint or "hermes config check")


def _root(place: AuditedHome) -> Iterator[AuditFinding]:
    if os.getuid() == _ROOT:
        text = "This runs as root, who passes every protection of files."
        yield _found("root", Severity.HIGH, text, "Run Hermes as a user of its own.")


RULES: tuple[Rule, ...] = (
    _everybody,
    _approvals,
    _terminal,
    _egress,
    _endpoints,
    _doors,
    _webhooks,
    _files,
    _secrets,
    _root,
)
