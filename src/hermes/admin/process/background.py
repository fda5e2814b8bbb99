"""`hermes gateway start|stop|restart`: the gateway as something that runs in the background.

Whom a signal is for is read from the lock on the home, which only a living process can hold; so none is ever
sent to a stranger that got an old number."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.admin.process.home_files import (
    GATEWAY,
    LOG_FILE,
    LockHolder,
    home_holder,
    home_in_use,
    is_temporary,
    read_state,
)
from hermes.admin.process.listing import ListedGateway, began_at, living_gateways
from hermes.admin.process.run import EXIT_SETTINGS
from hermes.admin.process.running import GatewayRefusal, find_running
from hermes.admin.process.spawning import GatewayNotStarted, last_output, spawn_gateway
from hermes.admin.shell.command import CliCommand
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import CliConsole, Column
from hermes.domain.errors import UserError
from hermes.entry.desk import restart_gateway
from hermes.state.home.homes import INSIDE, prepare_home
from hermes.state.settings.loader import load_settings

_READY_SECONDS = 60.0
_HURRY_SECONDS = 20.0
_KILL_SECONDS = 10.0
_LOOK_SECONDS = 0.05


def stop(command: CliCommand) -> int:
    home, environ, console = command.home, command.environ, command.console
    if command.asked.all:
        return _stop_all(home, environ, console)
    if not stop_gateway(home, environ, console):
        console.line(f"No gateway runs on {home}.")
    return 0


# --- start -----------------------------------------------------------------------------------------


def start(command: CliCommand) -> int:
    home, environ, console = command.home, command.environ, command.console
    holder = home_holder(home)
    if holder is not None and holder.what == GATEWAY:
        running = find_running(home, environ) if is_temporary(home) else None
        if running is not None and running.ask("POST", "/control/stay", bool):
            console.line(f"The gateway that a terminal started on {home} ({holder}) stays from now on.")
        else:
            console.line(f"A gateway already runs on {home} ({holder}).")
        return 0
    if holder is not None:
        raise home_in_use(home, holder)
    prepare_home(home)
    child = spawn_gateway(home, environ)
    told: list[str] = []

    def is_settled() -> bool:
        said = last_output(home)
        if " is waiting " in said and not told:
            told.append(said)
            console.note(said)
        return child.poll() is not None or _is_ready(home, child.pid)

    _wait(is_settled, _READY_SECONDS)
    if child.poll() is not None:
        error = GatewayNotStarted(home, child.returncode)
        if child.returncode == EXIT_SETTINGS:
            console.note(f"hermes: {error.message}")
            return EXIT_SETTINGS
        raise error
    if not _is_ready(home, child.pid):
        said = last_output(home) or "it is not ready yet"
        console.line(f"The gateway is starting (process {child.pid}): {said}")
        console.note("`hermes gateway status` shows when it is ready; its log: hermes gateway logs -f")
        return 0
    _tell_ready(home, child.pid, console)
    return 0


def _is_ready(home: Path, pid: int, before: object = None) -> bool:
    """Whether the process says that it is ready; `before` is when the life began that does not count."""
    told = read_state(home)
    return (
        told.get("pid") == pid and told.get("gateway_state") == "running" and told.get("start_time") != before
    )


def _tell_ready(home: Path, pid: int, console: CliConsole) -> None:
    told = read_state(home)
    accounts = ", ".join(map(str, told.get("accounts", []))) or "none"
    model = told.get("model_name") or "none"
    console.line(f"The gateway runs on {home} (process {pid}): platforms {accounts}, model {model}.")
    console.line(f"Log: {home / LOG_FILE}")
    console.note("Stop it with: hermes gateway stop")


# --- stop ------------------------------------------------------------------------------------------


def stop_gateway(
    home: Path, environ: Mapping[str, str], console: CliConsole, listed: ListedGateway | None = None
) -> bool:
    """Stop the gateway of a home, in order if it comes to rest in time; False if none runs. One whose files
    were removed under it is known only by its place in the list."""
    _check_own(environ)
    holder = home_holder(home)
    if holder is None and listed is not None:
        holder = LockHolder(what=GATEWAY, pid=listed.pid)
    if holder is None:
        return False
    if holder.what != GATEWAY:
        raise home_in_use(home, holder)
    console.note(f"Stopping the gateway of {home} (process {holder.pid}){_still_running(home, environ)} …")
    grace = _grace(home, environ)
    began = began_at(holder.pid)

    def is_gone() -> bool:
        now = home_holder(home)
        is_held = now is not None and (now.pid, now.since) == (holder.pid, holder.since)
        return not is_held and (began is None or began_at(holder.pid) != began)

    _send(holder, signal.SIGTERM)
    if not _wait(is_gone, 2 * grace + _KILL_SECONDS):
        console.note(f"It has not stopped yet{_still_running(home, environ)}; stopping it without waiting.")
        _send(holder, signal.SIGTERM)
        if not _wait(is_gone, _HURRY_SECONDS):
            console.note("It does not stop, so it is killed. Accepted messages continue at the next start.")
            _send(holder, signal.SIGKILL)
            if not _wait(is_gone, _KILL_SECONDS):
                raise UserError(f"Process {holder.pid} cannot be ended.", hint="Look at it with: ps")
    console.line(f"The gateway of {home} is stopped.")
    return True


def _stop_all(home: Path, environ: Mapping[str, str], console: CliConsole) -> int:
    """All gateways of this user, wherever they were started."""
    failed = 0
    stopped = 0
    gateways = {Path(gateway.home): gateway for gateway in living_gateways(environ)}
    for place in sorted({*gateways, home}):
        try:
            stopped += stop_gateway(place, environ, console, gateways.get(place))
        except UserError as error:
            failed += 1
            console.note(f"{error}")
    if not stopped and not failed:
        console.line("None of your gateways is running on this machine.")
    return 1 if failed else 0


def list_gateways(command: CliCommand) -> None:
    """Whatever HOME they were started with."""
    columns = [Column("pid", "PROCESS"), Column("home", "HOME", str)]
    none = command.console.spell("No gateway of yours runs. Start one: hermes gateway start")
    command.list(living_gateways(command.environ), columns, none=none)


def _check_own(environ: Mapping[str, str]) -> None:
    if environ.get(INSIDE):
        raise UserError(
            "What an agent runs may not stop or restart a gateway.",
            hint="Do it in your own terminal, or with /restart in a chat.",
        )


def _grace(home: Path, environ: Mapping[str, str]) -> float:
    return load_settings(home, environ).settings.agent.restart_drain_timeout


def _still_running(home: Path, environ: Mapping[str, str]) -> str:
    """What is under way, as the end of a sentence; nothing if it does not say."""
    try:
        running = find_running(home, environ, 0.0)
        turns = {} if running is None else running.status()["turns"]
    except UserError:
        return ""
    told = [f"{turns[state]} {state}" for state in ("running", "accepted") if turns.get(state)]
    return f", turns: {', '.join(told)}" if told else ""


def _send(holder: LockHolder, number: int) -> None:
    try:
        os.kill(holder.pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise UserError(
            f"Process {holder.pid} belongs to somebody else.", hint="Stop it as the user who started it."
        ) from error


def _wait(what: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


# --- restart ---------------------------------------------------------------------------------------


def restart(command: CliCommand) -> int:
    home, environ, console = command.home, command.environ, command.console
    _check_own(environ)
    holder = home_holder(home)
    if holder is None:
        console.note(f"No gateway runs on {home}; starting one.")
        return start(command)
    if holder.what != GATEWAY:
        raise home_in_use(home, holder)
    access = open_home(command)  # one that is just starting is waited for
    before = read_state(home).get("start_time")
    told = _still_running(home, environ)
    console.note(f"Restarting the gateway of {home} (process {holder.pid}){told} …")
    try:
        access.ask(restart_gateway)
    except GatewayRefusal as refused:  # the settings would keep it from starting again
        console.note(f"hermes: {refused}")
        return EXIT_SETTINGS
    patience = 2 * _grace(home, environ) + _READY_SECONDS

    def is_back() -> bool:
        now = home_holder(home)
        return now is not None and now.what == GATEWAY and _is_ready(home, now.pid, before)

    def failure() -> str:
        reported = read_state(home)
        failed = reported.get("gateway_state") == "startup_failed" and reported.get("start_time") != before
        return str(reported.get("exit_reason") or "it did not say why") if failed else ""

    if not _wait(lambda: is_back() or failure() != "", patience):
        raise UserError(
            f"The gateway of {home} has not come back within {patience:g} s.",
            hint="See: hermes gateway status, hermes gateway logs",
        )
    if why := failure():
        raise UserError(f"The gateway did not start again: {why}", hint=f"Its log is {home / LOG_FILE}")
    now = home_holder(home)
    _tell_ready(home, 0 if now is None else now.pid, console)
    return 0
