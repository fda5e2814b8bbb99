"""A conversation in a terminal that can do more: finished things are printed once into its own scrollback,
and only a few rows at the bottom are redrawn.

Its life: the prompt is there at once, before the gateway is. What is written meanwhile waits until somebody
is there to hear it (`join`). From then on the conversation itself is in `talk.py`; here it is drawn, at most
twenty times a second, and keys become lines, answers and wishes. What is pressed before a question can be
seen is no answer to it: it is put aside and comes back when the question is closed."""

from __future__ import annotations

import asyncio
import errno
import termios
import time
from base64 import b64encode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes.domain.chats.command_line import read_command
from hermes.domain.errors import HermesError, UserError
from hermes.domain.models.manner import NO_MANNER, Manner
from hermes.domain.text import one_line, showable
from hermes.domain.turns.event import Asked, FeedItem, ModelSaid, QuestionKind
from hermes.domain.turns.turn import Turn
from hermes.entry.terminal import talk
from hermes.entry.terminal.chat.banner import banner_rows
from hermes.entry.terminal.chat.choices import ChoiceList
from hermes.entry.terminal.chat.completion import ChatCompleter
from hermes.entry.terminal.chat.guard import AnswerGuard
from hermes.entry.terminal.chat.keys import KeyActions, chat_keys
from hermes.entry.terminal.chat.pastes import Pastes
from hermes.entry.terminal.chat.pictures import Pictures, dropped
from hermes.entry.terminal.chat.replies import TerminalReplies
from hermes.entry.terminal.chat.spinner import FRAMES_PER_SECOND
from hermes.entry.terminal.chat.stage import Look, Stage
from hermes.entry.terminal.chat.status import StatusLine
from hermes.entry.terminal.chat.theme import SKINS, choose_theme
from hermes.entry.terminal.chat.turn_drawing import TurnDrawing
from hermes.entry.terminal.chat.window import ChatWindow, WindowParts, terminal_size
from hermes.entry.terminal.door import ChatOption, Presence, Visit
from hermes.entry.terminal.editor import MOST, LineHistory
from hermes.entry.terminal.operating import OPERATED
from hermes.entry.terminal.output import TerminalOutput
from hermes.entry.terminal.screen import ScreenStyle, echo
from hermes.stream.fold.questions import choices

_TWICE = 2.0
_FRAME_SECONDS = 0.05
_REPLY_SECONDS = 0.2
_LIST_ROWS = 9
_PICKING = "type to search · Enter opens · Ctrl-D twice deletes · Esc closes"
_OWN = (
    ChatOption(name="quit", about="leave (also /exit, Ctrl-D)"),
    ChatOption(name="clear", about="clear the screen"),
    ChatOption(name="copy", about="copy the last answer to the clipboard"),
    ChatOption(name="image", about="show a picture with the next message", usage="<file>"),
    ChatOption(name="paste", about="the same with the one in the clipboard (also Ctrl-V)"),
    ChatOption(name="skin", about="choose the colours", usage="|".join(SKINS)),
    ChatOption(name="statusbar", about="show or hide the line under the input"),
    *(ChatOption(name=name, about=about, usage=usage) for name, (about, usage) in OPERATED.items()),
)
_MEANINGS = {
    "once": "allow it this time",
    "session": "allow it in this session",
    "always": "allow it permanently",
    "deny": "do not do it (deny <reason> tells why)",
}
_NOT_YET: tuple[str, None] = ("", None)
_STARTING = "starting the gateway …"
_HELP = ("/help lists the commands, Ctrl-C stops the agent, Ctrl-D leaves.",)


class ChatStart(Struct, frozen=True, kw_only=True):
    """What a chat knows once its gateway is there: `facts` for the banner by their names, `display` what the
    settings say, and who answers where."""

    visit: Visit
    plan: talk.ChatPlan
    title: str
    facts: list[tuple[str, str]]
    display: Mapping[str, Any]
    agent: str
    model: str


class RichView:
    own_commands = {own.name: own.about for own in _OWN}  # noqa: RUF012
    _enter_sends = _tools = True
    _bell = _thoughts = _picking = _suspending = False
    _hidden_text = _stash = _skin = _doomed = ""
    """`_doomed`: the session that the next Ctrl-D deletes."""

    def __init__(
        self,
        *,
        screen: int,
        style: ScreenStyle,
        history: LineHistory,
        picture: Callable[[str], str],
        verbose: bool = False,
    ) -> None:
        """`picture` makes a data URL of a file."""
        self._verbose = verbose
        self._look = Look(
            theme=choose_theme("", None),
            colour=style.colour,
            columns=lambda: terminal_size(screen).columns,
            rows=lambda: terminal_size(screen).rows,
        )
        self._stage = Stage(self._look)
        self._status = StatusLine(note=_STARTING)
        self._history = history
        self._pastes = Pastes()
        self._pictures = Pictures(picture)
        self._replies = TerminalReplies(self._know_terminal)
        self._output = TerminalOutput(screen, style.encoding, whole=True)
        self._completer = ChatCompleter(_OWN)
        self._window = ChatWindow(
            output=self._output,
            descriptor=screen,
            parts=WindowParts(
                above=self._above,
                prompt=self._prompt,
                below=self._below,
                hidden=lambda: self._hidden is not None,
                suggests=lambda: style.colour and self._choices is None,
                drawn=self._drawn,
            ),
            keys=chat_keys(self._actions()),
            replies=self._replies,
            completer=self._completer,
            history=history.read(),
            colour=style.colour,
        )
        self._window.buffer.on_text_changed += lambda buffer: self._calm()
        self._guard = AnswerGuard(self._settled, _call_later)
        self._window.app.key_processor.before_key_press += lambda _: self._guard.press()
        self._window.buffer.on_text_changed += lambda buffer: self._filter(buffer.text)
        self._talk: talk.TerminalConversation | None = None
        self._visit: Visit | None = None
        self._joined = asyncio.Event()
        self._events: asyncio.Queue[tuple[str, Asked | None] | int | None] = asyncio.Queue()
        """Lines, each with the question that could be seen when it was sent; the code with which to leave;
        None for Ctrl-C."""
        self._drawing: TurnDrawing | None = None
        self._hidden: asyncio.Future[str] | None = None
        self._visible: Asked | None = None
        self._choices: ChoiceList | None = None
        self._frame: asyncio.TimerHandle | None = None
        self._drawn_at = float("-inf")
        self._interrupted_at = float("-inf")
        self._beside: set[asyncio.Task[None]] = set()

    # --- the gateway is there ---

    def join(self, start: ChatStart) -> None:
        self._visit, status, look = start.visit, self._status, self._look
        status.note, status.agent, status.model = "", start.agent, start.model
        self._adopt_display(start.display)
        if start.title:
            rows = banner_rows(start.title, start.facts, _HELP, look.columns(), look.theme, look.colour)
            self._stage.put(rows, "banner")
        self._talk = talk.TerminalConversation(start.visit, self, start.plan)
        resumed = start.visit.session
        self.adopt(resumed.manner if resumed is not None else None)
        self._joined.set()
        self._touch()

    def _adopt_display(self, display: Mapping[str, Any]) -> None:
        look = self._look
        self._tools = look.tools = self._verbose or display.get("tool_progress") != "off"
        self._thoughts = look.thoughts = self._verbose or display.get("show_reasoning") is True
        look.calm = display.get("calm") is True
        look.diffs = display.get("inline_diffs") is not False
        look.markdown = str(display.get("final_response_markdown") or "render")
        look.timestamps = display.get("timestamps") is True
        self._status.with_cost = display.get("show_cost") is not False
        self._bell = display.get("bell_on_complete") is True
        self._enter_sends = display.get("enter_key") != "newline"
        self._window.use_vi(display.get("editing_mode") == "vi")
        self._skin = str(display.get("skin") or "")
        self._know_terminal()

    def _know_terminal(self) -> None:
        """The terminal told its background, or the settings a theme."""
        self._look.light = self._replies.light
        self._look.theme = choose_theme(self._skin, self._replies.light)
        self._touch()

    def hear(self, presence: Presence, words: str) -> None:
        if self._talk is not None:
            self._talk.hear(presence, words)

    # --- what signals do ---

    def interrupt(self) -> None:
        self._events.put_nowait(None)

    def leave(self, code: int) -> None:
        self._events.put_nowait(code)

    def redraw(self) -> None:
        """The process was stopped and goes on."""
        if not self._suspending and not self._window.is_away:
            self._window.take_over()
        self._suspending = False

    def follow(self, turn: Turn) -> None:
        """A turn that was not begun here: shown if it belongs to the session on the screen."""
        if self._talk is not None and self._talk.is_in(turn.session):
            self._stage.note(one_line(turn.input.text, 100))
            self._talk.follow(turn)
            self.refresh()

    # --- its life ---

    async def live(self) -> int:
        writing = asyncio.create_task(self._output.live(), name="terminal output")
        drawing = asyncio.create_task(self._window.live(), name="terminal window")
        watching = asyncio.create_task(self._watch(), name="terminal turns")
        talking = asyncio.create_task(self._read_lines(), name="terminal input")
        tasks = (writing, drawing, watching, talking)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code = self._code(talking, drawing)
            await self._close(writing, drawing)
        finally:
            if self._frame is not None:
                self._frame.cancel()
            ending = (*tasks, *self._beside, *(() if self._talk is None else self._talk.tasks))
            for task in ending:
                task.cancel()
            await asyncio.wait(ending)
        gone = [task for task in (writing, drawing) if not task.cancelled() and _is_gone(task.exception())]
        for task in (writing, watching, drawing):
            if task not in gone and not task.cancelled() and not isinstance(task.exception(), EOFError):
                task.result()
        return talk.GONE if gone else code

    def _code(self, talking: asyncio.Task[int], drawing: asyncio.Task[None]) -> int:
        if talking.done() and not talking.cancelled():
            return talking.result()
        # Nobody types any more.
        return talk.OK if drawing.done() else talk.FAILED

    async def _close(self, writing: asyncio.Task[None], drawing: asyncio.Task[None]) -> None:
        """Print the last words, and leave the terminal as it was."""
        if not drawing.done():
            await self._replies.wait(_REPLY_SECONDS)
            self._window.end()
            await asyncio.wait((drawing,))
        if writing.done():
            return
        self._stage.end_turn()
        for note in () if self._talk is None else self._talk.last_notes():
            # One row each, so that a command in it is copied whole where the terminal wraps it.
            self._stage.put([self._look.paint(showable(note), self._look.theme.dim)], "note")
        self._output.write(self._stage.take().replace("\n", "\r\n"))
        drained = asyncio.create_task(self._output.drained(0), name="last words")
        await asyncio.wait((drained, writing), timeout=_TWICE, return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something beside; it ends with the chat."""
        task = asyncio.create_task(work, name=name)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _watch(self) -> None:
        await self._joined.wait()
        assert self._talk is not None
        await self._talk.watch_all()

    async def _read_lines(self) -> int:
        try:
            while True:
                event = await self._next()
                if event is None:
                    await self._interrupt()
                elif isinstance(event, int):
                    return event
                else:
                    await self._obey(*event)
                self._touch()
        except talk.ChatEnded as leaving:
            return leaving.code

    _opened = False

    async def _next(self) -> tuple[str, Asked | None] | int | None:
        """The next wish. Words wait until the gateway is there; leaving does not."""
        waiting: list[tuple[str, Asked | None]] = []
        while not self._opened:
            joined = asyncio.create_task(self._joined.wait(), name="gateway there")
            coming = asyncio.create_task(self._events.get(), name="next key")
            done, _ = await asyncio.wait((joined, coming), return_when=asyncio.FIRST_COMPLETED)
            for task in {joined, coming} - done:
                task.cancel()
            event = coming.result() if coming in done else _NOT_YET
            if not isinstance(event, tuple):
                return event
            waiting += [event] if event is not _NOT_YET else []
            if joined in done:
                self._opened = True
                assert self._talk is not None
                await self._talk.open()
                self.refresh()
                self._begin(self._load_menu(), "chat menu")
                for line in waiting:
                    self._events.put_nowait(line)
        return await self._events.get()

    async def _load_menu(self) -> None:
        if self._visit is None or self._visit.menu is None:
            return
        try:
            menu = self._completer.menu = await self._visit.menu()
        except HermesError:
            return  # the gateway is away; what it offers is asked for again
        status = self._status
        status.window, status.sandbox, status.yolo = menu.window, menu.sandbox, menu.yolo
        status.agent, status.model = menu.agent, menu.model or status.model
        self._touch()

    def _calm(self) -> None:
        """The next Ctrl-C is the first one again."""
        self._interrupted_at = float("-inf")

    async def _interrupt(self) -> None:
        now = time.monotonic()
        if now - self._interrupted_at < _TWICE and not self._window.buffer.text:
            raise talk.ChatEnded(talk.INTERRUPTED)
        self._interrupted_at = now
        self._give("")
        if self._picking:
            self._end_picking()
        elif self._talk is None or self._talk.is_idle:
            if self._window.buffer.text:
                self._calm()
            else:
                self._stage.note("Ctrl-C once more leaves.")
            self._window.buffer.reset()
        elif self._talk.presence is not Presence.HERE:
            raise talk.ChatEnded(talk.INTERRUPTED)  # nobody is there to stop anything
        else:
            await self._talk.stop_turn()

    async def _obey(self, line: str, asked: Asked | None) -> None:
        assert self._talk is not None
        command = read_command(line)
        name, args = command if command is not None else ("", "")
        if name == "clear":
            self._window.draw(cleared=True, history=True)
        elif name == "copy":
            self._copy()
        elif name == "skin":
            self._choose_skin(args)
        elif name == "statusbar":
            self._status.shown = not self._status.shown
        elif name == "image":
            self._attach([args.strip("\"'") or "/image without a FILE"])
        elif name == "paste":
            await self._paste_picture()
        elif name in ("resume", "sessions") and not args:
            await self._pick_session()
        else:
            images = self._pictures.of(line)
            if images and name:
                self._stage.note("Pictures go along with plain messages only.", self._look.theme.warn)
            await self._talk.obey(line, asked, images)
            if command is not None:
                self._status.begin() if name in ("new", "reset", "resume", "branch") else None
                await self._load_menu()
        self.refresh()

    def _copy(self) -> None:
        if not self._stage.answer.strip():
            self._stage.note("There is no answer to copy yet.")
            return
        data = b64encode(self._stage.answer.strip().encode("utf-8", "replace")).decode()
        self._window.control(f"\x1b]52;c;{data}\x07")
        self._stage.note("The last answer is in the clipboard, if your terminal allows it (OSC 52).")

    # --- pictures ---

    def _paste(self, text: str) -> None:
        if self._hidden is None and not text.strip():
            self._begin(self._paste_picture(), "picture of the clipboard")
        elif self._hidden is None and (paths := dropped(text)):
            self._attach(paths)
        else:
            self._window.app.current_buffer.insert_text(self._pastes.fold(text))

    def _attach(self, paths: Sequence[str]) -> None:
        try:
            for path in paths:
                self._window.buffer.insert_text(f"{self._pictures.attach(path)} ")
        except UserError as error:
            self.line(f"✗ {error}")

    async def _paste_picture(self) -> None:
        try:
            self._window.buffer.insert_text(f"{await self._pictures.paste()} ")
        except UserError as error:
            self.line(f"✗ {error}")

    def _choose_skin(self, name: str) -> None:
        if name in SKINS:
            self._skin = name
            self._know_terminal()
            self._stage.note(f"The colours are those of “{name}” now. To keep them: display.skin: {name}")
        else:
            self._stage.note(f"Choose one of {', '.join(SKINS)}: /skin slate", self._look.theme.bad)

    # --- sessions to pick from ---

    async def _pick_session(self) -> None:
        await self._load_menu()
        sessions = self._completer.menu.sessions
        if not sessions:
            self._stage.note("There is no other session yet.")
            return
        self._picking = True
        self._choices = ChoiceList(every=sessions, help=_PICKING)

    def _end_picking(self) -> None:
        self._picking, self._choices, self._doomed = False, None, ""
        self._window.buffer.reset()
        self._touch()

    def _filter(self, text: str) -> None:
        if self._picking and self._choices is not None:
            self._choices.filter = text

    def _delete_chosen(self) -> None:
        """The first press only warns: whoever means to leave presses the same key."""
        listed = self._choices
        if not self._picking or listed is None or listed.chosen is None:
            return
        if self._doomed != listed.chosen.name:
            self._doomed = listed.chosen.name
            listed.help = f"Ctrl-D once more deletes “{one_line(listed.chosen.about or self._doomed, 40)}”"
        else:
            listed.help, self._doomed = _PICKING, ""
            self._begin(self._delete(listed.chosen), "delete session")

    async def _delete(self, entry: ChatOption) -> None:
        if self._visit is None or self._visit.delete is None or self._choices is None:
            return
        try:
            await self._visit.delete(entry.name)
        except HermesError as error:
            self.line(f"✗ {error}")
            return
        self._stage.note(f"Deleted: {entry.about or entry.name}")
        self._choices.every = [each for each in self._choices.every if each.name != entry.name]
        self._touch()

    # --- what a conversation shows ---

    def line(self, text: str, *, aside: bool = False) -> None:
        theme = self._look.theme
        style = theme.dim if aside else theme.bad if text.startswith("✗") else ""
        self._stage.note(text, style, kind="note" if aside else "reply")
        self._touch()

    def answer(self, text: str, whole: str = "") -> None:
        self._stage.reply(text)
        self._stage.answer = whole or text
        self._touch()

    async def show(self, item: FeedItem, *, begins: bool) -> None:
        if begins or self._drawing is None:
            self._drawing = TurnDrawing(self._stage, self._count)
        self._drawing.see(item)
        self.refresh()
        await self._output.drained()

    def _count(self, reply: ModelSaid) -> None:
        self._status.add(reply)

    def adopt(self, manner: Manner | None) -> None:
        own = manner or NO_MANNER
        self._look.tools = own.progress != "off" if own.progress else self._tools
        self._look.thoughts = self._thoughts if own.thoughts is None else own.thoughts

    async def make_room(self) -> None:
        self._draw()

    async def ask_hidden(self, text: str) -> str:
        self._hidden_text, self._hidden = text, asyncio.get_running_loop().create_future()
        self._window.hide(True)
        self._touch()
        try:
            return await self._hidden
        finally:
            self._hidden = None
            self._window.hide(False)
            self._touch()

    def refresh(self) -> None:
        conversation = self._talk
        if conversation is None:
            return
        was_working = self._stage.working_since is not None
        working = not conversation.is_idle and conversation.question is None
        self._stage.work(working)
        self._status.queued, self._status.background = conversation.waiting, conversation.in_background
        if was_working and conversation.is_idle:
            self._begin(self._load_menu(), "chat menu")
            self._window.control("\a\x1b]9;Hermes is done\x07" if self._bell else "")
        self._touch()

    # --- drawing ---

    def _touch(self) -> None:
        """Something is to be drawn, at the latest with the next frame."""
        if self._frame is None:
            wait = max(self._drawn_at + _FRAME_SECONDS - time.monotonic(), 0)
            self._frame = asyncio.get_running_loop().call_later(wait, self._draw)

    def _draw(self) -> None:
        if self._frame is not None:
            self._frame.cancel()
            self._frame = None
        loop = asyncio.get_running_loop()
        if self._window.is_away:
            self._frame = loop.call_later(_FRAME_SECONDS, self._draw)
            return
        self._drawn_at = time.monotonic()
        self._window.draw(self._stage.take())
        if self._stage.working_since is not None and self._frame is None:
            pause = 1.0 if self._look.calm else 1 / FRAMES_PER_SECOND
            self._frame = loop.call_later(pause, self._draw)

    def _drawn(self) -> None:
        """A question that is drawn can be answered from now on; what was being written is put aside. The
        terminal is asked about itself once it echoes nothing any more."""
        self._window.control(self._replies.ask())
        question = None if self._talk is None else self._talk.question
        if question is self._visible:
            return
        before, self._visible = self._visible, question
        buffer = self._window.buffer
        self._guard.end()
        if question is not None:
            self._window.control("\a\x1b]9;Hermes asks something\x07" if self._bell else "")
            if before is None:
                self._stash += buffer.text
            buffer.reset()
            approval = question.kind is QuestionKind.APPROVAL
            options = [
                ChatOption(name=option, about=_MEANINGS.get(option, "") if approval else "")
                for option in choices(question)
            ]
            self._choices = ChoiceList(every=options, numbered=True) if options else None
            self._picking = False
            if self._choices is not None and question.kind is not QuestionKind.CLARIFY:
                self._guard.begin(aside=bool(self._stash))
                names = [option.name for option in options]
                self._choices.at = names.index("deny") if "deny" in names else len(names) - 1
                self._choices.help = self._guard.help
        else:
            self._choices = None
            buffer.reset()
            buffer.insert_text(self._stash)
            self._stash = ""
        self._touch()

    def _settled(self) -> None:
        """Keys answer the approval from now on. What came before went on with what was put aside."""
        if self._stash:
            self._stash += self._window.buffer.text
            self._window.buffer.reset()
        self._tell_guard()

    def _tell_guard(self) -> None:
        if self._choices is not None and not self._picking and self._choices.help:
            self._choices.help = self._guard.help
            self._touch()

    def _above(self) -> list[str]:
        look, stage = self._look, self._stage
        since = stage.working_since
        rows = ["", *stage.drawn(0 if since is None else stage.clock() - since)]
        if self._choices is not None:
            rows += self._choices.rows(look.columns() - 1, _LIST_ROWS, look.theme, look.colour)
        most = max(look.rows() - 4, 0)
        return rows[len(rows) - most :] if len(rows) > most else rows

    def _prompt(self) -> str:
        look, theme = self._look, self._look.theme
        if self._hidden is not None:
            return look.paint(f"🔐 {one_line(self._hidden_text, 60)} (not shown) ❯ ", theme.warn)
        if self._visible is not None:
            mark = "?" if self._visible.kind is QuestionKind.CLARIFY else "⚠"
            return look.paint(f"{mark} ❯ ", theme.warn)
        return look.paint("⚕ ❯ " if self._stage.working_since is not None else "❯ ", theme.accent)

    def _below(self) -> list[str]:
        return self._status.rows(self._look.columns() - 1, self._look.theme, self._look.colour)

    # --- keys ---

    def _actions(self) -> KeyActions:
        return KeyActions(
            send=self._send,
            interrupt=self.interrupt,
            escape=self._escape,
            end=lambda: self.leave(talk.OK),
            paste=self._paste,
            unfold=self._unfold,
            move=self._move,
            pick=self._pick,
            delete=self._delete_chosen,
            suspend=self._suspend,
            redraw=lambda: self._window.draw(cleared=True),
            is_choosing=lambda: self._choices is not None and (self._picking or not self._window.buffer.text),
            takes_numbers=lambda: (
                self._visible is not None
                and self._choices is not None
                and not self._window.buffer.text
                and self._guard.takes()
            ),
            enter_sends=lambda: self._enter_sends or self._hidden is not None or self._choices is not None,
        )

    def _send(self) -> None:
        if self._hidden is not None:
            self._give(self._window.hidden.text)
            return
        buffer = self._window.buffer
        if not self._picking and not self._guard.takes(buffer.text):
            return
        if self._choices is not None and (self._picking or not buffer.text.strip()):
            self._choose()
            return
        shown = buffer.text
        line = self._pastes.expand(shown)
        if not line.strip():
            return
        if len(line) > MOST:
            size = f"{len(line):,} characters; that is more than a line can have"
            self.line(f"✗ Your message has {size}. Put it into a file and name the file.")
            buffer.reset()
            return
        buffer.append_to_history()
        buffer.reset()
        self._pastes.forget()
        self._history.add(line)
        self._stage.said(echo(shown))
        self._events.put_nowait((line, self._visible))
        self._touch()

    def _give(self, word: str) -> None:
        """The end of what is typed without being shown."""
        if self._hidden is not None and not self._hidden.done():
            self._hidden.set_result(word)

    def _choose(self) -> None:
        chosen = None if self._choices is None else self._choices.chosen
        if chosen is None:
            return
        if self._picking:
            self._end_picking()
            self._events.put_nowait((f"/resume {chosen.name}", None))
        else:
            self._events.put_nowait((chosen.name, self._visible))

    def _move(self, step: int) -> None:
        if self._choices is not None:
            if self._picking:
                self._choices.help, self._doomed = _PICKING, ""
            self._choices.move(step)
            self._guard.move()
            self._tell_guard()

    def _pick(self, number: int) -> None:
        if self._choices is not None and number <= len(self._choices.entries):
            self._choices.at = number - 1
            self._choose()

    def _escape(self) -> None:
        if self._hidden is not None:
            self._give("")
        elif self._picking:
            self._end_picking()
        elif self._visible is not None and self._visible.kind is not QuestionKind.CLARIFY:
            self._events.put_nowait(("deny", self._visible))
        elif self._talk is not None and not self._talk.is_idle:
            self._begin(self._talk.stop_turn(), "stop turn")

    def _unfold(self) -> None:
        buffer = self._window.buffer
        whole = self._pastes.expand(buffer.text)
        if whole != buffer.text:
            buffer.reset()
            buffer.insert_text(whole)
        else:
            self._stage.unfold()
            self._touch()

    def _suspend(self) -> None:
        self._suspending = True
        self._begin(self._window.suspend(), "suspended")


def _call_later(seconds: float, do: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, do)


def _is_gone(error: BaseException | None) -> bool:
    """Whether this is how a terminal's closed window shows itself."""
    return isinstance(error, OSError | termios.error) and error.args[:1] == (errno.EIO,)
