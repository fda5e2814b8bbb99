"""`hermes` and `hermes chat`: the gateway embedded in this process, and the terminal as its door.

Decides what the words are (an option, a pipe, a person), holds the home, starts the app, hands the terminal
its door, and passes on signals. What a conversation looks like is `entry.terminal`'s."""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.admin.gateway import hold_home, logging_on, loop_factory, tell_problems
from hermes.admin.output import Console
from hermes.agent.detect import LOCAL_SERVERS
from hermes.domain.text import showable
from hermes.state.profiles import prepare_home

if TYPE_CHECKING:
    from hermes.app import App, Given
    from hermes.domain.settings import Settings
    from hermes.entry.host import HostState
    from hermes.entry.terminal.chat import Chat
    from hermes.entry.terminal.door import Visit, Wish
    from hermes.entry.terminal.oneshot import OneShot
    from hermes.entry.terminal.screen import Look

CHAT = "hermes chat"
HISTORY_FILE = "terminal_history"
WRONG_USE = 2
_SIGNALLED = 128
_PATIENCE = 3.0
_MOST_BYTES = 64 * 1024 * 1024
_NO_WORDS = "Nothing was said: standard input is empty."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Talk with the agent. Without -q and with a terminal: a conversation. With -q, -z or a pipe: one"
        " message and its answer."
    )
    parser.add_argument("-q", "--query", metavar="TEXT", help="say this, show the answer, leave")
    parser.add_argument(
        "-z",
        "--oneshot",
        nargs="?",
        const="",
        metavar="TEXT",
        help="print only the final answer, of TEXT or of -q",
    )
    parser.add_argument("-r", "--resume", metavar="SESSION", help="go on in this session, by id or title")
    parser.add_argument(
        "-c",
        "--continue",
        dest="latest",
        nargs="?",
        const="",
        metavar="SESSION",
        help="go on where you were last, or in this session",
    )
    parser.add_argument("-m", "--model", metavar="NAME", help="the model for this session")
    parser.add_argument("-t", "--toolsets", metavar="A,B", help="only these toolsets")


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    return ChatProcess(asked=asked, home=home, environ=environ, console=console).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatProcess:
    """A conversation as a process. `given` is for tests."""

    asked: argparse.Namespace
    home: Path
    environ: Mapping[str, str]
    console: Console
    given: Given | None = None

    def run(self) -> int:
        if self.asked.resume is not None and self.asked.latest is not None:
            self.console.note("hermes: --resume and --continue cannot stand together.")
            return WRONG_USE
        try:
            words = self._words()
        except NoWords as none:
            self.console.note(f"hermes: {none}")
            return WRONG_USE
        prepare_home(self.home)
        with hold_home(self.home, CHAT):
            from hermes.app import App

            app = App(self.home, self.environ, self._given(), self.asked.version)
            settings = app.loaded.settings
            with (
                logging_on(self.home, app.loaded.secrets, settings.logging.level),
                asyncio.Runner(loop_factory=loop_factory()) as runner,
            ):
                tell_problems(app.loaded)
                return runner.run(Talk(process=self, app=app, words=words).live())

    # --- what is said ---

    @property
    def interactive(self) -> bool:
        return _is_terminal(sys.stdin)

    @property
    def final_only(self) -> bool:
        return self.asked.oneshot is not None

    def _words(self) -> str | None:
        """The one message of a one-shot; None for a conversation."""
        parts = [part for part in (self.asked.query, self.asked.oneshot) if part and part.strip()]
        if not self.interactive:
            parts.append(self._read_pipe(bool(parts)))
        told = "\n\n".join(part for part in parts if part.strip())
        if told.strip():
            return told
        if self.asked.query is not None or self.final_only or not self.interactive:
            raise NoWords(_NO_WORDS if not self.interactive else "Nothing was said: -q needs words.")
        return None

    def _read_pipe(self, has_words: bool) -> str:
        """What comes by standard input, to its end; if nothing comes, what is waited for is told."""
        if sys.stdin is None:
            return ""
        descriptor = sys.stdin.fileno()
        if has_words and not _may_carry(descriptor):
            return ""
        if not select.select([descriptor], [], [], _PATIENCE)[0]:
            self.console.note("hermes: reading standard input to its end (</dev/null gives none) …")
        data = sys.stdin.buffer.read(_MOST_BYTES)
        return data.decode("utf-8", "replace")

    def _given(self) -> Given:
        from hermes.app import Given, Toolsets

        given = self.given or Given(workspace=_here(), boots=False)
        wanted = tuple(name.strip() for name in (self.asked.toolsets or "").split(",") if name.strip())
        if wanted:
            given = replace(given, toolsets=Toolsets(enabled=wanted))
        model = self.asked.model
        if model:
            given = replace(given, change=lambda settings: _with_model(settings, model))
        return given

    def wish(self, words: str | None) -> Wish:
        from hermes.entry.terminal.door import Wish

        named = self.asked.resume or self.asked.latest or None
        return Wish(
            named=named,
            latest=self.asked.latest is not None,
            attach=words is None,
            model=self.asked.model,
        )


class NoWords(Exception):
    """A one-shot without a message."""


@dataclass(slots=True, kw_only=True)
class Talk:
    """One life of the embedded gateway with somebody at the terminal."""

    process: ChatProcess
    app: App
    words: str | None

    async def live(self) -> int:
        ready = Ready()
        living = asyncio.create_task(self.app.live(ready), name="gateway")
        waiting = asyncio.create_task(ready.running.wait(), name="ready")
        try:
            await asyncio.wait((living, waiting), return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
            return await self._talk()
        finally:
            waiting.cancel()
            self.app.stop()
            if ready.running.is_set():
                self._drain(ready.accounts)
            await asyncio.wait((living,))
            if not living.cancelled():
                living.exception()

    def _drain(self, accounts: Sequence[str]) -> None:
        """Who leaves does not want to wait: only messages to platforms are worth it, and Ctrl-C ends that."""
        hurry = self.app.gateway.hurry
        self._on_signals({signal.SIGINT: hurry, signal.SIGTERM: hurry})
        if not accounts:
            hurry()

    async def _talk(self) -> int:
        from hermes.entry.terminal.door import enter_embedded, local_caller

        visit = await enter_embedded(self.app.gateway, local_caller(), self.process.wish(self.words))
        watched = self.process.interactive and _is_terminal(sys.stdout) and not self.process.final_only
        if self.words is None or watched:
            return await self._chat(visit)
        return await self._one_shot(visit, self.words)

    async def _chat(self, visit: Visit) -> int:
        from hermes.entry.terminal.chat import Chat, Plan
        from hermes.entry.terminal.history import History
        from hermes.entry.terminal.screen import Screen

        greeting = [] if self.words is not None else self._greeting()
        chat = Chat(
            visit=visit,
            screen=Screen(sys.stdout.fileno(), self._look()),
            keys=sys.stdin.fileno(),
            history=History(self.process.home / HISTORY_FILE),
            plan=Plan(first=self.words, once=self.words is not None, greeting=greeting),
        )
        self._on_signals(_signals(chat))
        self.app.gateway.listen(chat.follow)
        return await chat.live()

    async def _one_shot(self, visit: Visit, words: str) -> int:
        from hermes.entry.terminal.oneshot import OneShot
        from hermes.entry.terminal.screen import Screen

        choice = self.app.choice
        if choice.provider in LOCAL_SERVERS and not self.process.final_only:
            # It was found here and nobody asked for it by name, so that is said.
            self.process.console.note(f"hermes: {choice.line}")
        shot = OneShot(
            visit=visit,
            screen=Screen(sys.stdout.fileno(), replace(self._look(), rich=False)),
            tell=lambda line: self.process.console.note(f"hermes: {line}"),
            final_only=self.process.final_only,
            ask=self._ask if self.process.console.interactive else None,
        )
        self._on_signals(_signals(shot))
        return await shot.live(words)

    async def _ask(self, question: str) -> str | None:
        """On stderr, so that stdout stays the answer alone."""
        from hermes.entry.terminal.keyboard import read_line

        err = self.process.console.err
        err.write(f"{showable(question)}\nanswer> ")
        err.flush()
        return await read_line(sys.stdin.fileno())

    def _greeting(self) -> list[str]:
        lines = [
            f"Hermes {self.process.asked.version}. Model: {self.app.model_line}",
            "/help lists the commands, Ctrl-C stops the agent, Ctrl-D leaves.",
        ]
        problems = len(self.app.loaded.problems)
        if problems:
            lines.append(f"The settings have {problems} problem{'s' * (problems > 1)}: hermes config check")
        return lines

    def _look(self) -> Look:
        from hermes.entry.terminal.screen import Look

        console, terminal = self.process.console, _is_terminal(sys.stdout)
        rich = terminal and self.process.environ.get("TERM", "dumb") != "dumb"
        return Look(rich=rich, colour=console.colour, terminal=terminal)

    def _on_signals(self, actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
        loop = asyncio.get_running_loop()
        for number, act in actions.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, act)


class Ready:
    """Told what the gateway does; the terminal waits for `running` and the log has the rest."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.accounts: Sequence[str] = ()

    def tell(self, state: str, **facts: Any) -> None:
        if state == "running":
            self.accounts = facts["accounts"]
            self.running.set()

    def tell_platform(self, account: str, state: HostState, why: str) -> None:
        pass


def _signals(door: Chat | OneShot) -> dict[signal.Signals, Callable[[], None]]:
    actions: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGINT: door.interrupt,
        signal.SIGTERM: lambda: door.leave(_SIGNALLED + signal.SIGTERM),
        signal.SIGHUP: lambda: door.leave(_SIGNALLED + signal.SIGHUP),
    }
    redraw = getattr(door, "redraw", None)
    if redraw is not None:
        actions[signal.SIGCONT] = redraw
    return actions


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _may_carry(descriptor: int) -> bool:
    """Whether somebody may have sent something along: a pipe, a file or a socket, not a bare device."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None


def _with_model(settings: Settings, model: str) -> Settings:
    return replace(settings, model=replace(settings.model, default=settings.model.default or model))
