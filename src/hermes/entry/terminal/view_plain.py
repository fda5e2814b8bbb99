"""A conversation as a plain terminal shows it: what turns say, and under it the row that is being written.

Ctrl-C stops what runs; a second one soon after leaves. What is pressed before a question can be seen is no
answer to it: it waits and comes back when the question is closed."""

from __future__ import annotations

import asyncio
import errno
import time

from hermes.domain.chats.command_line import read_command
from hermes.domain.models.manner import NO_MANNER, Manner
from hermes.domain.text import one_line
from hermes.domain.turns.event import Asked, FeedItem
from hermes.domain.turns.turn import Turn
from hermes.entry.terminal import talk
from hermes.entry.terminal.door import Presence, Visit
from hermes.entry.terminal.editor import Editor, LineEnd, LineHistory
from hermes.entry.terminal.keyboard import PASTE_OFF, PASTE_ON, Keyboard, NamedKey, Press, TypedText
from hermes.entry.terminal.screen import Screen
from hermes.stream.faces.console import Console

_TWICE = 2.0
_IDLE, _ANSWER = "❯ ", "answer ❯ "


class HiddenWord:
    """A word that is typed without being shown. What was pressed before it was asked for is no part of it."""

    def __init__(self, text: str, pressed_before: int) -> None:
        self.prompt = f"{text} (not shown) ❯ "
        self.word: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._before = pressed_before
        self._typed = ""

    def press(self, press: Press) -> None:
        if self._before:
            self._before -= 1
        elif isinstance(press, TypedText):
            self._typed += press.text
        elif press is NamedKey.BACKSPACE:
            self._typed = self._typed[:-1]
        elif press is NamedKey.ENTER:
            self.end(self._typed)
        elif press in (NamedKey.ESCAPE, NamedKey.EOF):
            self.end("")

    def end(self, word: str) -> None:
        if not self.word.done():
            self.word.set_result(word)


def _is_gone(error: BaseException | None) -> bool:
    """Whether this is how a terminal's closed window shows itself to who writes on it."""
    return isinstance(error, OSError) and error.errno == errno.EIO


class PlainView:
    own_commands = talk.OWN_COMMANDS

    def __init__(
        self, *, visit: Visit, screen: Screen, keys: int, history: LineHistory, plan: talk.ChatPlan
    ) -> None:
        self._screen = screen
        self._history = history
        self._talk = talk.TerminalConversation(visit, self, plan)
        self.hear = self._talk.hear
        self._editor = Editor(history.read(), sorted({*visit.commands, *talk.OWN_COMMANDS, "exit"}))
        self._keyboard = Keyboard(
            keys, rich=screen.look.rich, press=self._put, gone=lambda: self.leave(talk.OK)
        )
        self._events: asyncio.Queue[tuple[Press, Asked | None] | int | None] = asyncio.Queue()
        """Keys, each with the question that was on the screen when it was pressed; the code with which to
        leave; None for Ctrl-C."""
        self._stash = ""
        self._answering: Asked | None = None
        """The question that the row is for."""
        self._hidden: HiddenWord | None = None
        self._interrupted_at = float("-inf")
        self._talking: asyncio.Task[int] | None = None
        resumed = visit.session
        self._manner = (resumed and resumed.manner) or NO_MANNER
        self._console = self._new_console()

    # --- what signals and the gateway do ---

    def interrupt(self) -> None:
        if self._talk.presence is not Presence.HERE and self._talking is not None:
            # Nobody is there to stop anything.
            self._talking.cancel()
        self._events.put_nowait(None)

    def leave(self, code: int) -> None:
        self._events.put_nowait(code)

    def follow(self, turn: Turn) -> None:
        """A turn that was not begun here: shown if it belongs to the session on the screen."""
        if self._talk.is_in(turn.session):
            self._screen.close_row(None)
            self._screen.note(one_line(turn.input.text, 100))
            self._talk.follow(turn)

    def redraw(self) -> None:
        """The process was stopped and goes on."""
        self._keyboard.take_over()
        self._screen.control(PASTE_ON)
        self._put(NamedKey.REDRAW)

    def _put(self, press: Press) -> None:
        self._events.put_nowait((press, self._talk.question))

    # --- its life ---

    async def live(self) -> int:
        """Talk until somebody leaves; the exit code."""
        writing = asyncio.create_task(self._screen.live(), name="terminal output")
        watching = asyncio.create_task(self._talk.watch_all(), name="terminal turns")
        talking = self._talking = asyncio.create_task(self._read_lines(), name="terminal input")
        tasks = (writing, watching, talking)
        code = talk.OK
        try:
            with self._keyboard.reading():
                self._screen.control(PASTE_ON)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                self._screen.close_row(None)
                code = self._code(talking)
                await self._say_goodbye(writing)
        finally:
            ending = (*tasks, *self._talk.tasks)
            for task in ending:
                task.cancel()
            await asyncio.wait(ending)
        for task in (writing, watching):
            if not task.cancelled() and not _is_gone(task.exception()):
                task.result()
        return talk.GONE if _is_gone(None if writing.cancelled() else writing.exception()) else code

    def _code(self, talking: asyncio.Task[int]) -> int:
        if talking.cancelled():
            return talk.INTERRUPTED
        return talking.result() if talking.done() else talk.FAILED

    async def _say_goodbye(self, writing: asyncio.Task[None]) -> None:
        if writing.done():
            return
        for note in self._talk.last_notes():
            self._screen.note(note)
        self._screen.control(PASTE_OFF)
        drained = asyncio.create_task(self._screen.drained(0), name="last words")
        await asyncio.wait((drained, writing), timeout=_TWICE, return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()

    async def _read_lines(self) -> int:
        try:
            await self._talk.open()
            while True:
                event = await self._events.get()
                if event is None:
                    await self._interrupt()
                elif isinstance(event, int):
                    return event
                else:
                    self._interrupted_at = float("-inf")
                    await self._press(*event)
        except talk.ChatEnded as leaving:
            return leaving.code

    async def _interrupt(self) -> None:
        now = time.monotonic()
        text = self._editor.take()
        if now - self._interrupted_at < _TWICE and not text:
            raise talk.ChatEnded(talk.INTERRUPTED)
        self._interrupted_at = now
        if self._hidden is not None:
            self._hidden.end("")
        self._screen.close_row(None)
        if self._talk.is_idle:
            if text:
                self._interrupted_at = float("-inf")  # it was meant for the line
            else:
                self._screen.note("Ctrl-C once more leaves.")
            self._draw_row()
        else:
            await self._talk.stop_turn()

    # --- what is shown ---

    def line(self, text: str, *, aside: bool = False) -> None:
        """Print a line of ours, which may be `aside`: no answer to anybody."""
        (self._screen.note if aside else self._screen.line)(text)

    def answer(self, text: str, whole: str = "") -> None:
        self._screen.line(text)

    async def show(self, item: FeedItem, *, begins: bool) -> None:
        if begins:
            self._console = self._new_console()
        self._screen.stream(self._console.see(item))
        await self._screen.drained()

    def adopt(self, manner: Manner | None) -> None:
        """Show from the next turn on what the session is asked to show."""
        self._manner = manner or NO_MANNER

    def _new_console(self) -> Console:
        look, own = self._screen.look, self._manner
        tools = own.progress != "off" if own.progress else look.tools
        thoughts = look.thoughts if own.thoughts is None else own.thoughts
        return Console(self._screen.width, colour=look.colour, show_tools=tools, show_thoughts=thoughts)

    async def make_room(self) -> None:
        """Wait until all is shown, and put aside what is being written: it is no answer to what comes now."""
        self._screen.release()
        await self._screen.drained(0)
        if self._editor.text:
            self._stash += self._editor.take()

    async def ask_hidden(self, text: str) -> str:
        """What somebody types without its being shown; empty if they would rather not."""
        await self.make_room()
        hidden = self._hidden = HiddenWord(text, self._events.qsize())
        self._keyboard.echo(False)
        self._draw_row()
        try:
            return await hidden.word
        finally:
            self._hidden = None
            self._keyboard.echo(True)
            self._screen.close_row(None)
            self.refresh()

    def refresh(self) -> None:
        """A question was opened or closed, or nothing runs any more: the row of a closed question goes; what
        was being written before comes back."""
        before, self._answering = self._answering, self._talk.question
        if before is not None and before is not self._answering:
            self._editor.put("" if self._answering else self._stash)
            self._stash = self._stash if self._answering else ""
        if self._talk.is_idle:
            self._screen.release()
        self._draw_or_close()

    # --- the row ---

    def _draw_or_close(self) -> None:
        """The row is there while a line may be written."""
        if self._is_row_wanted():
            self._draw_row()
        else:
            self._screen.close_row(None)

    def _is_row_wanted(self) -> bool:
        return bool(self._hidden or self._talk.question or self._talk.is_idle or self._editor.text)

    def _draw_row(self) -> None:
        if self._hidden is not None:
            self._screen.show_row(self._hidden.prompt)
            return
        prompt = _ANSWER if self._talk.question else _IDLE
        text, cursor = self._editor.row(max(self._screen.width - len(prompt) - 1, 1))
        self._screen.show_row(prompt, text, cursor)

    def resize(self) -> None:
        """The window has another width: the row is drawn anew for it."""
        self._screen.forget_row()
        self._put(NamedKey.REDRAW)

    async def _press(self, press: Press, asked: Asked | None) -> None:
        if self._hidden is not None and press is not NamedKey.REDRAW:
            self._hidden.press(press)
            return
        if press is NamedKey.ESCAPE:
            if self._talk.question is None and not self._talk.is_idle:
                await self._talk.stop_turn()
            return
        if press is NamedKey.REDRAW:
            if self._is_row_wanted():
                self._draw_row()
            return
        if self._talk.question is not None and asked is not self._talk.question:
            # Pressed before the question could be seen, so it is no answer to it.
            self._stash += press.text if isinstance(press, TypedText) else ""
            return
        end = self._editor.press(press)
        if end is LineEnd.LEFT:
            raise talk.ChatEnded(talk.OK)
        if end is None:
            self._draw_or_close()
        else:
            await self._send(asked)

    async def _send(self, asked: Asked | None) -> None:
        lost, line = self._editor.lost, self._editor.take()
        self._screen.close_row(line)
        if lost:
            size = f"{len(line) + lost:,} characters; that is more than a line can have"
            self._screen.line(f"✗ Your message has {size}. Put it into a file and name the file.")
        elif line.strip():
            self._editor.remember(line)
            self._history.add(line)
            command = read_command(line)
            if command is not None and command[0] == "clear":
                self._screen.clear()
            else:
                await self._talk.obey(line, asked)
        if self._is_row_wanted():
            self._draw_row()
