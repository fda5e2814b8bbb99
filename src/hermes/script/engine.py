"""A gateway that lives in a thread of its own, with its own event loop, for programs of any kind.

Its life: whoever asks first starts the thread and waits until the gateway runs; `close` lets it drain and
waits for its end. A start that fails is raised to everybody who asks."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hermes.admin.process.home_files import hold_home
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret
from hermes.state.home.homes import SKILLS_FOLDER, prepare_home
from hermes.state.settings.secrets import RedactingFilter, Secrets

log = logging.getLogger("hermes.script")
T = TypeVar("T")
_engines: weakref.WeakSet[GatewayThread] = weakref.WeakSet()


def _close_all() -> None:
    for engine in list(_engines):
        engine.close()


# What `atexit` runs comes too late: by then no executor takes work any more, and a gateway cannot end in
# order. Functions registered with `threading` run before that, the latest first.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


class GatewayThread:
    """A gateway in a thread of its own. Started by whoever asks first."""

    def __init__(
        self, given: AppOverrides, folder: str | Path | None, verbose: bool, identity: Path | None = None
    ) -> None:
        self._given = given
        self._folder = None if folder is None else Path(folder).expanduser().absolute()
        self._verbose = verbose
        self._identity = identity
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: concurrent.futures.Future[App] = concurrent.futures.Future()
        self._closed = False
        self.lock = asyncio.Lock()
        _engines.add(self)

    def submit(self, work: Coroutine[Any, Any, T], *, inside: bool = False) -> concurrent.futures.Future[T]:
        """Run a coroutine in the thread; waiting for it there would wait for ever, so that is refused."""
        try:
            if not inside and threading.current_thread() is self._thread:
                raise RuntimeError("A callback of an AIAgent cannot ask the same agent something.")
            self.app()
        except BaseException:
            work.close()
            raise
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def app(self) -> App:
        with self._starting:
            if self._closed:
                raise RuntimeError("This AIAgent is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, name="hermes-agent", daemon=True)
                self._thread.start()
        return self._ready.result()

    async def ready(self) -> App:
        return self._ready.result()

    def close(self) -> None:
        with self._starting:
            self._closed = True
            thread = self._thread
        if thread is None:
            return
        # A start that failed has been told, and a loop that is closed has ended by itself.
        with contextlib.suppress(UserError, OSError, RuntimeError):
            app = self._ready.result()
            assert self._loop is not None
            self._loop.call_soon_threadsafe(app.stop)
        if thread is not threading.current_thread():  # an agent may be forgotten anywhere
            thread.join()

    def _live(self) -> None:
        try:
            with contextlib.ExitStack() as stack:
                if self._folder is None:
                    home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hermes-")))
                else:
                    home = prepare_home(self._folder)
                    stack.enter_context(hold_home(home, "An AIAgent"))
                if self._identity is not None:
                    _take_on(self._identity, home)
                app = App(home, os.environ, self._given)
                if self._verbose:
                    stack.enter_context(_verbosely(app.loaded.secrets, app.loaded.settings.model.api_key))
                asyncio.run(self._serve(app))
        except (UserError, OSError) as error:
            if self._ready.done():
                log.error("agent.ended why=%s", error)
            else:
                self._ready.set_exception(error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(RuntimeError("The agent ended before it was ready."))

    async def _serve(self, app: App) -> None:
        self._loop = asyncio.get_running_loop()
        async with app.running() as living:
            self._ready.set_result(app)
            await living


def _take_on(identity: Path, home: Path) -> None:
    """Who the agent is, what it remembers and what it can, as far as the home has nothing of its own."""
    for name in ("SOUL.md", "memories", SKILLS_FOLDER):
        source, target = identity / name, home / name
        if source.is_dir() and not (target.is_dir() and any(target.iterdir())):
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        elif source.is_file() and not target.exists():
            shutil.copyfile(source, target)


@contextlib.contextmanager
def _verbosely(secrets: Secrets, key: Secret) -> Iterator[None]:
    """Every step to stderr, without secrets."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
    shown.addFilter(RedactingFilter(secrets))
    shown.addFilter(RedactingFilter(Secrets({"api_key": key.reveal()})))
    ours = logging.getLogger("hermes")
    before = ours.level
    ours.setLevel(logging.DEBUG)
    ours.addHandler(shown)
    try:
        yield
    finally:
        ours.removeHandler(shown)
        ours.setLevel(before)
