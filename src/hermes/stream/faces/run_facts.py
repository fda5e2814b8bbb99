"""What a run's records tell of it: the last event that its watchers were shown, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

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
from hermes.stream.fold.questions import for_people
from hermes.stream.fold.shown_text import has_words
from hermes.stream.fold.tool_lines import is_internal


def last_event(entries: Sequence[Entry]) -> str | None:
    """The name of the last event of a run, as `RunEvents` names it; None if there was none yet."""
    names = (_event_of(entry.record) for entry in reversed(entries))
    return next((name for name in names if name), None)


def _event_of(record: Record) -> str | None:
    match record:
        case ModelSaid():
            return "message.delta" if has_words(record) else None
        case ToolStarted(name=name):
            return None if is_internal(name) else "tool.started"
        case ToolFinished():
            return "tool.completed"
        case Asked():
            return "approval.request" if for_people(record) else None
        case Answered():
            return "approval.responded"
        case Finished():
            return "run.completed"
        case Failed():
            return "run.failed"
        case Stopped():
            return "run.cancelled"
        case UserSaid() | Summarised() | Undone():
            return None
        case _:
            assert_never(record)
