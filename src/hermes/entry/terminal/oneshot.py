"""One message and its answer, for scripts and pipes: words as they come or only the final answer on stdout,
everything else on stderr, and an exit code that tells how it ended. If nobody can be asked, the answer to a
request is no."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from hermes.domain.text import one_line
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    Notice,
    Record,
    Stopped,
    ToolFinished,
    calls_in,
    usage_of,
)
from hermes.domain.turns.turn import Turn
from hermes.entry.terminal.door import GatewayGone, Visit, new_words_key
from hermes.entry.terminal.screen import Screen
from hermes.entry.terminal.talk import FAILED, INTERRUPTED, OK, ParsedAnswer, read_answer, refusal
from hermes.stream.faces.console import Console, QuietConsole
from hermes.stream.fold.questions import question_text
from hermes.stream.fold.tool_lines import plain_line

T = TypeVar("T")
Ask = Callable[[str], Awaitable[str | None]]
"""Show a question to a person and return the line that answers it; None if nobody is there any more."""


@dataclass(slots=True, kw_only=True)
class OneShot:
    text: str
    visit: Visit
    screen: Screen
    tell: Callable[[str], None]
    final_only: bool = False
    verbose: bool = False
    ask: Ask | None = None
    _turn: Turn | None = field(init=False, default=None)
    _records: list[Record] = field(init=False, default_factory=list)
    _interrupts: int = field(init=False, default=0)
    _stopping: asyncio.Task[None] | None = field(init=False, default=None)
    _talking: asyncio.Task[int] | None = field(init=False, default=None)

    @property
    def session(self) -> str:
        """Where it was said; empty if nothing was."""
        return self._turn.session if self._turn is not None else ""

    @property
    def usage(self) -> dict[str, object]:
        """What the answer took so far."""
        models = [seen.model for seen in self._records if isinstance(seen, ModelSaid) and seen.model]
        facts = msgspec.to_builtins(usage_of(self._records))
        calls = len(calls_in(self._records))
        return {"session_id": self.session, "model": models[-1] if models else "", "calls": calls, **facts}

    def interrupt(self) -> None:
        """Stop the turn; once more, do not wait for it either."""
        self._interrupts += 1
        if self._turn is not None and self._interrupts == 1:
            self._stopping = asyncio.create_task(self._stop(self._turn), name="stop turn")
        elif self._talking is not None:
            self._talking.cancel()

    async def _stop(self, turn: Turn) -> None:
        try:
            await self.visit.door.stop(turn.id)
        except GatewayGone:
            # Nobody is there to stop anything; it goes on without us.
            if self._talking is not None:
                self._talking.cancel()

    def leave(self, code: int) -> None:
        self._interrupts += 1
        if self._talking is not None:
            self._talking.cancel()

    async def live(self) -> int:
        writing = asyncio.create_task(self.screen.live(), name="terminal output")
        self._talking = talking = asyncio.create_task(self._talk(), name="one shot")
        try:
            await asyncio.wait((writing, talking), return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                # Nobody reads on, so nobody pays for more.
                if self._turn is not None:
                    await self._stop(self._turn)
                writing.result()
            return INTERRUPTED if talking.cancelled() else talking.result()
        finally:
            for task in (writing, talking):
                task.cancel()
            await asyncio.wait((writing, talking))

    async def _talk(self) -> int:
        try:
            for turn in self.visit.turns:
                await self._watch(turn)
            key = new_words_key()
            ended = await self._watch(await self._insist(lambda: self.visit.door.say(self.text, key)))
        except GatewayGone as gone:
            self.tell(str(gone))
            return FAILED
        await self.screen.drained(0)
        match ended:
            case Finished():
                return OK
            case Failed(reason=reason):
                self.tell(one_line(reason, 1000))
                return FAILED
            case Stopped(reason=reason):
                self.tell(f"Stopped: {one_line(reason, 200)}." if reason else "Stopped.")
                return INTERRUPTED if self._interrupts else FAILED
            case None:
                self.tell("The turn ended without a word.")
                return FAILED

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until somebody is there to hear it; for what may be asked again."""
        while True:
            try:
                return await ask()
            except GatewayGone:
                await self.visit.back()

    async def _watch(self, turn: Turn) -> Finished | Failed | Stopped | None:
        self._turn = turn
        look = self.screen.look
        console: Console | QuietConsole = QuietConsole()
        if not self.final_only:
            console = Console(
                self.screen.width,
                colour=look.colour,
                show_tools=look.terminal and look.tools,
                show_thoughts=look.terminal and look.thoughts,
            )
        ended: Finished | Failed | Stopped | None = None
        async for seen in self.visit.door.watch(turn.id, 0):
            self._show(console, seen)
            if self.verbose and not (look.terminal and not self.final_only):
                self._tell_tools(seen)
            record = seen.record if isinstance(seen, Entry) else None
            self._records += [record] if record is not None else []
            if record is not None and self.visit.asks(record):
                await self._answer(record)
            elif isinstance(record, Finished | Failed | Stopped):
                ended = record
            await self.screen.drained()
        return ended

    def _show(self, console: Console | QuietConsole, seen: FeedItem) -> None:
        """Questions and bad ends are told on stderr, so they are not shown here."""
        if isinstance(seen, Entry) and isinstance(seen.record, Asked | Answered):
            return
        if isinstance(seen, Notice) and (self.final_only or not self.screen.look.terminal):
            self.tell(one_line(seen.text, 1000))
            return
        if isinstance(seen, Entry) and isinstance(seen.record, Failed | Stopped):
            self.screen.end_line()
            return
        self.screen.stream(console.see(seen))

    def _tell_tools(self, seen: FeedItem) -> None:
        """Where the answer is not for a person's eyes, what the agent does goes to stderr."""
        match seen.record if isinstance(seen, Entry) else None:
            case ModelSaid(calls=calls, thought=thought):
                if thought.strip():
                    self.tell(one_line(thought, 1000))
                for call in calls:
                    self.tell(plain_line(call))
            case ToolFinished(failed=True, text=text):
                self.tell(f"failed: {one_line(text, 200)}")

    async def _answer(self, asked: Asked) -> None:
        reading = await self._reading(asked)
        await self._insist(lambda: self.visit.door.answer(asked.question, reading.verdict, reading.text))

    async def _reading(self, asked: Asked) -> ParsedAnswer:
        while self.ask is not None:
            line = await self.ask(question_text(asked))
            if line is None:
                break
            reading = read_answer(asked, line) if line.strip() else None
            if reading is not None:
                return reading
        reading = refusal(asked)
        self.tell(f"{reading.text.partition('.')[0]}; it asked: {one_line(asked.text, 200)}")
        return reading
