"""`hermes gateway`: run, start, stop and restart the gateway, and show its log."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from hermes.admin.process.home_files import HomeInUse, is_temporary, read_state
from hermes.admin.process.logs import SHOWN_ALL, SHOWN_LITTLE, SHOWN_NOT
from hermes.admin.process.run import EXIT_RESTART, GatewayProcess
from hermes.admin.process.spawning import WHILE_USED
from hermes.admin.process.watchdog import NOTIFY_VARIABLE
from hermes.admin.shell.command import JSON, STATUS, Act, CliCommand, Subcommands, declare, number_to


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("run", "Run the gateway in this terminal until it is stopped (Ctrl-C or SIGTERM).", _run, _RUN)
    told = "Start the gateway in the background and wait until it is ready."
    add("start", told, _later("process.background", "start"))
    told = "Stop the gateway. Running turns pause and continue at the next start."
    every = {"--all": "stop all your gateways on this machine"}
    add("stop", told, _later("process.background", "stop"), every)
    told = "Restart the gateway. Running turns pause and continue afterwards."
    add("restart", told, _later("process.background", "restart"))
    told = "Make the gateway a service that begins by itself (systemd or launchd), and start it."
    service = add("install", told, _later("process.service", "install"), _SYSTEM | _INSTALL)
    undone = "Stop and remove the service."
    removed = add("uninstall", undone, _later("process.service", "uninstall"), _SYSTEM)
    for each in (service, removed):
        declare(each, {"--run-as-user USER": "with --system: who it runs as"})
    told = "Show what runs on this home; the same as `hermes status`."
    declare(add("status", told, _later("commands.status", "run")), STATUS)
    add("list", "List your gateways on this machine.", _later("process.background", "list_gateways"), JSON)
    told = "Set up a platform; the same as `hermes platforms setup`."
    setup_arguments(add("setup", told, _later("commands.platforms", "setup")))
    told = "Show the end of the gateway's log; the same as `hermes logs`."
    logs = add("logs", told, _later("commands.logs", "show"))
    lines = number_to(1_000_000, least=0)
    declare(logs, {"-n, --lines N": "how many lines (50)"}, type=lines, default=50)
    declare(logs, {"-f, --follow": "follow the log until Ctrl-C"})
    logs.set_defaults(which="gateway", level=None, since=None, session="", component="", grep="")


_SYSTEM = {"--system": "a service of the whole system, which begins with the machine (needs root)"}
_INSTALL = {
    "--no-start": "do not start it now",
    "--allow-sudo": "without the limits that keep commands from using sudo",
    "--print-only": "only print the file of the service",
    "--force": "replace another file of that name",
}
_RUN = {
    "-v, --verbose": "log every step, for debugging",
    "-q, --quiet": "show only warnings; the log file has everything",
    "--replace": "stop the gateway that runs on this home first",
    "--external-supervisor": "exit with 75 on restart, so that the supervisor starts it again",
    "--background": argparse.SUPPRESS,
    WHILE_USED: argparse.SUPPRESS,
}


def setup_arguments(parser: argparse.ArgumentParser) -> None:
    """Here, because `hermes.admin.commands.platforms` takes long to load."""
    told = "the platform, like telegram, or an account, like telegram@work (asks if omitted)"
    declare(parser, {"[name]": told, "--all": "also ask for optional settings"})


def _later(module: str, name: str) -> Act:
    """What another module does, loaded once it is to be done."""

    def act(command: CliCommand) -> int | None:
        found: Act = getattr(import_module(f"hermes.admin.{module}"), name)
        return found(command)

    return act


def _run(command: CliCommand) -> int:
    asked, home, environ, console = command.asked, command.home, command.environ, command.console
    if not asked.while_used and (asked.replace or is_temporary(home)):
        from hermes.admin.process.background import stop_gateway  # large, and rarely needed

        # One that a terminal started makes way; terminals attach to this one then.
        stop_gateway(home, environ, console)

    def ending(code: int) -> int:
        if code == EXIT_RESTART and not asked.external_supervisor and not environ.get(NOTIFY_VARIABLE):
            _begin_anew(home, environ)
        return code

    process = GatewayProcess(
        home=home,
        environ=environ,
        say=lambda line: console.note(f"Hermes {command.version} is {line}"),
        level="DEBUG" if asked.verbose else "",
        shown=SHOWN_NOT if asked.background else SHOWN_LITTLE if asked.quiet else SHOWN_ALL,
        version=command.version,
        slowed=True,
        temporary=asked.while_used,
        ending=ending,
    )
    try:
        return ending(process.run())
    except HomeInUse:
        if not asked.while_used:
            raise
        return 0  # another terminal was quicker, and its gateway serves this one's as well


def _begin_anew(home: Path, environ: Mapping[str, str]) -> None:
    """Nobody else would start it again. The same process goes on as a new program: what was open is closed by
    the kernel, the lock on the home among it."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    stays = not read_state(home).get("temporary")
    words = [word for word in sys.orig_argv[1:] if not (stays and word == WHILE_USED)]
    os.execve(sys.executable, [sys.executable, *words], dict(environ))
