"""The background tasks that were begun in a conversation: what they ask and answer is told in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from hermes.domain.errors import HermesError
from hermes.domain.ids import SessionId
from hermes.domain.text import one_line
from hermes.domain.turns.event import (
    Asked,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Stopped,
)
from hermes.domain.turns.turn import Turn
from hermes.entry.terminal.door import GatewayGone, Visit


class BackgroundTasks:
    """`line` and `answer` print on the view, `changed` hears that there is one more or less."""

    def __init__(
        self,
        visit: Visit,
        line: Callable[..., None],
        answer: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._visit = visit
        self._line = line
        self._answer = answer
        self._changed = changed
        self._watched: dict[SessionId, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return list(self._watched.values())

    @property
    def sessions(self) -> Iterator[SessionId]:
        return iter(self._watched)

    def begin(self, turn: Turn) -> None:
        self._watched[turn.session] = asyncio.create_task(self._watch(turn), name="background task")

    def show(self, session: SessionId) -> None:
        """The conversation is in this session now, and shows it itself."""
        task = self._watched.pop(session, None)
        if task is not None:
            task.cancel()

    async def _watch(self, turn: Turn) -> None:
        text = ""
        try:
            async for item in self._visit.door.watch(turn.id, 0):
                if not isinstance(item, Entry):
                    continue
                record = item.record
                if isinstance(record, ModelSaid) and not record.calls:
                    text = record.text
                self._tell(turn, record, text)
        except GatewayGone:
            return
        except HermesError as error:
            self._line(f"✗ {error}")
        if self._watched.pop(turn.session, None) is not None:
            self._changed()

    def _tell(self, turn: Turn, record: Record, text: str) -> None:
        name = f"“{one_line(turn.input.text, 60)}”"
        if self._visit.asks(record):
            self._line(f"⚠ The background task {name} asks: {record.text}\n{_how_to_answer(turn, record)}")
        elif isinstance(record, Finished):
            self._line(f"The background task {name} is done:", aside=True)
            self._answer(text)
        elif isinstance(record, Failed | Stopped):
            self._line(f"✗ The background task {name} ended: {record.reason or 'it was stopped'}")


def _how_to_answer(turn: Turn, asked: Asked) -> str:
    if asked.kind is QuestionKind.APPROVAL:
        return f"/approve allows it, /deny refuses it; /resume {turn.session} shows all of it."
    return f"To answer: /resume {turn.session}"
