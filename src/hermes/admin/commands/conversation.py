"""One conversation at the terminal with the gateway of its home: hands the terminal its door and passes on
signals. `entry/terminal` draws the conversation."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hermes.admin.commands.chat import ChatProcess, current_folder, is_terminal
from hermes.admin.process.spawning import GatewayFinder
from hermes.domain.errors import UserError
from hermes.domain.text import showable
from hermes.domain.word import replace
from hermes.entry.terminal.door import GatewayGone, Visit
from hermes.entry.terminal.remote import GatewayConnection, enter_remote
from hermes.entry.terminal.talk import folder_notes
from hermes.state.settings.fingerprint import settings_fingerprint

if TYPE_CHECKING:
    from hermes.entry.terminal.oneshot import OneShot
    from hermes.entry.terminal.screen import ScreenStyle
    from hermes.entry.terminal.view_plain import PlainView

HISTORY_FILE = "terminal_history"
_SIGNALLED = 128
_HELP = "/help lists the commands, Ctrl-C stops the agent, Ctrl-D leaves."


async def converse(process: ChatProcess, finder: GatewayFinder, words: str | None) -> int:
    """Talk with the gateway of the home."""

    def join(door: PlainView | OneShot) -> None:
        tell = process.command.console.note
        line.hear = getattr(door, "hear", lambda presence, words: tell(f"hermes: {words}"))
        line.follow = getattr(door, "follow", line.follow)

    try:
        async with GatewayConnection(finder.locate) as line:
            stale = await _renew(process, line)
            steady = words is not None and not process.watched
            visit = await enter_remote(line, process.wish(), steady=steady)
            greeting, notes = _greeting(process, line.facts, visit, stale)
            talk = TerminalTalk(
                process=process,
                words=words,
                visit=visit,
                greeting=greeting,
                notes=notes,
                display=line.facts.get("display") or {},
            )
            return await talk.live(join)
    except GatewayGone as gone:
        raise UserError(str(gone)) from gone


async def _renew(process: ChatProcess, line: GatewayConnection) -> bool:
    """A gateway that an earlier terminal left behind makes way if settings or keys are others here; whether
    one stays all the same, because it is used."""
    home, environ = process.command.home, process.command.environ
    declared = line.facts.get("variables") or ()
    same = line.facts.get("fingerprint") == settings_fingerprint(home, environ, declared)
    if same or not line.facts.get("temporary"):
        return False
    if not await line.ask("/control/make-way", {}, bool):
        return True
    await line.gone()
    await line.back()
    return False


def _greeting(
    process: ChatProcess, facts: Mapping[str, Any], visit: Visit, stale: bool
) -> tuple[list[str], list[str]]:
    """What somebody is told who comes in, and what of it a single message is worth."""
    version, pid = str(facts.get("version", "")), facts.get("pid", 0)
    lines = [f"Hermes {process.command.version}. Model: {facts.get('model', '')}", _HELP]
    notes = []
    if facts.get("model_note"):
        notes.append(str(facts["model_note"]))
    if version != process.command.version:
        notes.append(
            f"The gateway (process {pid}) is version {version}, this command is version"
            f" {process.command.version}. To run one version: hermes gateway restart"
        )
    if stale:
        notes.append(
            "The gateway was started with other settings or variables than there are here, and is in use."
            " Adopt what the files say: hermes config apply"
        )
    if not facts.get("temporary"):
        lines.append(f"Attached to the gateway (process {pid}).")
    about = _about_folder(process, visit)
    notes += about
    if problems := int(facts.get("config_problems") or 0):
        lines.append(f"The settings have {problems} problem{'s' * (problems > 1)}: hermes config check")
    shown = [*lines, *(note for note in notes if note not in lines[0])]
    return [process.command.console.spell(line) for line in shown], notes


def _about_folder(process: ChatProcess, visit: Visit) -> list[str]:
    """What to know of the folder that the agent works in, if anything."""
    session = visit.session
    folder = current_folder() if session is None else session.workspace
    if folder is None:
        return []
    lines = [] if session is None else [*folder_notes(session)]
    if process.is_conversation and not lines:
        from hermes.agent.danger.scope import is_wide

        home = process.command.environ.get("HOME") or os.path.expanduser("~")
        if is_wide(folder, home):
            lines.append(
                f"{folder} is not a project folder. The agent asks before it deletes anything in it."
            )
    return lines


class TerminalTalk(Struct, frozen=True, kw_only=True):
    """Somebody at the terminal, or a single message of theirs; `greeting` is for the one and `notes` for the
    other."""

    process: ChatProcess
    words: str | None
    visit: Visit
    greeting: Sequence[str]
    notes: Sequence[str]
    display: Mapping[str, Any]
    """What its settings say of what is shown."""

    async def live(self, join: Callable[[PlainView | OneShot], None]) -> int:
        watched = self.words is None or self.process.watched or self.process.is_conversation
        door = self._chat() if watched else self._one_shot(self.words or "")
        _on_signals(_signals(door))
        join(door)
        return await door.live()

    def _chat(self) -> PlainView:
        from hermes.entry.terminal.editor import LineHistory
        from hermes.entry.terminal.screen import Screen
        from hermes.entry.terminal.talk import ChatPlan
        from hermes.entry.terminal.view_plain import PlainView

        once = not self.process.is_conversation
        return PlainView(
            visit=self.visit,
            screen=Screen(sys.stdout.fileno(), self._look()),
            keys=sys.stdin.fileno(),
            history=LineHistory(self.process.command.home / HISTORY_FILE),
            plan=ChatPlan(
                first=self.words,
                once=once,
                greeting=[] if once else self.greeting,
                spell=self.process.command.console.spell,
            ),
        )

    def _one_shot(self, words: str) -> OneShot:
        from hermes.entry.terminal.oneshot import OneShot
        from hermes.entry.terminal.screen import Screen

        for note in () if self.process.final_only else self.notes:
            self.process.command.console.note(f"hermes: {note}")
        return OneShot(
            text=words,
            visit=self.visit,
            screen=Screen(sys.stdout.fileno(), replace(self._look(), rich=False)),
            tell=lambda line: self.process.command.console.note(f"hermes: {line}"),
            final_only=self.process.final_only,
            verbose=self.process.asked.verbose,
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
        verbose = self.process.asked.verbose
        rich = terminal and self.process.command.environ.get("TERM", "dumb") != "dumb"
        return ScreenStyle(
            rich=rich,
            colour=console.colour,
            terminal=terminal,
            encoding=sys.stdout.encoding or "utf-8",
            tools=verbose or self.display.get("tool_progress") != "off",
            thoughts=verbose or self.display.get("show_reasoning") is True,
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
    for number, name in ((signal.SIGCONT, "redraw"), (signal.SIGWINCH, "resize")):
        act = getattr(door, name, None)
        if act is not None:
            actions[number] = act
    return actions
