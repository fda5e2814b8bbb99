"""A conversation in a terminal, without any drawing.

Its life: what is unfinished is watched to its end, then a line of the person is waited for. A line is a
command, the answer to the question on the screen, or words that become a turn, which is watched. Whatever is
left running goes on at the next start. While the gateway is away words are kept and sent once it is back;
everything else is refused."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec import Struct

from hermes.domain.chats.command_line import read_command
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import QuestionId, SessionId, TurnId
from hermes.domain.models.manner import Manner
from hermes.domain.text import one_line
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    FeedItem,
    Finished,
    QuestionKind,
    Record,
    Stopped,
    Verdict,
)
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Turn
from hermes.entry.terminal.background import BackgroundTasks
from hermes.entry.terminal.door import Door, Exchange, GatewayGone, Presence, Visit, new_words_key
from hermes.entry.terminal.operating import OPERATED, Operate, as_words
from hermes.stream.fold.questions import choices, for_people, read_word

OK, FAILED, GONE, INTERRUPTED = 0, 1, 129, 130
OWN_COMMANDS = {
    "quit": "leave (also /exit, Ctrl-D)",
    "clear": "clear the screen",
    **{name: about for name, (about, _) in OPERATED.items()},
}
NOBODY = "Nobody can be asked here: this run is not interactive."
_LEAVING = ("quit", "exit")
_SHOWN_LINES, _SHOWN_CHARS = 30, 2000


class ChatEnded(Exception):
    """Raised inside the chat alone: it is over."""

    def __init__(self, code: int) -> None:
        self.code = code


class UnsentMessage(Struct, kw_only=True):
    """Words that could not be handed over yet; `unsure` ones may have arrived all the same."""

    text: str
    key: str
    images: tuple[str, ...] = ()
    unsure: bool = False


class ChatPlan(Struct, frozen=True, kw_only=True):
    """What a chat begins with, and whether it ends with the answer to it; `spell` writes the commands in a
    sentence as they work on this home, and `operate` runs one; None if the gateway is elsewhere."""

    first: str | None = None
    once: bool = False
    greeting: Sequence[str] = ()
    spell: Callable[[str], str] = str
    operate: Operate | None = None


class ChatOutput(Protocol):
    """What a conversation is shown on."""

    def line(self, text: str, *, aside: bool = False) -> None:
        """Print a line of ours, which may be `aside`: no answer to anybody."""

    def answer(self, text: str, whole: str = "") -> None:
        """Print what the agent answered earlier or elsewhere; `whole` is it where the text is cut."""

    async def show(self, item: FeedItem, *, begins: bool) -> None:
        """More of a turn that is watched; `begins` with its first item."""

    async def make_room(self) -> None:
        """A question comes: show everything before it, and put aside what is being written."""

    async def ask_hidden(self, text: str) -> str:
        """What somebody types without its being shown; empty if they would rather not."""


class ChatView(ChatOutput, Protocol):
    """A person is in front of it."""

    @property
    def own_commands(self) -> Mapping[str, str]:
        """What it can do itself, by name."""

    def adopt(self, manner: Manner | None) -> None:
        """Show from the next turn on what the session is asked to show."""

    def refresh(self) -> None:
        """A question was opened or closed, or nothing runs any more."""

    def leave(self, code: int) -> None: ...


class TerminalConversation:
    def __init__(self, visit: Visit, view: ChatView, plan: ChatPlan) -> None:
        self._visit = visit
        self._view = view
        self._plan = plan
        self._turns: deque[Turn] = deque()
        self._more = asyncio.Event()
        self._session: SessionId | None = None
        self._shown: tuple[SessionId | None, int] = (None, 0)
        """The last record on the screen, by its number in its session; the next words may be for another."""
        self._asked: dict[QuestionId, Asked] = {}
        self._settled = visit.settled
        self._stopped: TurnId | None = None
        self._ended: Record | None = None
        self._kept: deque[UnsentMessage] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._background = BackgroundTasks(visit, view.line, view.answer, view.refresh)
        self.presence = Presence.HERE

    @property
    def _door(self) -> Door:
        return self._visit.door

    @property
    def question(self) -> Asked | None:
        """The question that is on the screen."""
        return next(iter(self._asked.values()), None)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What goes on beside the conversation, and ends with it."""
        return [*self._background.tasks, *(() if self._sending is None else (self._sending,))]

    @property
    def in_background(self) -> int:
        return len(self._background)

    @property
    def is_idle(self) -> bool:
        return not self._turns

    @property
    def waiting(self) -> int:
        """Turns behind the one that is shown."""
        return max(len(self._turns) - 1, 0)

    def hear(self, presence: Presence, words: str) -> None:
        """The gateway went away, came back, or is waited for no longer."""
        self.presence = presence
        words = self._plan.spell(words)
        self._view.line(f"{words} (Ctrl-C leaves)" if presence is Presence.AWAY else words, aside=True)
        if presence is Presence.LOST:
            self._view.leave(FAILED)

    async def open(self) -> None:
        for line in self._plan.greeting:
            self._view.line(line, aside=True)
        session = self._visit.session
        if session is not None:
            self._session = session.id
            name = f"“{session.title}”" if session.title else session.id
            self._view.line(f"Back in {name}.", aside=True)
            self._show_exchanges(self._visit.recent)
        for turn in self._visit.turns:
            self._continue(turn)
        for other in self._visit.elsewhere:
            place = f" in {short_folder(other.folder)}" if other.folder else ""
            back = self._plan.spell(f"hermes --resume {other.session}")
            self._view.line(f"Unfinished{place}: “{other.text}”. Go back with: {back}", aside=True)
        if self._plan.first is not None:
            if not self._plan.once:
                self._view.line(f"❯ {self._plan.first}")
            await self._say(self._plan.first)
        if self.is_idle:
            self._rest()

    def _continue(self, turn: Turn) -> None:
        """Show a turn that began before somebody came in."""
        if turn.input.text:
            outcome = "It continues now." if turn.state.open else "It was finished meanwhile."
            self._view.line(f"Unfinished: “{one_line(turn.input.text, 70)}”. {outcome}", aside=True)
        self.follow(turn)

    def last_notes(self) -> Iterator[str]:
        """What somebody who leaves should know."""
        for words in self._kept:
            outcome = "It is not known whether this was heard" if words.unsure else "Not sent"
            yield f"{outcome}: “{one_line(words.text, 200)}”"
        if self._turns and self._turns[0].id == self._stopped:
            yield "The answer was stopped."
            if self.waiting:
                yield "The gateway goes on with what waits."
        elif self._turns:
            yield "The answer is not finished; the gateway goes on with it."
        for session in self._background.sessions:
            yield self._plan.spell(f"A background task goes on: hermes --resume {session}")
        if self._session is not None and not self._plan.once:
            yield self._plan.spell(f"To come back: hermes --resume {self._session}")

    # --- lines ---

    async def obey(self, line: str, asked: Asked | None, images: tuple[str, ...] = ()) -> None:
        """What a line does: a command, the answer of the question that was on the screen, or words, with
        their pictures."""
        command = read_command(line)
        try:
            if command is not None:
                await self._command(line, *command)
            elif asked is not None and not images:
                await self._answer(asked, line)
            else:
                await self._say(line, images)
        except HermesError as error:
            self._view.line(f"✗ {self._plan.spell(str(error))}")

    async def _say(self, text: str, images: tuple[str, ...] = ()) -> None:
        words = UnsentMessage(text=text, key=new_words_key(), images=images)
        if self._kept or not await self._hand_over(words):
            self._kept.append(words)
            self._view.line("Your message is kept and sent when the gateway is back.", aside=True)
            if self._sending is None or self._sending.done():
                self._sending = asyncio.create_task(self._send_kept(), name="kept words")

    async def _hand_over(self, words: UnsentMessage) -> bool:
        """Say something; False if nobody is there to hear it."""
        try:
            self.follow(await self._door.say(words.text, words.key, words.images))
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
                self._view.line(f"✗ “{one_line(self._kept[0].text, 60)}” was not sent: {error}")
            self._kept.popleft()

    async def _command(self, line: str, name: str, args: str) -> None:
        if name in _LEAVING:
            raise ChatEnded(OK)
        if name in OPERATED:
            await self._operate(name, args)
            return
        hearing = asyncio.create_task(self._hear_progress(), name="progress of a command")
        try:
            reply = await self._door.command(line)
        finally:
            hearing.cancel()
            await asyncio.wait((hearing,))
        text = reply.text
        if name in ("help", "commands") and not args:
            text += "".join(f"\n- /{own}: {summary}" for own, summary in self._view.own_commands.items())
        if text:
            # A conversation that went elsewhere says how to bring it back.
            self._view.line(self._plan.spell(text) if reply.over else text)
        self._view.adopt(reply.manner)
        before, self._session = self._session, reply.session
        self._background.show(reply.session)
        if reply.turn is not None:
            self.follow(reply.turn)
        if reply.beside is not None:
            self._background.begin(reply.beside)
        if reply.agent is not None:
            self._session = None
        if reply.over:
            self._session = None  # it has said itself how to come back
            raise ChatEnded(OK)
        if name == "resume" and reply.session != before:
            resumed = await self._visit.look_back(reply.session)
            for note in () if resumed.session is None else folder_notes(resumed.session):
                self._view.line(note, aside=True)
            self._show_exchanges(resumed.recent)
            self._settled |= resumed.settled
            for turn in resumed.turns:
                self._continue(turn)

    async def _operate(self, name: str, args: str) -> None:
        if self._plan.operate is None:
            raise UserError(f"/{name} works where the gateway runs.")
        printed = await self._plan.operate(as_words(name, args, self._session))
        self._view.line(printed.strip() or "Done.")

    async def _hear_progress(self) -> None:
        if self._visit.progress is None:
            return
        try:
            async with aclosing(self._visit.progress()) as told:
                async for text in told:
                    self._view.line(text, aside=True)
        except HermesError:
            return  # the gateway is away, and so is the command

    def _show_exchanges(self, recent: Sequence[Exchange]) -> None:
        """What was said last, so that somebody who comes back knows where they are."""
        for exchange in recent:
            self._view.line(f"› {one_line(exchange.question, 200)}", aside=True)
            if exchange.answer:
                self._view.answer(shorten_text(exchange.answer), exchange.answer)

    async def _answer(self, asked: Asked, line: str) -> None:
        answer = read_answer(asked, line)
        if answer is not None:
            outcome = await self._door.answer(asked.question, answer.verdict, answer.text)
            if outcome.closed:
                self._forget(asked.question)
            else:
                self._view.line(outcome.text)
        elif " " in line.strip():
            # As in every chat: other words withdraw the question.
            self._forget(asked.question)
            await self._say(line)
        else:
            self._view.line(f"“{one_line(line, 40)}” is no answer. {how_to_answer(asked)}")

    async def stop_turn(self) -> None:
        """Stop what runs; what waits behind it is next."""
        if not self._turns:
            return  # it ended just now
        try:
            running, *waiting = self._turns
            if await self._door.stop(running.id):
                self._stopped = running.id
                if waiting:
                    words = f"“{one_line(waiting[0].input.text, 60)}”"
                    self._view.line(f"Stopped. {words} is next; /stop drops what waits.", aside=True)
        except HermesError as error:
            self._view.line(f"✗ {error}")

    # --- turns ---

    def follow(self, turn: Turn) -> None:
        self._session = turn.session
        self._turns.append(turn)
        self._more.set()

    def is_in(self, session: SessionId) -> bool:
        return session == self._session

    async def watch_all(self) -> None:
        while True:
            while not self._turns:
                self._more.clear()
                await self._more.wait()
            try:
                await self._watch(self._turns[0])
            except GatewayGone:
                return
            except HermesError as error:
                self._view.line(f"✗ {error}")
            self._turns.popleft()
            self._asked.clear()
            if self.is_idle:
                self._rest()

    async def _watch(self, turn: Turn) -> None:
        asking = asyncio.create_task(self._hear_passwords(turn), name="wanted passwords")
        try:
            await self._watch_items(turn)
        finally:
            asking.cancel()
            await asyncio.wait((asking,))

    async def _hear_passwords(self, turn: Turn) -> None:
        """Whatever a command of the turn wants is asked for without being shown."""
        passwords = self._visit.passwords
        if passwords is None:
            return
        try:
            async with aclosing(passwords.wanted(turn.id)) as wanted:
                async for each in wanted:
                    await passwords.give(each.id, await self._view.ask_hidden(each.text))
        except HermesError:
            return  # the gateway is away, and so is the command

    async def _watch_items(self, turn: Turn) -> None:
        session, after = self._shown
        begins = True
        async for item in self._door.watch(turn.id, after if session == turn.session else 0):
            await self._view.show(item, begins=begins)
            begins = False
            if isinstance(item, Entry):
                self._shown = (turn.session, item.seq)
                await self._note(item.record)

    async def _note(self, record: Record) -> None:
        if isinstance(record, Asked) and for_people(record) and record.question not in self._settled:
            await self._view.make_room()
            self._asked[record.question] = record
            self._view.refresh()
        elif isinstance(record, Answered):
            self._forget(record.question)
        elif isinstance(record, Finished | Failed | Stopped):
            self._ended = record

    def _forget(self, question: QuestionId) -> None:
        if self._asked.pop(question, None) is not None:
            self._view.refresh()

    def _rest(self) -> None:
        if self._plan.once:
            self._view.leave(self._exit_code())
        else:
            self._view.refresh()

    def _exit_code(self) -> int:
        match self._ended:
            case Finished():
                return OK
            case Stopped():
                return INTERRUPTED
            case _:
                return FAILED


# --- sessions that somebody comes back to ---


def folder_notes(session: Session) -> Iterator[str]:
    """What to know of the folder that a session works in, if it is not the one somebody stands in."""
    folder = session.workspace
    if folder is None:
        return
    if not os.path.isdir(folder):
        yield f"Its folder {folder} is gone; commands start in the nearest folder above it."
        return
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    if folder != here:
        yield f"It works in {folder}."


def short_folder(folder: str) -> str:
    home = os.path.expanduser("~")
    return f"~{folder.removeprefix(home)}" if f"{folder}/".startswith(f"{home}/") else folder


def shorten_text(text: str) -> str:
    """The beginning of an answer that was given before."""
    lines = text.strip().splitlines()
    left = len(lines) - _SHOWN_LINES
    shown = "\n".join(line[:_SHOWN_CHARS] for line in lines[:_SHOWN_LINES])
    return f"{shown}\n[… {left} more lines]" if left > 0 else shown


# --- answers ---


class ParsedAnswer(Struct, frozen=True, kw_only=True):
    verdict: Verdict
    text: str = ""


def read_answer(asked: Asked, line: str) -> ParsedAnswer | None:
    """By number or by word; a clarification takes any words. None if the line is no answer."""
    word = line.strip()
    offered = choices(asked)
    if word.isascii() and word.isdigit() and 1 <= int(word[:4]) <= len(offered):
        word = offered[int(word[:4]) - 1]
    if asked.kind is QuestionKind.CLARIFY:
        return ParsedAnswer(verdict=Verdict.REPLY, text=word)
    verdict = read_word(word)
    if verdict is not None:
        return ParsedAnswer(verdict=verdict)
    first, _, reason = word.partition(" ")
    if reason and read_word(first.rstrip(",.:")) is Verdict.DENY:
        return ParsedAnswer(verdict=Verdict.DENY, text=reason.strip())
    return ParsedAnswer(verdict=Verdict.REPLY, text=word) if word in offered else None


def refusal(asked: Asked) -> ParsedAnswer:
    """The answer where nobody can be asked: no to a request, and no help with a question."""
    if asked.kind is QuestionKind.CLARIFY:
        return ParsedAnswer(verdict=Verdict.REPLY, text=f"{NOBODY} Choose yourself, and say what you chose.")
    return ParsedAnswer(verdict=Verdict.DENY, text=NOBODY)


def how_to_answer(asked: Asked) -> str:
    offered = choices(asked)
    words = ", ".join(f"{number} {option}" for number, option in enumerate(offered, 1))
    return f"Answer with a number or a word: {words}." if offered else "Answer in a few words."
