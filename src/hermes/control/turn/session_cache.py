"""Warm sessions: transcripts (and what the agent keeps with them) of the sessions that spoke last, up to a
number of bytes. Losing one costs a read, nothing else."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from hermes.domain.event import Entry, ModelSaid, ToolFinished, UserSaid
from hermes.domain.ids import SessionId

_RECORD_BYTES = 700
_SESSION_BYTES = 500
_WORTH_KEEPING = 32


@dataclass(slots=True, kw_only=True)
class WarmSession:
    """`born` is when the session was begun, once known: a later one of the same name is another session."""

    records: list[Entry] = field(default_factory=list)
    memory: dict[str, object] = field(default_factory=dict)
    bytes: int = _SESSION_BYTES
    born: datetime | None = None

    def add(self, entries: list[Entry]) -> None:
        self.records.extend(entries)
        self.bytes += sum(map(weigh, entries))


def weigh(entry: Entry) -> int:
    """Roughly what an entry takes in memory; prompts double the text."""
    record = entry.record
    size = _RECORD_BYTES
    if isinstance(record, UserSaid | ModelSaid | ToolFinished):
        size += 2 * len(record.text)
    return size


class WarmSessions:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: OrderedDict[SessionId, WarmSession] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def bytes(self) -> int:
        return self._bytes

    def take(self, session: SessionId) -> WarmSession | None:
        """Take a session out; whoever has it owns it."""
        warm = self._sessions.pop(session, None)
        if warm is not None:
            self._bytes -= warm.bytes
        return warm

    def keep(self, session: SessionId, warm: WarmSession) -> None:
        self.take(session)
        if warm.bytes > self._limit:
            return
        if len(warm.records) < _WORTH_KEEPING:
            # What little there is of it is told anew in no time.
            warm.memory.clear()
        self._sessions[session] = warm
        self._bytes += warm.bytes
        while self._bytes > self._limit:
            _, oldest = self._sessions.popitem(last=False)
            self._bytes -= oldest.bytes
