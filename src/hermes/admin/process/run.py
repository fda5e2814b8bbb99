"""`hermes gateway`: the gateway as a process. It holds the home, writes the files by which others know of it
(`home_files.py`) and hears the signals; what runs is `app`'s."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from hermes.admin.process.heap import give_back, late_types, leave_out_cpp, use_one_arena
from hermes.admin.process.home_files import GATEWAY, PID_FILE, STATE_FILE, hold_home
from hermes.admin.process.late_certificates import import_aiohttp
from hermes.admin.process.listing import listed
from hermes.admin.process.logs import SHOWN_ALL, logging_to
from hermes.admin.process.starts import HEALTHY_SECONDS, StartGuard
from hermes.admin.process.watchdog import SystemdNotifier, Watchdog
from hermes.control.workers import report_death
from hermes.domain.errors import SettingsError, UserError
from hermes.domain.text import list_some
from hermes.domain.word import replace
from hermes.state.home.homes import prepare_home
from hermes.state.home.locks import HOMES, MachineLock, lock_folder
from hermes.state.home.textfile import replace_text

if TYPE_CHECKING:
    from hermes.admin.shell.command import CliCommand
    from hermes.app.app import App

    # `hermes status` looks at locks and files only and must not wait for all of this to be imported.
    from hermes.app.overrides import AppOverrides
    from hermes.state.settings.loader import LoadedSettings

log = logging.getLogger("hermes.app")
T = TypeVar("T")

LEAVE_SECONDS = 5.0
"""How long the process waits for what a plugin left running, once all else is closed."""
EXIT_RESTART = 75
"""Kept for “start me again”: a service does so."""
EXIT_SETTINGS = 78
"""Kept for “an operator must change something first”: a service leaves us down."""

_PROBLEMS_SHOWN = 5
_FILES = 8192


# --- the command -----------------------------------------------------------------------------------


class GatewayProcess(Struct, frozen=True, kw_only=True):
    """A gateway as a process. `say` gets the line that tells a person it is ready; `given` is for tests."""

    home: Path
    environ: Mapping[str, str]
    say: Callable[[str], None]
    level: str = ""
    shown: int = SHOWN_ALL
    given: AppOverrides | None = None
    version: str = ""
    slowed: bool = False
    """Whether starts are slowed down after several that died young."""
    temporary: bool = False
    """Whether it leaves when no terminal uses it any more."""
    ending: Callable[[int], int] = int
    """Given the exit code where the process ends without what will not end; it may begin anew instead."""

    def run(self) -> int:
        """Run until a signal; the exit code. What a person must mend first is raised as a `UserError`."""
        use_one_arena()
        leave_out_cpp()
        with late_types():
            import_aiohttp()
        prepare_home(self.home)
        with hold_home(self.home, GATEWAY), self._alone(), listed(self.home, self.environ):
            from hermes.app.app import App
            from hermes.app.generations import check_half_open

            app = App(self.home, self.environ, self._overrides(), self.version)
            facts = process_facts()
            level = self.level or app.loaded.settings.logging.level
            with (
                logging_to(self.home, app.loaded.secrets, level, self.shown),
                _pid_file(self.home, facts),
            ):
                _raise_file_limit()
                tell_problems(app.loaded)
                check_half_open(app.loaded)
                starts = StartGuard(self.home)
                if self.slowed and not app.loaded.stops:
                    starts.wait(self.say)
                starts.begin()
                try:
                    with Watchdog(self.home, app.loaded.settings, SystemdNotifier(self.environ)) as watchdog:
                        self._live(app, StateFile(self.home, facts), starts, watchdog)
                except SettingsError:
                    starts.withdraw()
                    raise
                starts.forget()
        return EXIT_RESTART if app.restarting else 0

    def _overrides(self) -> AppOverrides | None:
        if not self.temporary:
            return self.given
        from hermes.app.overrides import AppOverrides

        # It outlives the terminal that started it, whose folder may go.
        os.chdir(self.home)
        return replace(self.given or AppOverrides(), stay=False)

    def _live(self, app: App, file: StateFile, starts: StartGuard, watchdog: Watchdog) -> None:
        heard = ""

        def listen(facts: Mapping[str, Any]) -> None:
            nonlocal heard
            file.write(facts)
            before, heard = heard, facts["gateway_state"]
            if heard == before:
                return
            watchdog.told(heard)
            if heard == "running":
                agents, accounts = list_some(facts["agents"]), ", ".join(facts["accounts"]) or "none"
                place = f"home {self.home}, agents {agents}, platforms {accounts}, model {facts['model']}"
                self.say(f"ready: {place}")
                _collect_from_now_on()

        async def live() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                # A process that was started with nohup keeps ignoring SIGHUP.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    loop.add_signal_handler(number, app.stop)
            loop.add_signal_handler(signal.SIGUSR1, app.restart_soon)
            loop.call_later(HEALTHY_SECONDS, starts.forget)
            loop.call_later(HEALTHY_SECONDS, _collect_from_now_on)
            beating = app.loops.keep("watchdog", watchdog.beat)
            try:
                await app.live(listen)
            finally:
                beating.cancel()
                await file.written()
            leaving.start()

        def leave() -> None:
            log.error("gateway.left_behind: something of a plugin will not end; the process ends without it")
            starts.forget()
            logging.shutdown()
            os._exit(self.ending(EXIT_RESTART if app.restarting else 0))

        # Everything is stored and closed by then, and a tool may hold on to its task or its thread for ever.
        leaving = threading.Timer(LEAVE_SECONDS, leave)
        leaving.daemon = True
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(live())
        finally:
            leaving.cancel()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only one on this home, also if the lock file in it is removed. Where that cannot be locked,
        a gateway is one all the same."""
        home = str(self.home)
        lock = MachineLock(folder=lock_folder(self.environ), scope=HOMES, identity=home, owner={"home": home})
        try:
            is_ours = lock.take()
        except UserError as error:
            log.warning("gateway.not_locked why=%s", error)
            is_ours = True
        if not is_ours:
            pid = lock.holder().get("pid", "unknown")
            raise UserError(
                f"A gateway already runs on {home} (process {pid}), though its files were removed under it.",
                hint="It saves its data and restarts shortly. `hermes gateway stop --all` stops it.",
            )
        try:
            yield
        finally:
            lock.release()


def _raise_file_limit() -> None:
    """Many systems give a process 1,024 open files unless it asks; each client and each model call is one.
    What the gateway starts has the same limit, so it is not raised beyond what old programs cope with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log.warning("app.few_files limit=%d: it cannot be raised (%s)", soft, error)


def _collect_from_now_on() -> None:
    """The collector was off while the program loaded (`cli.main`). It leaves alone what is there by now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
        give_back()


# --- what the gateway says of itself -------------------------------------------------------------


class StateFile:
    """`gateway_state.json`: replaced as a whole, written beside the loop, the newest state last."""

    def __init__(self, home: Path, process: Mapping[str, Any]) -> None:
        self._path = home / STATE_FILE
        self._process = process
        self._facts: Mapping[str, Any] = {}
        self._writing: asyncio.Task[None] | None = None
        self._changed = False

    def write(self, facts: Mapping[str, Any]) -> None:
        self._facts, self._changed = facts, True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="state file")
            self._writing.add_done_callback(report_death)

    async def written(self) -> None:
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    async def _write_all(self) -> None:
        while self._changed:
            self._changed = False
            text = json.dumps({**self._process, **self._facts}, ensure_ascii=False, indent=1) + "\n"
            try:
                await asyncio.to_thread(replace_text, self._path, text, 0o600)
            except UserError as error:
                log.warning("state_file.failed why=%s", error)


@contextlib.contextmanager
def _pid_file(home: Path, facts: Mapping[str, Any]) -> Iterator[None]:
    path = home / PID_FILE
    try:
        replace_text(path, json.dumps(facts) + "\n", 0o600)
    except UserError as error:
        # For people who look for it; nothing of ours depends on it.
        log.warning("gateway.no_pid_file why=%s", error)
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


# --- what is wrong with the settings ------------------------------------------------------------


def tell_problems(loaded: LoadedSettings) -> None:
    # The first of those that stop the start is the error it ends with.
    for stop in loaded.stops[1:_PROBLEMS_SHOWN]:
        log.error("settings.stop %s", stop)
    if loaded.stops:
        return
    for problem in loaded.problems[:_PROBLEMS_SHOWN]:
        log.warning("settings.problem %s", problem)
    more = len(loaded.problems) - _PROBLEMS_SHOWN
    if more > 0:
        log.warning("settings.problem %d more; `hermes config check` shows all", more)
    for note in loaded.exposed:
        log.warning("settings.exposed %s", note)
    for note in loaded.weak:
        log.warning("settings.weak %s", note)


def embed(
    command: CliCommand,
    name: str,
    given: Callable[[], AppOverrides],
    work: Callable[[App], Coroutine[Any, Any, T]],
) -> T:
    """Do some work with a gateway in this process, which has the home meanwhile and logs to it alone. The
    home is taken first: what is imported after that takes long."""
    home = prepare_home(command.home)
    with hold_home(home, name):
        from hermes.app.app import App

        app = App(home, command.environ, given(), command.version)
        logs = logging_to(home, app.loaded.secrets, app.loaded.settings.logging.level)
        with logs, asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(work(app))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
