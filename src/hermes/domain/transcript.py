"""Reading a transcript: what is still visible of it, and what its tail leaves to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hermes.domain.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Record,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)
from hermes.domain.ids import CallId, TurnId
from hermes.domain.tool import ToolCall


def visible(entries: Sequence[Entry]) -> list[Entry]:
    """The transcript without what was undone, and with a summary in place of what it tells. A summary of what
    was undone in part is gone, and what it summed up and was not undone is there again."""
    left: list[Entry] = []
    summed = False
    for entry in entries:
        if isinstance(entry.record, Undone):
            since = entry.record.since
            left = [earlier for earlier in left if _reach(earlier) < since]
        else:
            left.append(entry)
            summed = summed or isinstance(entry.record, Summarised)
    if not summed:
        return left
    shown: list[Entry] = []
    for entry in left:
        if isinstance(entry.record, Summarised):
            upto = entry.record.upto
            shown = [entry, *(earlier for earlier in shown if _reach(earlier) > upto)]
        else:
            shown.append(entry)
    return shown


def _reach(entry: Entry) -> int:
    """The number of the last record that an entry tells of: a summary stands for what it summed up."""
    return entry.record.upto if isinstance(entry.record, Summarised) else entry.seq


@dataclass(slots=True, kw_only=True)
class CallState:
    call: ToolCall
    started: ToolStarted | None = None
    asked: Asked | None = None
    answered: Answered | None = None
    finished: ToolFinished | None = None


@dataclass(slots=True, kw_only=True)
class TurnView:
    """One turn as its records tell it: the last reply, its calls, and how it ended."""

    last: ModelSaid | None = None
    heard_since: bool = False
    calls: dict[CallId, CallState] = field(default_factory=dict)
    questions: dict[str, Asked] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    ended: Finished | Failed | Stopped | None = None

    @property
    def leftovers(self) -> list[CallState]:
        """Calls that were started and have no result: seen at the start of a run, the traces of a crash."""
        return [state for state in self.open_calls if state.started is not None]

    @property
    def open_calls(self) -> list[CallState]:
        return [state for state in self.calls.values() if state.finished is None]


def turn_entries(entries: Sequence[Entry], turn: TurnId) -> Sequence[Entry]:
    """The records of the turn at the end of a transcript: a turn's records stand together."""
    start = len(entries)
    while start and entries[start - 1].turn == turn:
        start -= 1
    return entries[start:]


def view_turn(entries: Sequence[Entry], turn: TurnId) -> TurnView:
    view = TurnView()
    for entry in turn_entries(entries, turn):
        _see(view, entry)
    return view


def _see(view: TurnView, entry: Entry) -> None:
    match entry.record:
        case UserSaid():
            view.heard_since = True
        case ModelSaid() as said:
            view.last = said
            view.heard_since = False
            view.calls = {call.id: CallState(call=call) for call in said.calls}
        case ToolStarted() as started:
            view.calls[started.call].started = started
        case Asked() as asked:
            view.questions[asked.question] = asked
            if asked.call is not None:
                view.calls[asked.call].asked = asked
        case Answered() as answered:
            view.answered.add(answered.question)
            asked_call = view.questions[answered.question].call
            if asked_call is not None:
                view.calls[asked_call].answered = answered
        case ToolFinished() as finished:
            state = view.calls[finished.call]
            state.finished = finished
            if finished.unknown:
                view.unknown.append(state.call.name)
        case Finished() | Failed() | Stopped() as ended:
            view.ended = ended
        case Summarised() | Undone():
            pass


def session_grants(entries: Iterable[Entry], person: str | None) -> set[str]:
    """Digests of actions that a person allowed for the rest of this session. What was allowed for good is
    kept elsewhere, so that it can be revoked."""
    if person is None:
        return set()
    asked: dict[str, str] = {}
    granted: set[str] = set()
    for entry in entries:
        record = entry.record
        if isinstance(record, Asked) and record.digest:
            asked[record.question] = record.digest
        elif isinstance(record, Answered) and record.verdict == "session" and record.by == person:
            granted.add(asked.get(record.question, ""))
    return granted - {""}


def number_records(
    transcript: Sequence[Entry], turn: TurnId, records: Sequence[Record], now: datetime
) -> tuple[Entry, ...]:
    last = transcript[-1].seq if transcript else 0
    return tuple(
        Entry(seq=last + place, turn=turn, at=now, record=record)
        for place, record in enumerate(records, start=1)
    )
