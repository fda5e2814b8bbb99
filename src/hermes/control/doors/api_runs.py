"""Runs: turns as clients come back to them. Everything here is read off the turn and its records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermes.domain.event import Entry, Failed, Stopped
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turn import Question, Request, Turn, TurnState


class ApiRunStatus(StrEnum):
    """How far a run has come."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting_for_approval"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_STATUS = {
    TurnState.ACCEPTED: ApiRunStatus.QUEUED,
    TurnState.RUNNING: ApiRunStatus.RUNNING,
    TurnState.WAITING: ApiRunStatus.WAITING,
    TurnState.DONE: ApiRunStatus.COMPLETED,
    TurnState.FAILED: ApiRunStatus.FAILED,
    TurnState.STOPPED: ApiRunStatus.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as it is now. `asked` is the turn that the client made; `turn` the one that answers it, which is
    another if its words were taken into a turn that ran already."""

    asked: Turn
    turn: Turn
    entries: tuple[Entry, ...]
    questions: tuple[Question, ...]
    request: Request | None

    @property
    def status(self) -> ApiRunStatus:
        turn = self.turn
        return ApiRunStatus.STOPPING if turn.state.open and turn.stop is not None else _STATUS[turn.state]

    @property
    def updated_at(self) -> datetime:
        return self.entries[-1].at if self.entries else self.turn.created_at

    @property
    def error(self) -> str | None:
        """Why it ended without being done."""
        last = self.entries[-1].record if self.entries else None
        return last.reason if isinstance(last, Failed | Stopped) else None


def read_run(tx: Tx, asked: Turn, name: str) -> RunView:
    """`name` is the run's id, under which its request may be kept."""
    turn = answering_turn(tx, asked)
    return RunView(
        asked=asked,
        turn=turn,
        entries=tuple(tx.journal.of_turn(turn.id)),
        questions=tuple(tx.questions.of_turn(turn.id)),
        request=tx.requests.get(name),
    )


def answering_turn(tx: Tx, asked: Turn) -> Turn:
    """The turn that answers what was asked."""
    turn = asked
    while turn.absorbed_by is not None:
        into = tx.turns.get(turn.absorbed_by)
        if into is None:
            return turn
        turn = into
    return turn


def recent_runs(tx: Tx, owner: str, prefix: str, limit: int) -> list[tuple[Request, Turn]]:
    """The latest runs that somebody asked for, newest first; those whose turn was deleted are left out."""
    found: list[tuple[Request, Turn]] = []
    for request in tx.requests.find(owner, prefix=prefix, limit=limit):
        turn = tx.turns.get(TurnId(request.turn))
        if turn is not None:
            found.append((request, turn))
    return found
