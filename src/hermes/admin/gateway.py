"""`hermes gateway`: the gateway as a process. It owns the lock on a home, the files by which others know of
it (`gateway.lock`, `gateway.pid`, `gateway_state.json`), the log and the signals; what runs is `app`'s."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import logging
import logging.handlers
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.admin.output import Console
from hermes.domain.errors import UserError
from hermes.state.profiles import DATABASE_FILE, prepare_home
from hermes.state.secrets import RedactingFilter, Secrets
from hermes.state.textfile import replace_text

if TYPE_CHECKING:
    # `hermes status` looks at locks and files only and must not wait for all of this to be imported.
    from hermes.app import App, Given
    from hermes.entry.host import HostState
    from hermes.state.settings import Loaded
    from hermes.state.sqlite import SqliteStore

log = logging.getLogger("hermes.app")
T = TypeVar("T")

EXIT_RESTART = 75
"""Kept for “start me again”: a service does so."""
EXIT_SETTINGS = 78
"""Kept for “an operator must change something first”: a service leaves us down."""

LOCK_FILE = "gateway.lock"
PID_FILE = "gateway.pid"
STATE_FILE = "gateway_state.json"
LOG_FILE = "logs/gateway.log"
GATEWAY = "gateway"
_LOCK_PATIENCE = 3.0
_PROBLEMS_SHOWN = 5
_LOG_BYTES = 5_000_000
_LOG_FILES = 3


# --- the command -----------------------------------------------------------------------------------


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    told = "Run the gateway in this terminal until it is stopped (Ctrl-C or SIGTERM)."
    run_ = commands.add_parser("run", help=told, description=told)
    run_.add_argument("-v", "--verbose", action="store_true", help="log every step, for finding a fault")
    run_.add_argument("-q", "--quiet", action="store_true", help="show only warnings; the log file has all")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    process = GatewayProcess(
        home=home,
        environ=environ,
        say=lambda line: console.note(f"Hermes {asked.version} is {line}"),
        level="DEBUG" if asked.verbose else "",
        quiet=asked.quiet,
        version=asked.version,
    )
    return process.run()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProcess:
    """A gateway as a process. `say` gets the line that tells a person it is ready; `given` is for tests."""

    home: Path
    environ: Mapping[str, str]
    say: Callable[[str], None]
    level: str = ""
    quiet: bool = False
    given: Given | None = None
    version: str = ""

    def run(self) -> int:
        """Run until a signal; the exit code. What a person must mend first is raised as a `UserError`."""
        prepare_home(self.home)
        with hold_home(self.home, GATEWAY):
            from hermes.app import App

            app = App(self.home, self.environ, self.given, self.version)
            facts = process_facts()
            level = self.level or app.loaded.settings.logging.level
            with (
                logging_to(self.home, app.loaded.secrets, level, self.quiet),
                _pid_file(self.home, facts),
                asyncio.Runner(loop_factory=loop_factory()) as runner,
            ):
                tell_problems(app.loaded)
                if _tell_half_open(app.loaded):
                    return EXIT_SETTINGS
                runner.run(self._live(app, StateFile(self.home, facts, self.say)))
        return 0

    async def _live(self, app: App, state: StateFile) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # A process that was started with nohup keeps ignoring SIGHUP.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, app.stop)
        try:
            await app.live(state)
        finally:
            await state.written()


def on_store(home: Path, what: str, work: Callable[[SqliteStore], Awaitable[T]]) -> T | None:
    """Do something with the store of a home that no gateway has; None if there is no store yet."""
    from hermes.state.sqlite import SqliteStore

    path = home / DATABASE_FILE
    if not path.exists():
        return None

    async def opened() -> T:
        async with SqliteStore(path) as store:
            return await work(store)

    with hold_home(home, what):
        return asyncio.run(opened())


# --- who has the home ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that has a home locked; `what` is the gateway or a command that is done in a moment."""

    what: str
    pid: int = 0
    since: datetime | None = None

    def __str__(self) -> str:
        process = f"process {self.pid}, " if self.pid else ""
        since = f"since {self.since.astimezone():%Y-%m-%d %H:%M:%S}" if self.since else "just started"
        return f"{process}{since}"


@contextlib.contextmanager
def hold_home(home: Path, what: str) -> Iterator[None]:
    """Be the one process that works on a home, or say who does. The kernel ends this with the process."""
    with _lock_file(home, os.O_RDWR | os.O_CREAT) as descriptor:
        patience = time.monotonic() + _LOCK_PATIENCE
        while not _flock(descriptor, fcntl.LOCK_EX, home):
            holder = _read_holder(descriptor)
            # A command is done in a moment, and a gateway that has just begun tells its name in a moment.
            if (holder.what == GATEWAY and _alive(holder.pid)) or time.monotonic() > patience:
                raise held(home, holder)
            time.sleep(0.05)
        said = {"what": what, "pid": os.getpid(), "since": datetime.now(UTC).isoformat()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(said).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)


def home_holder(home: Path) -> Holder | None:
    """Who has the home locked at this moment."""
    if not (home / LOCK_FILE).exists():
        return None
    with _lock_file(home, os.O_RDONLY) as descriptor:
        return None if _flock(descriptor, fcntl.LOCK_SH, home) else _read_holder(descriptor)


@contextlib.contextmanager
def _lock_file(home: Path, flags: int) -> Iterator[int]:
    path = home / LOCK_FILE
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(
            f"{path} cannot be opened ({error.strerror}).", hint="Check the owner and the rights of the home."
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _flock(descriptor: int, kind: int, home: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(
            f"{home} cannot be locked ({error.strerror}).", hint="Put the home on a local disk."
        ) from error
    return True


def _read_holder(descriptor: int) -> Holder:
    try:
        said = json.loads(os.pread(descriptor, 4096, 0))
        since = datetime.fromisoformat(said["since"])
        return Holder(what=str(said["what"]), pid=int(said["pid"]), since=since)
    except (ValueError, TypeError, LookupError):
        return Holder(what="another Hermes process")


def held(home: Path, holder: Holder) -> UserError:
    if holder.what == GATEWAY:
        return UserError(
            f"A gateway already runs on {home} ({holder}).",
            hint=f"`hermes status` shows it; stop it first with: kill {holder.pid}",
        )
    return UserError(f"{holder.what} works on {home} ({holder}).", hint="Try again when it is done.")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


# --- what the gateway says of itself -------------------------------------------------------------


class StateFile:
    """`gateway_state.json`: replaced as a whole, written beside the loop, the newest state last."""

    def __init__(self, home: Path, facts: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self._path = home / STATE_FILE
        self._home = home
        self._say = say
        self._facts: dict[str, Any] = {**facts, "platforms": {}}
        self._writing: asyncio.Task[None] | None = None
        self._changed = False
        self._ready = False

    def tell(self, state: str, **facts: Any) -> None:
        self._facts.update(facts, gateway_state=state)
        self._write()
        if state == "running" and not self._ready:
            self._ready = True
            agents, accounts = ", ".join(facts["agents"]), ", ".join(facts["accounts"]) or "none"
            place = f"home {self._home}, agents {agents}, platforms {accounts}, model {facts['model']}"
            self._say(f"ready: {place}")

    def tell_platform(self, account: str, state: HostState, why: str) -> None:
        self._facts["platforms"][account] = {
            "state": state.value,
            "error_message": why,
            "updated_at": datetime.now(UTC).isoformat(),
        }
        self._write()

    async def written(self) -> None:
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    def _write(self) -> None:
        self._changed = True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="state file")

    async def _write_all(self) -> None:
        while self._changed:
            self._changed = False
            self._facts["updated_at"] = datetime.now(UTC).isoformat()
            text = json.dumps(self._facts, ensure_ascii=False, indent=1) + "\n"
            try:
                await asyncio.to_thread(replace_text, self._path, text, 0o600)
            except UserError as error:
                log.warning("state_file.failed why=%s", error)


@contextlib.contextmanager
def _pid_file(home: Path, facts: Mapping[str, Any]) -> Iterator[None]:
    path = home / PID_FILE
    replace_text(path, json.dumps(facts) + "\n", 0o600)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def process_facts() -> dict[str, Any]:
    """What tells this process from another that gets its number later."""
    return {
        "pid": os.getpid(),
        "kind": "hermes-gateway",
        "argv": sys.argv,
        "start_time": datetime.now(UTC).isoformat(),
    }


# --- the log ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def logging_to(home: Path, secrets: Secrets, level: str, quiet: bool = False) -> Iterator[None]:
    """Log to stderr and to the home, without secrets. A log that cannot be written stops nothing."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(logging.WARNING if quiet else logging.NOTSET)
    with logging_on(home, secrets, level, [shown]):
        yield


@contextlib.contextmanager
def logging_on(
    home: Path, secrets: Secrets, level: str, further: Sequence[logging.Handler] = ()
) -> Iterator[None]:
    """Log to the home and to further sinks."""
    sinks = list(further)
    try:
        sinks.append(
            logging.handlers.RotatingFileHandler(
                home / LOG_FILE,
                maxBytes=_LOG_BYTES,
                backupCount=_LOG_FILES,
                encoding="utf-8",
                errors="replace",
            )
        )
    except OSError as error:
        log.warning("log.unwritable file=%s why=%s", home / LOG_FILE, error.strerror)
    form = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s")
    root, ours = logging.getLogger(), logging.getLogger("hermes")
    complaining = logging.raiseExceptions
    logging.raiseExceptions = False
    ours.setLevel(level)
    for sink in sinks:
        sink.setFormatter(form)
        sink.addFilter(RedactingFilter(secrets))
        root.addHandler(sink)
    try:
        yield
    finally:
        for sink in sinks:
            root.removeHandler(sink)
            sink.close()
        logging.raiseExceptions = complaining


def _tell_half_open(loaded: Loaded) -> bool:
    """A platform that is said to be open and is not opened: only the operator knows which one is meant."""
    from hermes.control.access import half_open

    found = half_open(loaded.settings)
    for problem in found:
        log.error("settings.half_open %s Set both or neither; the gateway does not start.", problem)
    return bool(found)


def tell_problems(loaded: Loaded) -> None:
    for problem in loaded.problems[:_PROBLEMS_SHOWN]:
        log.warning("settings.problem %s", problem)
    more = len(loaded.problems) - _PROBLEMS_SHOWN
    if more > 0:
        log.warning("settings.problem %d more; `hermes config check` shows all", more)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
