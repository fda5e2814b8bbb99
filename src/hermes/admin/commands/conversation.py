"""One conversation at the terminal, with the gateway embedded here or with one that runs already: hands the
terminal its door and passes on signals. `entry/terminal` draws the conversation."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.admin.commands.chat import ChatProcess, current_folder, is_terminal
from hermes.admin.process.run import GATEWAY
from hermes.admin.process.running import RunningGateway
from hermes.agent.models.choose import LOCAL_SERVERS
from hermes.domain.errors import UserError
from hermes.domain.text import showable
from hermes.entry.terminal.door import (
    GatewayGone,
    Visit,
    enter_embedded,
    local_caller,
)

if TYPE_CHECKING:
    from hermes.app.app import App
    from hermes.entry.host import HostState
    from hermes.entry.terminal.oneshot import OneShot
    from hermes.entry.terminal.remote import GatewayConnection
    from hermes.entry.terminal.screen import ScreenStyle
    from hermes.entry.terminal.view_plain import PlainView

HISTORY_FILE = "terminal_history"
_SIGNALLED = 128
_HELP = "/help lists the commands, Ctrl-C stops the agent, Ctrl-D leaves."


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkGateway:
    """What a conversation says of the gateway behind it, and how it is joined to it once it is there."""

    greeting: Sequence[str]
    note: str
    display: Mapping[str, Any]
    """What its settings say of what is shown."""
    join: Callable[[PlainView | OneShot], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTalk:
    """One life of the gateway in this process, with somebody at the terminal."""

    process: ChatProcess
    app: App
    words: str | None

    async def live(self) -> int:
        ready = ReadyListener()
        living = asyncio.create_task(self.app.live(ready), name="gateway")
        waiting = asyncio.create_task(ready.running.wait(), name="ready")
        try:
            await asyncio.wait((living, waiting), return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
            wish = self.process.wish(self.words)
            visit = await enter_embedded(self.app.gateway, local_caller(), wish)
            return await TerminalTalk(process=self.process, words=self.words).live(visit, self._behind())
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
        _on_signals({signal.SIGINT: hurry, signal.SIGTERM: hurry})
        if not accounts:
            hurry()

    def _behind(self) -> TalkGateway:
        lines = [f"Hermes {self.process.command.version}. Model: {self.app.model_line}", _HELP]
        lines += _warnings(current_folder(), self.process.command.environ)
        problems = len(self.app.loaded.problems)
        if problems:
            lines.append(f"The settings have {problems} problem{'s' * (problems > 1)}: hermes config check")
        choice = self.app.choice
        # It was found here and nobody asked for it by name, so that is said.
        note = choice.line if choice.provider in LOCAL_SERVERS else ""
        return TalkGateway(greeting=lines, note=note, display=self.app.display, join=self._join)

    def _join(self, door: PlainView | OneShot) -> None:
        follow = getattr(door, "follow", None)
        if follow is not None:
            self.app.gateway.listen(follow)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedTalk:
    """A conversation with the gateway of another process."""

    process: ChatProcess
    running: RunningGateway
    words: str | None

    async def live(self) -> int:
        from hermes.entry.terminal.remote import GatewayConnection, enter_remote

        process = self.process
        try:
            async with GatewayConnection(self.running.socket) as line:
                steady = self.words is not None and not process.watched
                visit = await enter_remote(line, process.wish(self.words), steady=steady)
                return await TerminalTalk(process=process, words=self.words).live(visit, self._behind(line))
        except GatewayGone as gone:
            raise UserError(str(gone)) from gone

    def _behind(self, line: GatewayConnection) -> TalkGateway:
        facts, folder = line.facts, current_folder()
        what = "the gateway" if self.running.holder.what == GATEWAY else "the gateway of another chat"
        attached = f"Attached to {what} (process {facts.get('pid', self.running.holder.pid)})."
        workspace = str(facts.get("workspace", ""))
        elsewhere = f" Its agent works in {workspace}." if workspace and workspace != str(folder) else ""
        lines = [
            f"Hermes {self.process.command.version}. Model: {facts.get('model', '')}",
            attached + elsewhere,
            _HELP,
            *_warnings(Path(workspace) if workspace else None, self.process.command.environ),
        ]
        return TalkGateway(
            greeting=lines,
            note=attached + elsewhere if elsewhere else "",
            display=facts.get("display") or {},
            join=lambda door: self._join(line, door),
        )

    def _join(self, line: GatewayConnection, door: PlainView | OneShot) -> None:
        tell = self.process.command.console.note
        line.hear = getattr(door, "hear", lambda presence: tell(f"hermes: {presence}"))
        line.follow = getattr(door, "follow", line.follow)


def _warnings(workspace: Path | None, environ: Mapping[str, str]) -> list[str]:
    """What to know of the folder the agent works in, if anything."""
    from hermes.app.homes import is_wide

    if workspace is None or not is_wide(workspace, environ):
        return []
    return [f"{workspace} is not a project folder. The agent asks before it deletes anything in it."]


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalTalk:
    """Somebody at the terminal, or a single message of theirs."""

    process: ChatProcess
    words: str | None

    async def live(self, visit: Visit, behind: TalkGateway) -> int:
        if self.words is None or self.process.watched:
            return await self._chat(visit, behind)
        return await self._one_shot(visit, behind, self.words)

    async def _chat(self, visit: Visit, behind: TalkGateway) -> int:
        from hermes.entry.terminal.editor import LineHistory
        from hermes.entry.terminal.screen import Screen
        from hermes.entry.terminal.talk import ChatPlan
        from hermes.entry.terminal.view_plain import PlainView

        greeting = [] if self.words is not None else behind.greeting
        chat = PlainView(
            visit=visit,
            screen=Screen(sys.stdout.fileno(), self._look(behind)),
            keys=sys.stdin.fileno(),
            history=LineHistory(self.process.command.home / HISTORY_FILE),
            plan=ChatPlan(first=self.words, once=self.words is not None, greeting=greeting),
        )
        _on_signals(_signals(chat))
        behind.join(chat)
        return await chat.live()

    async def _one_shot(self, visit: Visit, behind: TalkGateway, words: str) -> int:
        from hermes.entry.terminal.oneshot import OneShot
        from hermes.entry.terminal.screen import Screen

        if behind.note and not self.process.final_only:
            self.process.command.console.note(f"hermes: {behind.note}")
        shot = OneShot(
            visit=visit,
            screen=Screen(sys.stdout.fileno(), replace(self._look(behind), rich=False)),
            tell=lambda line: self.process.command.console.note(f"hermes: {line}"),
            final_only=self.process.final_only,
            ask=self._ask if self.process.command.console.interactive else None,
        )
        _on_signals(_signals(shot))
        behind.join(shot)
        return await shot.live(words)

    async def _ask(self, question: str) -> str | None:
        """On stderr, so that stdout stays the answer alone."""
        from hermes.entry.terminal.keyboard import read_line

        err = self.process.command.console.err
        err.write(f"{showable(question)}\nanswer> ")
        err.flush()
        return await read_line(sys.stdin.fileno())

    def _look(self, behind: TalkGateway) -> ScreenStyle:
        from hermes.entry.terminal.screen import ScreenStyle

        console, terminal = self.process.command.console, is_terminal(sys.stdout)
        rich = terminal and self.process.command.environ.get("TERM", "dumb") != "dumb"
        return ScreenStyle(
            rich=rich,
            colour=console.colour,
            terminal=terminal,
            tools=behind.display.get("tool_progress") != "off",
            thoughts=behind.display.get("show_reasoning") is True,
        )


class ReadyListener:
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


def _on_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
    loop = asyncio.get_running_loop()
    for number, act in actions.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, act)


def _signals(door: PlainView | OneShot) -> dict[signal.Signals, Callable[[], None]]:
    actions: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGINT: door.interrupt,
        signal.SIGTERM: lambda: door.leave(_SIGNALLED + signal.SIGTERM),
        signal.SIGHUP: lambda: door.leave(_SIGNALLED + signal.SIGHUP),
    }
    redraw = getattr(door, "redraw", None)
    if redraw is not None:
        actions[signal.SIGCONT] = redraw
    return actions
