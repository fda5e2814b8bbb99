"""How a turn is going, counted from its records and nowhere else, so that a resumed run decides as the first
one would have: replies, empty ones, cut ones, rounds of unusable calls, and calls that lead nowhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from hermes.domain.ids import CallId
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Asked,
    Ending,
    Entry,
    ModelSaid,
    QuestionKind,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from hermes.domain.turns.thoughts import without_thoughts

Deed = tuple[str, str, str]
"""A call by name and arguments, and what came of it, but for when and how long."""
_TIMES = re.compile(
    r"(?<!\d)\d{1,9}(?:[.,]\d{1,9})?\s?(?:ms|s|secs?|seconds?|min|minutes?)\b"
    r"|(?<!\d)\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
)
"""Durations and times of day; no repetition without an end, since a text of anybody's is searched."""


def is_empty(reply: ModelSaid) -> bool:
    """A reply that neither says nor does anything, whatever was thought."""
    return not reply.calls and not without_thoughts(reply.text).strip()


class TurnProgress(Struct, kw_only=True):
    """`empty`, `cuts` and `unusable` count replies in a row, up to the last. `repeats` says how often the
    call `repeated` was made with the same result while nothing new happened. `failures` counts calls, by name
    and arguments, that failed or whose program did, and `tool_failures` tools that failed since something new
    was last done. `since_client` counts the replies since the client's functions were last asked for."""

    replies: int = 0
    since_client: int = 0
    last: ModelSaid | None = None
    empty: int = 0
    cuts: int = 0
    unusable: int = 0
    repeats: int = 0
    repeated: str = ""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    tool_failures: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)
    _calls: dict[CallId, ToolCall] = field(default_factory=dict)
    """Those of the last reply, until each has a result."""
    _taken_up: bool = False
    _results: dict[CallId, ToolFinished] = field(default_factory=dict)
    _deeds: set[CallId] = field(default_factory=set)
    """Calls that were started and do more than read."""
    _ever: set[Deed] = field(default_factory=set)
    _again: Counter[Deed] = field(default_factory=Counter)

    def see(self, entry: Entry) -> None:
        record = entry.record
        if isinstance(record, ModelSaid):
            self.hear(record)
        elif isinstance(record, UserSaid):
            self.empty = self.cuts = 0
        elif not self._calls:
            return
        elif isinstance(record, ToolStarted | Asked):
            self._taken_up = True
            if isinstance(record, ToolStarted) and record.effect is not Effect.READ:
                self._deeds.add(record.call)
            if isinstance(record, Asked) and record.kind is QuestionKind.CLIENT_TOOL:
                self.since_client = 0
        elif isinstance(record, ToolFinished):
            self._results[record.call] = record
            if len(self._results) == len(self._calls):
                self._settle()

    def hear(self, reply: ModelSaid) -> None:
        self.replies += 1
        self.since_client += 1
        self.last = reply
        self.ids.update(call.id for call in reply.calls)
        self.empty = self.empty + 1 if is_empty(reply) else 0
        cut = not reply.calls and reply.ending is Ending.LENGTH and not self.empty
        self.cuts = self.cuts + 1 if cut else 0
        if reply.calls:
            self._calls, self._taken_up, self._results = {call.id: call for call in reply.calls}, False, {}

    def _settle(self) -> None:
        calls, self._calls = self._calls, {}
        self.unusable = 0 if self._taken_up else self.unusable + 1
        deeds = {id: self._deed(call) for id, call in calls.items()}
        new = {id for id, deed in deeds.items() if deed not in self._ever}
        for call in calls.values():
            self._count_failure(call, call.id in new & self._deeds)
        if new:
            self._again.clear()
        self._ever.update(deeds.values())
        self._again.update(set(deeds.values()))
        (most, self.repeats) = self._again.most_common(1)[0]
        self.repeated = most[0]

    def _deed(self, call: ToolCall) -> Deed:
        return call.name, call.arguments, _TIMES.sub("", self._results[call.id].text)

    def _count_failure(self, call: ToolCall, changed: bool) -> None:
        """What was done anew may have changed why something failed, so that counts anew; but a call whose
        program failed is no reason to make it again."""
        result, place = self._results[call.id], (call.name, call.arguments)
        times = self.failures.pop(place, 0) + 1
        if result.failed:
            self.tool_failures[call.name] += 1
        elif changed:
            self.failures.clear()
            self.tool_failures.clear()
        else:
            self.tool_failures.pop(call.name, None)
        if result.failed or result.ended_badly:
            self.failures[place] = times


def read_progress(entries: Sequence[Entry]) -> TurnProgress:
    progress = TurnProgress()
    for entry in entries:
        progress.see(entry)
    return progress
