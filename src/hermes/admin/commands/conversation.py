"""One conversation at the terminal with the gateway of its home: hands the terminal its door and passes on
signals. `entry/terminal` draws the conversation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hermes.admin.commands.chat import ChatProcess, current_folder, is_terminal
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.text import showable
from hermes.domain.word import replace
from hermes.entry.terminal.door import GatewayGone, Visit
from hermes.entry.terminal.remote import GatewayConnection, Locate, enter_remote
from hermes.entry.terminal.talk import folder_notes, short_folder
from hermes.state.home.textfile import replace_text
from hermes.state.settings.fingerprint import settings_fingerprint

if TYPE_CHECKING:
    from hermes.admin.shell.command import CliCommand
    from hermes.entry.terminal.oneshot import OneShot
    from hermes.entry.terminal.screen import ScreenStyle
    from hermes.entry.terminal.view_plain import PlainView
    from hermes.entry.terminal.view_rich import RichView

HISTORY_FILE = "terminal_history"
_SIGNALLED = 128
_HELP = "/help lists the commands, Ctrl-C stops the agent, Ctrl-D leaves."


async def converse(process: ChatProcess, locate: Locate, words: str | None) -> int:
    """Talk with the gateway of the home, or with one elsewhere."""

    def join(door: PlainView | OneShot) -> None:
        tell = process.command.console.note
        line.hear = getattr(door, "hear", lambda presence, words: tell(f"hermes: {words}"))
        line.follow = getattr(door, "follow", line.follow)

    try:
        if process.is_conversation and _can_be_rich(process):
            return await _converse_richly(process, locate, words)
        async with GatewayConnection(locate) as line:
            visit, stale = await _enter(process, line, steady=words is not None and not process.watched)
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


async def _enter(process: ChatProcess, line: GatewayConnection, *, steady: bool) -> tuple[Visit, bool]:
    stale = not process.url and await _renew(process, line)
    return await enter_remote(line, process.wish(), steady=steady), stale


def _can_be_rich(process: ChatProcess) -> bool:
    """Whether both ends are a terminal that can move its cursor, and nobody asked for the plain chat."""
    dumb = process.command.environ.get("TERM", "") in ("", "dumb", "unknown")
    return not dumb and not process.asked.plain and is_terminal(sys.stdout)


async def _converse_richly(process: ChatProcess, locate: Locate, words: str | None) -> int:
    """The prompt is there before the gateway; whoever leaves meanwhile waits for nothing."""
    from hermes.entry.terminal.editor import LineHistory
    from hermes.entry.terminal.view_rich import RichView

    view = RichView(
        screen=sys.stdout.fileno(),
        style=_look(process, {}),
        history=LineHistory(process.command.home / HISTORY_FILE),
        picture=_read_picture,
        verbose=process.asked.verbose,
    )
    _on_signals(_signals(view))
    living = asyncio.create_task(view.live(), name="chat")
    async with contextlib.AsyncExitStack() as stack:
        entering = asyncio.create_task(_come_in(process, locate, words, view, stack), name="come in")
        try:
            await asyncio.wait((living, entering), return_when=asyncio.FIRST_COMPLETED)
            if entering.done() and entering.exception() is not None:
                view.leave(0)
                await living
                entering.result()
            return await living
        finally:
            for task in (entering, living):
                task.cancel()
            await asyncio.wait((entering, living))


async def _operate(command: CliCommand, words: Sequence[str]) -> str:
    """What another command of `hermes` prints on the home of this one; nobody can be asked."""
    environ = {**command.environ, "HERMES_HOME": str(command.home), "NO_COLOR": "1"}
    environ.pop("HERMES_PROFILE", None)
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "hermes", *words),
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return (await running.communicate())[0].decode("utf-8", "replace")
    finally:
        if running.returncode is None:
            running.kill()


def _read_picture(path: str) -> str:
    from hermes.admin.commands.pictures import data_url

    return data_url(path)


async def _come_in(
    process: ChatProcess,
    locate: Locate,
    words: str | None,
    view: RichView,
    stack: contextlib.AsyncExitStack,
) -> None:
    from hermes.entry.terminal.talk import ChatPlan
    from hermes.entry.terminal.view_rich import ChatStart

    line = await stack.enter_async_context(GatewayConnection(locate))
    visit, stale = await _enter(process, line, steady=True)
    line.hear, line.follow = view.hear, view.follow
    facts, spell = line.facts, process.command.console.spell
    _, notes = _greeting(process, facts, visit, stale)
    session, own = visit.session, visit.agent == MAIN_AGENT
    model = str(facts.get("model", "")) if own else visit.model
    display = facts.get("display") or {}
    greeting = [spell(note) for note in notes if note not in model]
    folder = process.folder if session is None else session.workspace
    shown = [("Model", model), ("Folder", short_folder(folder or "the agent's own")), *visit.has]
    if not own:
        shown.insert(0, ("Agent", visit.agent))
    if session is not None:
        shown.append(("Session", session.title or session.id))
    if process.url:
        shown.append(("Gateway", process.url))
    elif not facts.get("temporary"):
        shown.append(("Gateway", f"process {facts.get('pid', 0)}"))
    problems = int(facts.get("config_problems") or 0)
    if problems and not process.url:
        shown.append(("Settings", spell(f"{problems} problem{'s' * (problems > 1)}: hermes config check")))
    view.join(
        ChatStart(
            visit=visit,
            plan=ChatPlan(
                first=words,
                greeting=greeting,
                spell=spell,
                operate=None if process.url else partial(_operate, process.command),
            ),
            title="" if process.quiet else f"Hermes {process.command.version}",
            facts=shown,
            display={**display, "tool_progress": "off"} if process.quiet else display,
            agent=visit.agent,
            model=(session and session.model) or model.partition(",")[0],
        )
    )


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
    model = facts.get("model", "")
    if visit.agent != MAIN_AGENT:
        model = f"{visit.model}. Agent: {visit.agent}"
    lines = [f"Hermes {process.command.version}. Model: {model}", _HELP]
    notes = []
    if facts.get("model_note"):
        notes.append(str(facts["model_note"]))
    if version != process.command.version and not process.url:
        notes.append(
            f"The gateway (process {pid}) is version {version}, this command is version"
            f" {process.command.version}. To run one version: hermes gateway restart"
        )
    if stale:
        notes.append(
            "The gateway was started with other settings or variables than there are here, and is in use."
            " Adopt what the files say: hermes config apply"
        )
    if process.url:
        lines.append(f"Attached to {process.url}.")
    elif not facts.get("temporary"):
        lines.append(f"Attached to the gateway (process {pid}).")
    if process.url:
        return [process.command.console.spell(line) for line in [*lines, *notes]], notes
    notes += _about_folder(process, visit)
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
        code = await door.live()
        if (path := self.process.asked.usage_file) and not watched:
            facts = {"ok": code == 0, **getattr(door, "usage", {})}
            replace_text(Path(path), json.dumps(facts, indent=2) + "\n", 0o600)
        if self.process.asked.quiet and not watched and (session := getattr(door, "session", "")):
            self.process.command.console.note(f"session_id: {session}")
        return code

    def _chat(self) -> PlainView:
        from hermes.entry.terminal.editor import LineHistory
        from hermes.entry.terminal.screen import Screen
        from hermes.entry.terminal.talk import ChatPlan
        from hermes.entry.terminal.view_plain import PlainView

        once = not self.process.is_conversation
        return PlainView(
            visit=self.visit,
            screen=Screen(sys.stdout.fileno(), _look(self.process, self.display)),
            keys=sys.stdin.fileno(),
            history=LineHistory(self.process.command.home / HISTORY_FILE),
            plan=ChatPlan(
                first=self.words,
                once=once,
                greeting=[] if once or self.process.quiet else self.greeting,
                spell=self.process.command.console.spell,
                operate=None if self.process.url else partial(_operate, self.process.command),
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
            screen=Screen(sys.stdout.fileno(), replace(_look(self.process, self.display), rich=False)),
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


def _look(process: ChatProcess, display: Mapping[str, Any]) -> ScreenStyle:
    from hermes.entry.terminal.screen import ScreenStyle

    console, terminal = process.command.console, is_terminal(sys.stdout)
    verbose = process.asked.verbose
    return ScreenStyle(
        rich=terminal and process.command.environ.get("TERM", "dumb") != "dumb",
        colour=console.colour,
        terminal=terminal,
        encoding=sys.stdout.encoding or "utf-8",
        tools=verbose or not (process.quiet or display.get("tool_progress") == "off"),
        thoughts=verbose or (not process.quiet and display.get("show_reasoning") is True),
    )


def _on_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> None:
    loop = asyncio.get_running_loop()
    for number, act in actions.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, act)


def _signals(door: PlainView | RichView | OneShot) -> dict[signal.Signals, Callable[[], None]]:
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
