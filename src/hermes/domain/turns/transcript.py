"""Reading a transcript: what is still visible of it, and what its tail leaves to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct, field

from hermes.domain.ids import CallId, TurnId
from hermes.domain.tools.checkpoint import may_change_files
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Cleared,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Restored,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)

MARKS = (Summarised, Cleared, Restored, Undone)
"""Records that change what is visible of those before them."""


def visible(entries: Sequence[Entry]) -> list[Entry]:
    """The transcript without what was undone, and with a summary in place of what it tells. A summary of what
    was undone in part is gone, and what it summed up and was not undone is there again. Summaries and
    clearings stand in front: whoever keeps a beginning sees at its first entry that it has changed."""
    left = not_undone(entries)
    if not any(isinstance(entry.record, Summarised | Cleared) for entry in left):
        return left
    shown: list[Entry] = []
    for entry in left:
        if isinstance(entry.record, Summarised):
            upto = entry.record.upto
            shown = [entry, *(earlier for earlier in shown if _reach(earlier) > upto)]
        elif isinstance(entry.record, Cleared):
            shown = [entry, *(earlier for earlier in shown if not isinstance(earlier.record, Cleared))]
        else:
            shown.append(entry)
    return shown


def user_turns(transcript: Sequence[Entry]) -> list[Entry]:
    """The first words of each turn that was not undone, also of those that a summary tells of."""
    return [
        entry
        for entry in not_undone(transcript)
        if isinstance(entry.record, UserSaid) and not entry.record.steering
    ]


def not_undone(entries: Iterable[Entry]) -> list[Entry]:
    """The transcript without what was undone; summaries stand beside what they tell."""
    left: list[Entry] = []
    for entry in entries:
        record = entry.record
        if isinstance(record, Undone):
            left = [earlier for earlier in left if _outlives(earlier, record.since)]
        elif isinstance(record, Restored):
            left = [earlier for earlier in left if earlier.seq < record.since or not _hides(earlier)]
        else:
            left.append(entry)
    return left


def _outlives(entry: Entry, since: int) -> bool:
    """Whether it is still there when everything from `since` on is undone. What was cleared stays so."""
    return isinstance(entry.record, Cleared) or _reach(entry) < since


def _hides(entry: Entry) -> bool:
    return isinstance(entry.record, Summarised | Cleared)


def last_compression(entries: Sequence[Entry]) -> int | None:
    """The first record of the last compression that is in effect; None if nothing is compressed."""
    left = [entry for entry in not_undone(entries) if _hides(entry)]
    return left[-1].seq if left else None


def summed_upto(marks: Iterable[Entry]) -> int:
    """The record up to which a summary tells everything, 0 if none does: what is `visible` of the records
    behind it is what is visible of the whole transcript. `marks` are its summaries and what undoes them, in
    order; a summary that was undone does not count."""
    told = ((entry.seq, entry.record) for entry in not_undone(marks))
    return max((min(mark.upto, seq - 1) for seq, mark in told if isinstance(mark, Summarised)), default=0)


def _reach(entry: Entry) -> int:
    """The number of the last record that an entry tells of: a summary stands for what it summed up."""
    return entry.record.upto if isinstance(entry.record, Summarised | Cleared) else entry.seq


class CallState(Struct, kw_only=True):
    call: ToolCall
    started: ToolStarted | None = None
    asked: Asked | None = None
    answered: Answered | None = None
    finished: ToolFinished | None = None
    children: list[Asked] = field(default_factory=list)
    answers: dict[str, Answered] = field(default_factory=dict)
    """Those of its children, in the order they came; `answered` is the last."""
    made: list[str] = field(default_factory=list)
    allowed: str = ""
    """The digest of the action that a person allowed before the call asked for more."""

    @property
    def made_inside(self) -> str:
        """What is said of the calls that it made itself, if it is cut off."""
        return f" It had started: {'; '.join(self.made)}." if self.made else ""


class TurnView(Struct, kw_only=True):
    """One turn as its records tell it: the last reply, its calls, and how it ended."""

    last: ModelSaid | None = None
    heard_since: bool = False
    calls: dict[CallId, CallState] = field(default_factory=dict)
    questions: dict[str, Asked] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    tainted: bool = False
    """Whether a result of the turn was written elsewhere."""
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
            if started.inside:
                view.calls[started.call].made.append(f"{started.name} {started.inside}")
            else:
                view.calls[started.call].started = started
        case Asked() as asked:
            view.questions[asked.question] = asked
            if asked.call is not None:
                _ask(view.calls[asked.call], asked)
        case Answered() as answered:
            view.answered.add(answered.question)
            asked_call = view.questions[answered.question].call
            if asked_call is not None:
                state = view.calls[asked_call]
                state.answers[answered.question] = answered
                if all(child.question in state.answers for child in state.children):
                    state.answered = answered
        case ToolFinished() as finished:
            state = view.calls[finished.call]
            state.finished = finished
            view.tainted = view.tainted or finished.outside
            if finished.unknown:
                view.unknown.append(state.call.name)
        case Finished() | Failed() | Stopped() as ended:
            view.ended = ended
        case Summarised() | Cleared() | Restored() | Undone():
            pass


def _ask(state: CallState, asked: Asked) -> None:
    """A call that asks for more while it runs has come to rest: with the answer it is started anew."""
    if asked.kept:
        if state.asked is not None and state.answered is not None and state.answered.verdict.allows:
            state.allowed = state.asked.digest
        elif state.started is not None and state.started.approved:
            state.allowed = state.started.digest
        state.started, state.answered = None, None
    state.asked = asked
    state.children += [asked] if asked.kind is QuestionKind.CHILD else []


_WRITERS = ("write_file", "patch")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)


def _arguments(call: ToolCall) -> dict[str, object]:
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def may_have_changed_files(entries: Iterable[Entry]) -> bool:
    """Whether any call of these records was started that may change files."""
    records = [entry.record for entry in entries]
    started = {record.call for record in records if isinstance(record, ToolStarted)}
    calls = [call for record in records if isinstance(record, ModelSaid) for call in record.calls]
    return any(call.id in started and may_change_files(call.name, _arguments(call)) for call in calls)


def changed_files(entries: Iterable[Entry]) -> list[str]:
    """Those that tools of these records were told to change, each once, the latest last."""
    files: dict[str, None] = {}
    calls = (call for entry in entries if isinstance(entry.record, ModelSaid) for call in entry.record.calls)
    for call in calls:
        if call.name not in _WRITERS:
            continue
        given = _arguments(call)
        path, diff = given.get("path"), given.get("patch")
        named = [path] if isinstance(path, str) and path else []
        named += [a or b for a, b in _PATCHED.findall(diff)] if isinstance(diff, str) else []
        for one in named:
            files.pop(one.strip(), None)
            files[one.strip()] = None
    return list(files)


def number_records(
    transcript: Sequence[Entry], turn: TurnId, records: Sequence[Record], now: datetime
) -> tuple[Entry, ...]:
    last = transcript[-1].seq if transcript else 0
    return tuple(
        Entry(seq=last + place, turn=turn, at=now, record=record)
        for place, record in enumerate(records, start=1)
    )
