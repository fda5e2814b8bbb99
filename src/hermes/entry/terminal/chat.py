"""A conversation in a terminal.

Its life: what is unfinished is watched to its end, then a row waits for words. Words become a turn and the
turn is watched; a question of the turn is asked where it comes, and the next line answers exactly it. Words
written while a turn runs do what the session's busy mode says. Ctrl-C stops what runs; a second one
soon after leaves. Whatever is left running goes on at the next start. While the gateway is away words are
kept and sent when it is back, once; everything else is refused."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hermes.control.commands.registry import COMMANDS
from hermes.domain.command_line import read_command
from hermes.domain.errors import HermesError
from hermes.domain.event import Answered, Asked, Entry, Failed, FeedItem, Finished, Stopped
from hermes.domain.ids import QuestionId, SessionId
from hermes.domain.text import one_line
from hermes.domain.turn import Turn
from hermes.entry.terminal.answers import how_to_answer, read_answer
from hermes.entry.terminal.door import Door, GatewayGone, Presence, Visit, new_words_key
from hermes.entry.terminal.editor import Editor, LineEnd
from hermes.entry.terminal.history import LineHistory
from hermes.entry.terminal.keyboard import Keyboard
from hermes.entry.terminal.keys import PASTE_OFF, PASTE_ON, NamedKey, Press, TypedText
from hermes.entry.terminal.screen import Screen
from hermes.stream.faces.console import Console

OK, FAILED, GONE, INTERRUPTED = 0, 1, 129, 130
OWN_COMMANDS = {
    "quit": "leave (also /exit, Ctrl-D)",
    "clear": "clear the screen",
}
_LEAVING = ("quit", "exit")
_TWICE = 2.0
_IDLE, _ANSWER = "❯ ", "answer ❯ "


def _is_gone(error: BaseException | None) -> bool:
    """Whether this is how a terminal's closed window shows itself to who writes on it."""
    return isinstance(error, OSError) and error.errno == errno.EIO


class ChatEnded(Exception):
    """Raised inside the chat alone: it is over."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEvent:
    """A key, and the question that stood on the screen when it was pressed."""

    press: Press
    asked: Asked | None


@dataclass(slots=True, kw_only=True)
class UnsentMessage:
    """Words that could not be handed over yet; `unsure` ones may have arrived all the same."""

    text: str
    key: str
    unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlan:
    """What a chat begins with, and whether it ends with the answer to it."""

    first: str | None = None
    once: bool = False
    greeting: Sequence[str] = ()


class Chat:
    def __init__(
        self, *, visit: Visit, screen: Screen, keys: int, history: LineHistory, plan: ChatPlan
    ) -> None:
        self._visit = visit
        self._screen = screen
        self._plan = plan
        self._history = history
        names = sorted({*COMMANDS, *OWN_COMMANDS, "exit"})
        self._editor = Editor(history.read(), names)
        self._keyboard = Keyboard(keys, rich=screen.look.rich, press=self._put, gone=self._hang_up)
        self._events: asyncio.Queue[KeyEvent | int | None] = asyncio.Queue()
        self._turns: deque[Turn] = deque()
        self._more = asyncio.Event()
        self._session: SessionId | None = None
        self._shown: tuple[SessionId | None, int] = (None, 0)
        """The last record on the screen, by its number in its session; the next words may be for another."""
        self._asked: dict[QuestionId, Asked] = {}
        self._stash = ""
        self._interrupted_at = float("-inf")
        self._ended: FeedItem | None = None
        self._kept: deque[UnsentMessage] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._talking: asyncio.Task[int] | None = None
        self._presence = Presence.HERE

    @property
    def _door(self) -> Door:
        return self._visit.door

    # --- what signals do ---

    def interrupt(self) -> None:
        if self._presence is not Presence.HERE and self._talking is not None:
            # Nobody is there to stop anything.
            self._talking.cancel()
        self._events.put_nowait(None)

    def leave(self, code: int) -> None:
        self._events.put_nowait(code)

    def follow(self, turn: Turn) -> None:
        """A turn that was not begun here: shown if it belongs to the session on the screen."""
        if turn.session == self._session:
            self._screen.close_row(None)
            self._screen.note(one_line(turn.input.text, 100))
            self._follow(turn)

    def hear(self, presence: Presence) -> None:
        """The gateway went away, came back, or is waited for no longer."""
        self._presence = presence
        self._screen.note(f"{presence} (Ctrl-C leaves)" if presence is Presence.AWAY else presence)
        if presence is Presence.LOST:
            self.leave(FAILED)

    def redraw(self) -> None:
        """The process was stopped and goes on."""
        self._keyboard.take_over()
        self._screen.control(PASTE_ON)
        self._put(NamedKey.REDRAW)

    def _put(self, press: Press) -> None:
        self._events.put_nowait(KeyEvent(press=press, asked=self._question))

    @property
    def _question(self) -> Asked | None:
        """The question that is on the screen."""
        return next(iter(self._asked.values()), None)

    def _hang_up(self) -> None:
        self._events.put_nowait(OK)

    # --- its life ---

    async def live(self) -> int:
        """Talk until somebody leaves; the exit code."""
        writing = asyncio.create_task(self._screen.live(), name="terminal output")
        watching = asyncio.create_task(self._watch_all(), name="terminal turns")
        talking = self._talking = asyncio.create_task(self._talk(), name="terminal input")
        tasks = (writing, watching, talking)
        code = OK
        try:
            with self._keyboard.reading():
                self._screen.control(PASTE_ON)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                self._screen.close_row(None)
                code = self._code(talking)
                await self._say_goodbye(writing)
        finally:
            ending = tasks if self._sending is None else (*tasks, self._sending)
            for task in ending:
                task.cancel()
            await asyncio.wait(ending)
        for task in (writing, watching):
            if not task.cancelled() and not _is_gone(task.exception()):
                task.result()
        return GONE if _is_gone(None if writing.cancelled() else writing.exception()) else code

    def _code(self, talking: asyncio.Task[int]) -> int:
        if talking.cancelled():
            return INTERRUPTED
        return talking.result() if talking.done() else FAILED

    async def _say_goodbye(self, writing: asyncio.Task[None]) -> None:
        if writing.done():
            return
        for words in self._kept:
            told = "It is not known whether this was heard" if words.unsure else "Not sent"
            self._screen.note(f"{told}: “{one_line(words.text, 200)}”")
        if self._turns:
            self._screen.note("The answer is not finished; it continues when you start hermes again.")
        if self._session is not None and not self._plan.once:
            self._screen.note(f"To come back: hermes --resume {self._session}")
        self._screen.control(PASTE_OFF)
        drained = asyncio.create_task(self._screen.drained(0), name="last words")
        await asyncio.wait((drained, writing), timeout=_TWICE, return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()

    async def _talk(self) -> int:
        try:
            await self._open()
            while True:
                event = await self._events.get()
                if event is None:
                    await self._interrupt()
                elif isinstance(event, int):
                    return event
                else:
                    await self._press(event.press, event.asked)
        except ChatEnded as leaving:
            return leaving.code

    async def _open(self) -> None:
        for line in self._plan.greeting:
            self._screen.note(line)
        session, turns = self._visit.session, self._visit.turns
        if session is not None:
            self._session = session.id
            name = f"“{session.title}”" if session.title else session.id
            self._screen.note(f"Back in {name}.")
        for turn in turns:
            if turn.input.text:
                self._screen.note(f"Unfinished: “{one_line(turn.input.text, 70)}”. It continues now.")
            self._follow(turn)
        if self._plan.first is not None:
            await self._say(self._plan.first)
        if not self._turns:
            self._rest()

    # --- keys and lines ---

    async def _press(self, press: Press, asked: Asked | None) -> None:
        if press is NamedKey.REDRAW:
            if self._is_row_wanted():
                self._draw()
            return
        if self._question is not None and asked is not self._question:
            # Pressed before the question could be seen, so it is no answer to it.
            self._stash += press.text if isinstance(press, TypedText) else ""
            return
        done = self._editor.press(press)
        if done is LineEnd.LEFT:
            raise ChatEnded(OK)
        if done is None:
            if self._is_row_wanted():
                self._draw()
            else:
                self._screen.close_row(None)
            return
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
            await self._obey(line, asked)
        if self._is_row_wanted():
            self._draw()

    async def _obey(self, line: str, asked: Asked | None) -> None:
        """What a line does: a command, the answer of the question that was on the screen, or words."""
        command = read_command(line)
        try:
            if command is not None:
                await self._command(line, *command)
            elif asked is not None:
                await self._answer(asked, line)
            else:
                await self._say(line)
        except HermesError as error:
            self._screen.line(f"✗ {error}")

    async def _say(self, text: str) -> None:
        words = UnsentMessage(text=text, key=new_words_key())
        if self._kept or not await self._hand_over(words):
            self._kept.append(words)
            self._screen.note("Your message is kept and sent when the gateway is back.")
            if self._sending is None or self._sending.done():
                self._sending = asyncio.create_task(self._send_kept(), name="kept words")

    async def _hand_over(self, words: UnsentMessage) -> bool:
        """Say something; False if nobody is there to hear it."""
        try:
            self._follow(await self._door.say(words.text, words.key))
        except GatewayGone as gone:
            words.unsure = words.unsure or gone.maybe_done
            return False
        return True

    async def _send_kept(self) -> None:
        while self._kept:
            try:
                await self._visit.back()
                if not await self._hand_over(self._kept[0]):
                    continue
            except GatewayGone:
                return
            except HermesError as error:
                self._screen.line(f"✗ “{one_line(self._kept[0].text, 60)}” was not sent: {error}")
            self._kept.popleft()

    async def _command(self, line: str, name: str, args: str) -> None:
        if name in _LEAVING:
            raise ChatEnded(OK)
        if name == "clear":
            self._screen.clear()
            return
        replied = await self._door.command(line)
        text = replied.text
        if name in ("help", "commands") and not args:
            text += "".join(f"\n- /{own}: {told}" for own, told in OWN_COMMANDS.items())
        if text:
            self._screen.line(text)
        self._session = replied.session
        if replied.turn is not None:
            self._follow(replied.turn)

    async def _answer(self, asked: Asked, line: str) -> None:
        reading = read_answer(asked, line)
        if reading is not None:
            outcome = await self._door.answer(asked.question, reading.verdict, reading.text)
            if outcome.closed:
                self._forget(asked.question)
            else:
                self._screen.line(outcome.text)
        elif " " in line.strip():
            # As in every chat: other words withdraw the question.
            self._forget(asked.question)
            await self._say(line)
        else:
            self._screen.line(f"“{one_line(line, 40)}” is no answer. {how_to_answer(asked)}")

    # --- the row ---

    def _is_row_wanted(self) -> bool:
        return bool(self._asked or not self._turns or self._editor.text)

    def _draw(self) -> None:
        prompt = _ANSWER if self._asked else _IDLE
        text, cursor = self._editor.row(max(self._screen.width - len(prompt) - 1, 1))
        self._screen.show_row(prompt, text, cursor)

    def _rest(self) -> None:
        """Nothing runs any more."""
        if self._plan.once:
            self._events.put_nowait(self._verdict())
            return
        self._screen.release()
        self._draw()

    def _verdict(self) -> int:
        if isinstance(self._ended, Entry) and isinstance(self._ended.record, Finished):
            return OK
        stopped = isinstance(self._ended, Entry) and isinstance(self._ended.record, Stopped)
        return INTERRUPTED if stopped else FAILED

    # --- turns ---

    def _follow(self, turn: Turn) -> None:
        self._session = turn.session
        self._turns.append(turn)
        self._more.set()

    async def _watch_all(self) -> None:
        while True:
            while not self._turns:
                self._more.clear()
                await self._more.wait()
            turn = self._turns[0]
            try:
                await self._watch(turn)
            except GatewayGone:
                return
            except HermesError as error:
                self._screen.line(f"✗ {error}")
            self._turns.popleft()
            self._asked.clear()
            if not self._turns:
                self._rest()

    async def _watch(self, turn: Turn) -> None:
        session, after = self._shown
        look = self._screen.look
        console = Console(
            self._screen.width, colour=look.colour, show_tools=look.tools, show_thoughts=look.thoughts
        )
        async for seen in self._door.watch(turn.id, after if session == turn.session else 0):
            self._screen.stream(console.see(seen))
            if isinstance(seen, Entry):
                self._shown = (turn.session, seen.seq)
                await self._note(seen)
            await self._screen.drained()

    async def _note(self, entry: Entry) -> None:
        match entry.record:
            case Asked() as asked if self._visit.asks(asked):
                await self._ask(asked)
            case Answered() as answered:
                self._forget(answered.question)
            case Finished() | Failed() | Stopped():
                self._ended = entry
            case _:
                pass

    async def _ask(self, asked: Asked) -> None:
        """Open a question, once it can be seen. What was being written is no answer to it; it comes back."""
        self._screen.release()
        await self._screen.drained(0)
        if self._editor.text:
            self._stash += self._editor.take()
        self._asked[asked.question] = asked
        self._draw()

    def _forget(self, question: QuestionId) -> None:
        """The question is closed: the row goes, and what was being written before comes back."""
        if self._asked.pop(question, None) is None:
            return
        self._editor.put(self._stash)
        self._stash = ""
        if self._is_row_wanted():
            self._draw()
        else:
            self._screen.close_row(None)

    async def _interrupt(self) -> None:
        now = time.monotonic()
        if now - self._interrupted_at < _TWICE:
            raise ChatEnded(INTERRUPTED)
        self._interrupted_at = now
        self._editor.take()
        self._screen.close_row(None)
        if not self._turns:
            self._screen.note("Ctrl-C once more leaves.")
            self._draw()
            return
        try:
            for turn in list(self._turns):
                await self._door.stop(turn.id)
        except HermesError as error:
            self._screen.line(f"✗ {error}")
