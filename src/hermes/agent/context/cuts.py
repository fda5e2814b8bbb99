"""Where a transcript may be cut so that it is told shorter: calls stay with their results, and what is behind
the cut stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hermes.agent.context.tokens import record_tokens, tokens_of
from hermes.domain.ids import CallId
from hermes.domain.turns.event import (
    Cleared,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Stopped,
    ToolFinished,
    UserSaid,
)
from hermes.domain.turns.transcript import MARKS
from hermes.domain.word import replace

_FEW = 8
_MESSAGES = (UserSaid, ModelSaid, ToolFinished)


class Tail(Struct, frozen=True, kw_only=True):
    """What stays: about so many tokens by our count and so many messages, or the last `turns`."""

    tokens: int
    messages: int
    turns: int | None = None

    @property
    def halved(self) -> Tail:
        return replace(self, tokens=self.tokens // 2, messages=self.messages // 2)


def find_cut(entries: Sequence[Entry], tail: Tail) -> int | None:
    """How many of the entries are before the cut; None if all of them stay. Marks stand in front."""
    whole = cuttable(entries)
    if tail.turns is not None:
        starts = [place for place, entry in enumerate(entries) if _begins_turn(entry)]
        if tail.turns >= len(starts):
            return None
        place = len(entries) if tail.turns == 0 else starts[-tail.turns]
        return _settled(entries, whole, place)
    tokens = messages = 0
    for place in range(len(entries), 0, -1):
        full = tokens >= tail.tokens and messages >= tail.messages
        over = tokens >= tail.tokens * 3 // 2 and messages >= min(tail.messages, _FEW)
        if (full or over) and whole[place - 1]:
            return _settled(entries, whole, place)
        tokens += record_tokens(entries[place - 1].record)
        messages += isinstance(entries[place - 1].record, _MESSAGES)
    return None


def _settled(entries: Sequence[Entry], whole: Sequence[bool], place: int) -> int | None:
    """The cut, if there is something before it that is not told in short already."""
    while place and not whole[place - 1]:
        place -= 1
    return place if any(isinstance(entry.record, _MESSAGES) for entry in entries[:place]) else None


def _begins_turn(entry: Entry) -> bool:
    return isinstance(entry.record, UserSaid) and not entry.record.steering


def cuttable(entries: Sequence[Entry]) -> list[bool]:
    """For each entry, whether one may cut behind it: no call waits for its result, and words of a person are
    not parted from the reply."""
    open_calls: set[CallId] = set()
    found = []
    for entry in entries:
        record = entry.record
        if isinstance(record, ModelSaid):
            open_calls = {call.id for call in record.calls}
        elif isinstance(record, ToolFinished):
            open_calls.discard(record.call)
        elif isinstance(record, Finished | Failed | Stopped):
            open_calls = set()
        found.append(not open_calls and not isinstance(record, UserSaid))
    return found


def clearing_gain(entries: Sequence[Entry], upto: int) -> int:
    """How many tokens fewer the entries take, by our count, once what is large up to `upto` is cleared."""
    if not entries:
        return 0
    mark = replace(entries[0], record=Cleared(upto=upto))
    return tokens_of(entries) - tokens_of([mark, *entries])


def without_marks(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if not isinstance(entry.record, MARKS)]
