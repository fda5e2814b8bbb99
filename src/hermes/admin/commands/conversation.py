"""One conversation at the terminal, with the gateway embedded here or with one that runs already: hands the
terminal its door and passes on signals. `entry/terminal` draws the conversation."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hermes.admin.commands.chat import ChatProcess, current_folder, is_terminal
from hermes.admin.process.run import GATEWAY
from hermes.admin.process.running import RunningGateway
from hermes.agent.models.choose import LOCAL_SERVERS
from hermes.domain.errors import UserError
from hermes.domain.text import showable
from hermes.domain.word import replace
from hermes.entry.terminal.door import GatewayGone, Visit, enter_embedded, local_caller

if TYPE_CHECKING:
    from hermes.app.app import App
    from hermes.entry.terminal.oneshot import OneShot
    from hermes.entry.terminal.screen import ScreenStyle
    from hermes.entry.terminal.view_plain import PlainView

HISTORY_FILE = "terminal_history"
_SIGNALLED = 128
_HELP = "/help lists the commands, Ctrl-C stops the agent, Ctrl-D leaves."


async def talk_embedded(process: ChatProcess, app: App, words: str | None) -> int:
    """One life of the gateway in this process, with somebody at the terminal."""
    async with app.running():
        try:
            visit = await enter_embedded(app.gateway, local_caller(), process.wish(words))
            lines = [_about(process, app.choice.line), _HELP]
            lines += _warnings(current_folder(), process.command.environ)
            problems = len(app.loaded.problems)
            if problems:
                lines.append(
                    f"The settings have {problems} problem{'s' * (problems > 1)}: hermes config check"
                )
            choice = app.choice
            # It was found here and nobody asked for it by name, so that is said.
            note = choice.line if choice.provider in LOCAL_SERVERS else ""
            talk = TerminalTalk(
                process=process, words=words, visit=visit, greeting=lines, note=note, display=app.display
            )
            return await talk.live(lambda door: _show_woken(app, door))
        finally:
            # Who leaves does not want to wait: only messages to platforms are worth it, and Ctrl-C ends that.
            hurry = app.gateway.hurry
            _on_signals({signal.SIGINT: hurry, signal.SIGTERM: hurry})
            if not app.account_names:
                hurry()


def _show_woken(app: App, door: PlainView | OneShot) -> None:
    """Turns that nobody began are shown, too, where the door can; until the gateway stops."""
    if show := getattr(door, "follow", None):
        app.gateway.show_woken(show)


async def talk_attached(process: ChatProcess, running: RunningGateway, words: str | None) -> int:
    """A conversation with the gateway of another process."""
    from hermes.entry.terminal.remote import GatewayConnection, enter_remote

    def join(door: PlainView | OneShot) -> None:
        tell = process.command.console.note
        line.hear = getattr(door, "hear", lambda presence: tell(f"hermes: {presence}"))
        line.follow = getattr(door, "follow", line.follow)

    try:
        async with GatewayConnection(running.socket) as line:
            steady = words is not None and not process.watched
            visit = await enter_remote(line, process.wish(words), steady=steady)
            facts = line.facts
            what = "the gateway" if running.holder.what == GATEWAY else "the gateway of another chat"
            attached = f"Attached to {what} (process {facts.get('pid', running.holder.pid)})."
            workspace = str(facts.get("workspace", ""))
            is_elsewhere = workspace not in ("", str(current_folder()))
            attached += f" Its agent works in {workspace}." if is_elsewhere else ""
            warnings = _warnings(Path(workspace) if workspace else None, process.command.environ)
            talk = TerminalTalk(
                process=process,
                words=words,
                visit=visit,
                greeting=[_about(process, str(facts.get("model", ""))), attached, _HELP, *warnings],
                note=attached if is_elsewhere else "",
                display=facts.get("display") or {},
            )
            return await talk.live(join)
    except GatewayGone as gone:
        raise UserError(str(gone)) from gone


def _about(process: ChatProcess, model: str) -> str:
    return f"Hermes {process.command.version}. Model: {model}"


def _warnings(workspace: Path | None, environ: Mapping[str, str]) -> list[str]:
    """What to know of the folder the agent works in, if anything."""
    from hermes.app.homes import is_wide

    if workspace is None or not is_wide(workspace, environ):
        return []
    return [f"{workspace} is not a project folder. The agent asks before it deletes anything in it."]


class TerminalTalk(Struct, frozen=True, kw_only=True):
    """Somebody at the terminal, or a single message of theirs; `greeting`, `note` and `display` come from the
    gateway behind it."""

    process: ChatProcess
    words: str | None
    visit: Visit
    greeting: Sequence[str]
    note: str
    display: Mapping[str, Any]
    """What its settings say of what is shown."""

    async def live(self, join: Callable[[PlainView | OneShot], None]) -> int:
        watched = self.words is None or self.process.watched
        door = self._chat() if watched else self._one_shot(self.words or "")
        _on_signals(_signals(door))
        join(door)
        return await door.live()

    def _chat(self) -> PlainView:
        from hermes.entry.terminal.editor import LineHistory
        from hermes.entry.terminal.screen import Screen
        from hermes.entry.terminal.talk import ChatPlan
        from hermes.entry.terminal.view_plain import PlainView

        greeting = [] if self.words is not None else self.greeting
        return PlainView(
            visit=self.visit,
            screen=Screen(sys.stdout.fileno(), self._look()),
            keys=sys.stdin.fileno(),
            history=LineHistory(self.process.command.home / HISTORY_FILE),
            plan=ChatPlan(first=self.words, once=self.words is not None, greeting=greeting),
        )

    def _one_shot(self, words: str) -> OneShot:
        from hermes.entry.terminal.oneshot import OneShot
        from hermes.entry.terminal.screen import Screen

        if self.note and not self.process.final_only:
            self.process.command.console.note(f"hermes: {self.note}")
        return OneShot(
            text=words,
            visit=self.visit,
            screen=Screen(sys.stdout.fileno(), replace(self._look(), rich=False)),
            tell=lambda line: self.process.command.console.note(f"hermes: {line}"),
            final_only=self.process.final_only,
            ask=self._ask if self.process.command.console.interactive else None,
        )

    async def _ask(self, question: str) -> str | None:
        """On stderr, so that stdout stays the answer alone."""
        from hermes.entry.terminal.keyboard import read_line

        err = self.process.command.console.err
        err.write(f"{showable(question)}\nanswer> ")
        err.flush()
        return await read_line(sys.stdin.fileno())

    def _look(self) -> ScreenStyle:
        from hermes.entry.terminal.screen import ScreenStyle

        console, terminal = self.process.command.console, is_terminal(sys.stdout)
        rich = terminal and self.process.command.environ.get("TERM", "dumb") != "dumb"
        return ScreenStyle(
            rich=rich,
            colour=console.colour,
            terminal=terminal,
            tools=self.display.get("tool_progress") != "off",
            thoughts=self.display.get("show_reasoning") is True,
        )


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
