"""`hermes webhook`: routes for events from outside, made by command. They are kept in a file of the home that
a running gateway reads again by itself; routes of the settings are listed, and never changed from here."""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import time
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hermes.admin.process.home_files import read_state
from hermes.admin.process.running import ask_socket
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.output import Column
from hermes.app.http import AppWebhooks, route_problems, shared_secret, static_routes
from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import one_line
from hermes.entry.http.site.owner_socket import listening
from hermes.entry.http.webhooks.routes import LOG, WebhookRoute, is_route_name, read_routes
from hermes.entry.http.webhooks.signatures import NO_AUTH, sign
from hermes.state.files.subscriptions import WebhookSubscriptions, change
from hermes.state.settings.loader import LoadedSettings, load_settings

_SECRET_BYTES = 32
_ANSWER_SECONDS = 30.0
_CLOSED = "The gateway takes no webhooks: they are off, or their port cannot be opened. See: hermes status"
_OFF = "Webhooks are off: WEBHOOK_ENABLED or platforms.webhook.enabled says so."
_TEST_PAYLOAD = '{"type": "test", "message": "Hello from hermes webhook test"}'


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    summary = "Create a route. An existing route of this name is replaced; its secret is kept."
    name = {"name": "the last part of its address: letters, digits, - _ ."}
    made = add("subscribe", summary, _subscribe, JSON | name)
    declare(made, _WHAT, default="")
    declare(made, {"--deliver WHERE": "log, github_comment, a platform, or platform:chat"}, default=LOG)
    declare(made, {"--deliver-chat-id ID": "the chat on that platform"}, default="")
    extra = {"--deliver-extra KEY=VALUE": "repo, pr_number, thread_id …"}
    declare(made, extra, action="append", default=[])
    declare(made, _HOW, default="")
    add("list", "List the routes.", _list, JSON)
    add("remove", "Remove a route that was created by command.", _remove, {"name": "its name"})
    summary = "Send a signed event to the running gateway, and print its answer."
    tried = add("test", summary, _test, {"name": "the route's name"})
    declare(tried, {"--payload JSON": "the event's body"}, default=_TEST_PAYLOAD)


_WHAT = {
    "--prompt TEXT": "the prompt for the agent; {a.b} is filled in from the event",
    "--events A,B": "only these events",
    "--skills A,B": "skills that its turns follow",
    "--toolsets A,B": "only these toolsets of the agent",
    "--agent NAME": "the only agent that its events go to",
}
_HOW = {
    "--secret SECRET": "what senders sign with; generated if omitted",
    "--scheme NAME": "how its senders sign: github, stripe, v2 …; if omitted, as the first event",
    "--deliver-only": "send the text as it is, without the agent",
    "--script FILE": "a file in the home's scripts folder; it sees the event first",
    "--description TEXT": "a note for people",
}


# --- making and removing ---


def _subscribe(command: CliCommand) -> None:
    asked, home, console = command.asked, command.home, command.console
    loaded = _loaded(command)
    name = _free_name(asked.name, loaded)
    replaced = _dynamic(home).get(name)
    made = asked.secret or (replaced or {}).get("secret") or secrets.token_urlsafe(_SECRET_BYTES)
    route = _described(asked, made)
    read = read_routes({name: route}, Secret(""))[name]
    if read.problem:
        raise UserError(f"The route is not valid: {read.problem}", hint="hermes webhook subscribe --help")
    change(home, name, route)
    opened = _open_port(home, loaded)
    at = address(home, loaded) if opened is None else opened
    pairs = [
        ("Route", name),
        ("Address", f"{at}/webhooks/{name}" if at else "none"),
        ("Deliver", _delivery(read)),
    ]
    if read.agent:
        pairs.append(("Agent", read.agent))
    generated = replaced is None and not asked.secret
    told = [*pairs, ("Secret", made)] if generated else pairs
    console.json({key.lower(): value for key, value in told}) if asked.json else console.facts(told)
    if generated:
        console.note("The secret is shown only now: enter it at the sender.")
    elif replaced is not None:
        console.note(
            "It replaces the earlier route of this name" + ("." if asked.secret else "; its secret is kept.")
        )
    for problem in route_problems(loaded, {name: read}).values():
        console.note(f"It cannot do its work yet: {problem}")
    if not at:
        console.note(_OFF if opened is None else _closed(home))
    elif opened is None:
        console.note("It takes events once a gateway runs: hermes gateway start")


def _loaded(command: CliCommand) -> LoadedSettings:
    return load_settings(command.home, command.environ)


def _free_name(name: str, loaded: LoadedSettings) -> str:
    if not is_route_name(name):
        raise UserError(
            f"“{one_line(name, 64)}” is not a valid route name.",
            hint="Use letters, digits, “-”, “_” and “.”, at most 64.",
        )
    if name in static_routes(loaded):
        raise UserError(f"The route “{name}” is in config.yaml.", hint="Change it there.")
    return name


def _described(asked: argparse.Namespace, secret: str) -> dict[str, Any]:
    """A route as the file keeps it; what was not said is left out."""
    extra = dict(map(_pair, asked.deliver_extra))
    if asked.deliver_chat_id:
        extra["chat_id"] = asked.deliver_chat_id
    route = {
        "secret": secret,
        "agent": asked.agent,
        "scheme": asked.scheme,
        "prompt": asked.prompt,
        "events": _words(asked.events),
        "skills": _words(asked.skills),
        "toolsets": _words(asked.toolsets),
        "deliver": asked.deliver,
        "deliver_extra": extra,
        "deliver_only": asked.deliver_only,
        "script": asked.script,
        "description": asked.description,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {key: value for key, value in route.items() if value}


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not value:
        raise UserError(f"“{one_line(text, 60)}” is not KEY=VALUE.")
    return key.strip(), value.strip()


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _remove(command: CliCommand) -> None:
    home, name = command.home, command.asked.name
    if not home.is_dir() or not change(home, name, None):
        if name in static_routes(_loaded(command)):
            raise UserError(f"The route “{name}” is in config.yaml.", hint="Remove it there.")
        raise _no_route(name)
    command.console.line(f"Removed the route “{name}”.")


# --- looking ---


def _dynamic(home: Path) -> dict[str, Any]:
    """The routes of the file, with secrets as text; what is wrong with the file is said."""
    file = WebhookSubscriptions(home)
    tree = file.read()
    if file.problem:
        raise UserError(file.problem, hint="Fix webhook_subscriptions.json, or move it away.")
    return {name: _revealed(route) for name, route in tree.items()}


def _revealed(route: Any) -> Any:
    if not isinstance(route, dict):
        return route
    return {key: value.reveal() if isinstance(value, Secret) else value for key, value in route.items()}


def _routes(home: Path, loaded: LoadedSettings) -> dict[str, tuple[WebhookRoute, str]]:
    """Every route with where it comes from."""
    made = read_routes(_dynamic(home), shared_secret(loaded))
    found = {name: (route, "command") for name, route in made.items()}
    return found | {name: (route, "config.yaml") for name, route in static_routes(loaded).items()}


def _list(command: CliCommand) -> None:
    loaded = _loaded(command)
    known = _routes(command.home, loaded)
    wrong = route_problems(loaded, {name: route for name, (route, _) in known.items()})
    routes = [(route, origin, wrong.get(name, "")) for name, (route, origin) in sorted(known.items())]
    at = address(command.home, loaded)
    none = "No webhook routes yet. Create one: hermes webhook subscribe NAME"
    command.list(routes, _COLUMNS, none=none, wrap=lambda rows: {"address": at, "routes": rows})
    if routes and not command.asked.json:
        closed = _OFF if listening(command.home, loaded.variables) is None else _closed(command.home)
        command.console.note(f"Events go to {at}/webhooks/<route>" if at else closed)


def _delivery(route: WebhookRoute) -> str:
    return f"{route.deliver} (without the agent)" if route.deliver_only else route.deliver


_COLUMNS = [
    Column("name", "ROUTE", value=lambda entry: entry[0].name),
    Column("state", "STATE", value=lambda entry: entry[2] or ("on" if entry[0].enabled else "off")),
    Column("agent", value=lambda entry: entry[0].agent),
    Column("scheme", value=lambda entry: entry[0].scheme or ""),
    Column(
        "events", "EVENTS", lambda events: ", ".join(events) or "all", lambda entry: list(entry[0].events)
    ),
    Column("deliver", value=lambda entry: entry[0].deliver),
    Column("", "DELIVER", value=lambda entry: _delivery(entry[0])),
    Column("deliver_only", value=lambda entry: entry[0].deliver_only),
    Column("from", "FROM", value=lambda entry: entry[1]),
]


def address(home: Path, loaded: LoadedSettings) -> str:
    """Where the gateway that runs takes webhooks, or where the next one will; empty if nowhere. What a
    gateway said that is gone does not count: the settings may be others by now."""
    if listening(home, loaded.variables) is None:
        return AppWebhooks(home, loaded, {}).address
    said = (_told(home), read_state(home).get("api"))
    return next((at for at in said if isinstance(at, str) and at.startswith("http")), "")


def _told(home: Path) -> str:
    """What the gateway that runs says of webhooks: their address, or why there is none."""
    platforms = read_state(home).get("platforms")
    own = platforms.get("webhook") if isinstance(platforms, dict) else None
    return str(own.get("error_message") or "") if isinstance(own, dict) else ""


def _closed(home: Path) -> str:
    why = _told(home)
    return _CLOSED if not why or why.startswith("http") else f"The gateway takes no webhooks. {why}"


# --- trying ---


def _test(command: CliCommand) -> int:
    asked, loaded = command.asked, _loaded(command)
    found = _routes(command.home, loaded).get(asked.name)
    if found is None:
        raise _no_route(asked.name)
    try:
        json.loads(asked.payload)
    except ValueError as error:
        raise UserError(f"The payload is not JSON ({error}).") from error
    status, text = _send(command.home, loaded, found[0], asked.payload.encode())
    command.console.line(f"{status} {text}")
    return 0 if status < 300 else 1


def _send(home: Path, loaded: LoadedSettings, route: WebhookRoute, body: bytes) -> tuple[int, str]:
    """To the address that senders on this machine use; signed as a test, which every route takes."""
    at = _open_port(home, loaded)
    if at is None:
        raise _nobody()
    if not at:
        raise UserError(_closed(home))
    headers = {"Content-Type": "application/json", "X-Request-ID": f"test-{secrets.token_hex(8)}"}
    if route.secret.reveal() != NO_AUTH:
        headers |= sign(body, route.secret, now=time.time())
    url = urlsplit(at)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(url.hostname or "", url.hostname or "")
    connection = http.client.HTTPConnection(host, url.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("POST", f"/webhooks/{route.name}", body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise UserError(f"Nothing answers at {at} ({error}).", hint="`hermes status` says why.") from error
    finally:
        connection.close()


def _open_port(home: Path, loaded: LoadedSettings) -> str | None:
    """Where the gateway that runs takes webhooks, from now on at least; empty if nowhere, None if none runs.
    One of an earlier version is taken at its word."""
    path = listening(home, loaded.variables)
    if path is None:
        return None
    try:
        headers = {"Content-Type": "application/json"}
        status, answer = ask_socket(path, "POST", "/control/webhooks", None, headers)
    except OSError:
        return None
    return str(json.loads(answer)["address"]) if status == HTTPStatus.OK else address(home, loaded)


def _nobody() -> UserError:
    return UserError("No gateway is running on this home.", hint="Start one with: hermes gateway run")


def _no_route(name: str) -> UserError:
    return UserError(f"There is no route “{one_line(name, 64)}”.", hint="`hermes webhook list` shows them.")
