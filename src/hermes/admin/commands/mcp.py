"""`hermes mcp`: the MCP servers of this home. It writes the settings, and what the owner accepts; a gateway
that runs adopts both at once."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

from hermes.admin.commands.platform_packages import FURTHER_EXTRAS, install_extra, is_installed
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, declare
from hermes.admin.shell.home import agents_of, open_home
from hermes.admin.shell.output import Column
from hermes.domain.clock import SystemClock
from hermes.domain.errors import HermesError, UserError, as_user_error
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.credential import Credential
from hermes.domain.settings.mcp import MCP_NAME, McpServer
from hermes.domain.settings.settings import Profile
from hermes.domain.text import closest, one_line, showable
from hermes.domain.tools.mcp import McpPins
from hermes.entry.desk import apply_settings
from hermes.state.home.credentials import AUTH_FILE, CredentialFile
from hermes.state.home.homes import agent_home, prepare_home
from hermes.state.home.mcp_pins import McpPinFile
from hermes.state.settings.by_key import set_entry, set_setting, unset_setting
from hermes.state.settings.loader import load_settings
from hermes.state.settings.names import is_key_like

_NAME = {"name": "what you call the server"}
_AGENT = {"--agent ID": "the agent, if not main"}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    added = add("add", "Use a server: a program, or an address.", _add, _NAME)
    declare(added, {"--url ADDRESS": "the address of a server", "--command PROGRAM": "the program of one"})
    more = {"--env NAME=VALUE": "a variable it is given; a key goes to .env"}
    more |= {"--header NAME=VALUE": "a header it is sent; a key goes to .env"}
    declare(added, more, action="append", default=[])
    declare(added, {"--auth WAY": "oauth: log in to it"}, choices=("oauth",))
    declare(added, {"--backend WHERE": "where the program runs: local is this machine, without a sandbox"})
    added.add_argument("--args", nargs=argparse.REMAINDER, default=[], help="all that follows: its arguments")
    add("list", "List the servers, and what of them waits for you.", _list, _AGENT | JSON)
    add("test", "Connect to a server, and tell what it has.", _test, _NAME | _AGENT | JSON)
    accepted = add("accept", "Look at tools that changed, and accept them.", _accept, _NAME)
    declare(accepted, {"tools": "which, by the server's names; all if none is named"}, nargs="*")
    declare(accepted, _AGENT | {"-y, --yes": "do not ask"})
    login = add("login", "Log in to a server with your browser.", _login, _NAME | _AGENT)
    declare(login, {"--paste": "paste the address you are led to; for a machine without a browser"})
    add("remove", "Do without a server, and forget what was accepted of it.", _remove, _NAME)


# --- the settings ------------------------------------------------------------------------------------


def _add(command: CliCommand) -> None:
    asked, name = command.asked, command.asked.name
    if not MCP_NAME.fullmatch(name):
        raise UserError(
            f"A server cannot be called “{one_line(name, 40)}”.",
            hint="Use letters, digits, “-” and single “_”, at most 32.",
        )
    if bool(asked.url) == bool(asked.command):
        raise UserError(
            "Name a --command or a --url.",
            hint="Like: hermes mcp add files --command npx --args -y some-server ~/docs",
        )
    if name in _profile(command).settings.mcp_servers:
        raise UserError(f"There is a server {name} already.", hint=f"First: hermes mcp remove {name}")
    home = prepare_home(command.home)
    entry: dict[str, Any] = {"url": asked.url} if asked.url else {"command": asked.command}
    if asked.args:
        entry["args"] = asked.args
    for key, pairs in (("env", asked.env), ("headers", asked.header)):
        if pairs:
            entry[key] = {variable: _hidden(home, name, variable, value) for variable, value in _read(pairs)}
    if asked.auth:
        entry["auth"] = asked.auth
    if asked.backend:
        entry["backend"] = asked.backend
    _install(command)
    written = set_entry(home, "mcp_servers", name, entry)
    command.console.line(f"{name} is in {written.file}.")
    _apply(command)
    if asked.auth:
        command.console.line(f"Log in to it: hermes mcp login {name}")
    command.console.line(f"Look whether it works: hermes mcp test {name}")


def _read(pairs: list[str]) -> list[tuple[str, str]]:
    read = [(name.strip(), value.strip()) for name, _, value in (pair.partition("=") for pair in pairs)]
    for name, value in read:
        if not name or not value:
            raise UserError("A variable or a header is written NAME=VALUE.")
    return read


def _hidden(home: Path, server: str, name: str, value: str) -> str:
    """What stands for the value in config.yaml: a key goes to .env."""
    secret = is_key_like(name) or name.lower() in ("authorization", "cookie")
    if not secret or value.startswith("${"):
        return value
    variable = name if is_key_like(name) and name.isupper() else f"MCP_{server}_{name}_KEY"
    variable = variable.upper().replace("-", "_")
    set_setting(home, variable, value)
    return f"${{{variable}}}"


def _remove(command: CliCommand) -> None:
    (profile, _), name = _find(command), command.asked.name
    unset_setting(prepare_home(command.home), f"mcp_servers.{name}")
    for agent in agents_of(profile.settings):
        home = agent_home(command.home, agent, profile.settings)
        McpPinFile(home, name).remove()
        if (home / AUTH_FILE).exists():
            CredentialFile(home).remove(f"mcp-{name}")
    _apply(command)
    command.console.line(f"{name} is removed.")


# --- what there is -----------------------------------------------------------------------------------


def _list(command: CliCommand) -> None:
    profile = _profile(command)
    columns = [
        Column("name", "SERVER"),
        Column("state", "STATE"),
        Column("tools", "TOOLS", lambda count: "not seen yet" if count is None else str(count)),
        Column("waiting", "CHANGED", lambda names: ", ".join(names) or "-"),
        Column("where", "WHERE", lambda where: one_line(where, 120)),
    ]
    rows = [_row(profile, name, server) for name, server in profile.settings.mcp_servers.items()]
    command.list(rows, columns, none="No MCP servers. Use one with: hermes mcp add")
    for row in rows if not command.asked.json else ():
        if row["waiting"]:
            command.console.note(f"Look at what changed: hermes mcp accept {row['name']}")


def _row(profile: Profile, name: str, server: McpServer) -> dict[str, Any]:
    try:
        pins, state = McpPinFile(profile.home, name).read(), "on" if server.enabled else "off"
    except UserError as error:
        pins, state = McpPins(), str(error)
    where = server.url or " ".join((server.command, *server.args))
    tools = None if pins is None else sum(server.tools.allows(each.name) for each in pins.offered)
    waiting = [] if pins is None else [showable(each) for each in pins.waiting]
    return {"name": name, "state": state, "tools": tools, "waiting": waiting, "where": where}


def _accept(command: CliCommand) -> None:
    (profile, _), name = _find(command), command.asked.name
    file = McpPinFile(profile.home, name)
    pins = file.read() or McpPins()
    wanted = command.asked.tools or [*pins.waiting]
    for tool in {*wanted} - {*pins.waiting}:
        raise UserError(f"{one_line(tool, 80)} of {name} has not changed.", hint="See: hermes mcp list")
    if not wanted:
        command.console.line(f"Nothing of {name} has changed.")
        return
    for tool in wanted:
        command.console.line(f"{showable(tool)}:")
        for line in pins.difference(tool):
            command.console.line(f"  {line}")
        for concern in pins.waiting[tool].concerns:
            command.console.note(f"Careful: it {concern}.")
    if not command.asked.yes:
        command.console.confirm(f"Accept {len(wanted)} of {name}?")
    file.change(
        lambda now: now.accept(each for each in wanted if now.waiting.get(each) == pins.waiting[each])
    )
    _apply(command)
    command.console.line(f"Accepted: {', '.join(map(showable, wanted))}")


def _test(command: CliCommand) -> None:
    profile, _ = _find(command)
    _install(command)
    prepare_home(command.home)
    logging.getLogger("hermes.mcp").addHandler(logging.NullHandler())  # what goes wrong is told below
    try:
        facts = asyncio.run(_try(command, profile))
    except HermesError as error:
        raise as_user_error(error) from error
    if command.asked.json:
        command.console.json(facts)
        return
    told = f"{facts['protocol']}, {len(facts['tools'])} tools, {facts['seconds']:.2f} s"
    command.console.line(f"{command.asked.name} works: {told}.")
    for each in facts["tools"]:
        command.console.line(f"  {each}")
    if facts["waiting"]:
        command.console.note(f"Changed, and withheld: {', '.join(facts['waiting'])}")
        command.console.note(f"Look at it: hermes mcp accept {command.asked.name}")


async def _try(command: CliCommand, profile: Profile) -> dict[str, Any]:
    """In this process, and where the agent would have it."""
    from hermes.app.agents.mcp import try_server

    secrets = load_settings(command.home, command.environ).secrets
    return await try_server(profile, command.asked.name, secrets, command.environ)


# --- logging in --------------------------------------------------------------------------------------


def _login(command: CliCommand) -> None:
    (profile, server), name = _find(command), command.asked.name
    if not server.url:
        raise UserError(f"{name} is a program, and has no login.", hint="Give it its keys with env.")
    _install(command)
    prepare_home(command.home)
    profile.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    CredentialFile(profile.home).add(asyncio.run(_log_in(command, name, profile, server)))
    if not server.auth:
        set_setting(command.home, f"mcp_servers.{name}.auth", "oauth")
    _apply(command)
    command.console.line(f"Logged in to {name}.")


async def _log_in(command: CliCommand, name: str, profile: Profile, server: McpServer) -> Credential:
    from hermes.app.egress import make_reach
    from hermes.execution.mcp.login import log_in

    def tell(address: str) -> None:
        command.console.line(f"Open this address in your browser, and log in there:\n{address}")

    async def paste() -> str:
        command.console.line("Paste the address that you were led to:")
        return await asyncio.to_thread(sys.stdin.readline)

    back = paste if command.asked.paste else None
    reach = await asyncio.to_thread(make_reach, command.home, profile.settings.security)
    return await log_in(name, server, SystemClock().now(), reach=reach, tell=tell, paste=back)


# --- this home ---------------------------------------------------------------------------------------


def _profile(command: CliCommand) -> Profile:
    """The agent that is meant."""
    settings = load_settings(command.home, command.environ).settings
    agent = AgentId(getattr(command.asked, "agent", None) or MAIN_AGENT)
    if agent not in (known := agents_of(settings)):
        raise UserError(f"There is no agent “{one_line(agent, 60)}”.", hint=f"Known: {', '.join(known)}.")
    return Profile(agent=agent, home=agent_home(command.home, agent, settings), settings=settings)


def _find(command: CliCommand) -> tuple[Profile, McpServer]:
    """The agent, and the server that is named."""
    profile, name = _profile(command), command.asked.name
    servers = profile.settings.mcp_servers
    if name not in servers:
        near = closest(name, servers)
        hint = f"Did you mean {near}?" if near else "`hermes mcp list` shows them."
        raise UserError(f"There is no MCP server “{one_line(name, 40)}”.", hint=hint)
    return profile, servers[name]


def _install(command: CliCommand) -> None:
    extra = FURTHER_EXTRAS["mcp"]
    if not is_installed(extra):
        install_extra(extra, "mcp", command.console)


def _apply(command: CliCommand) -> None:
    gateway = open_home(command)
    if gateway.running:
        gateway.ask(apply_settings)
