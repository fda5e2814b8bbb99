"""What is visible of a transcript, and what is asked of all of it again and again. Of a warm session only
what is new is looked at, until a record changes what is visible: then everything is, once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from hermes.agent.context.transcript_messages import notes_of
from hermes.domain.safety.outside import is_foreign
from hermes.domain.turns.event import Entry, ToolFinished, UserSaid
from hermes.domain.turns.transcript import MARKS, visible

_KEY = "shown"


class ShownTranscript(Struct, kw_only=True):
    """The visible `entries`; who speaks in them, which notes of people they name, whether some have files,
    and whether some came from outside. Whoever keeps `entries` for longer than a moment copies them."""

    count: int = 0
    last: Entry | None = None
    entries: list[Entry] = field(default_factory=list)
    authors: set[str] = field(default_factory=set)
    notes: set[int] = field(default_factory=set)
    has_files: bool = False
    foreign: bool = False

    def leads_to(self, transcript: Sequence[Entry]) -> bool:
        if self.count > len(transcript) or (self.count and transcript[self.count - 1] is not self.last):
            return False
        new = (transcript[place] for place in range(self.count, len(transcript)))
        return not any(isinstance(entry.record, MARKS) for entry in new)

    def take(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            record = entry.record
            self.entries.append(entry)
            self.foreign = self.foreign or is_foreign(entry)
            if isinstance(record, UserSaid):
                self.notes.update(notes_of(record))
                if record.author:
                    self.authors.add(record.author)
            if isinstance(record, UserSaid | ToolFinished) and record.attachments:
                self.has_files = True


def shown(transcript: Sequence[Entry], memory: dict[str, object]) -> ShownTranscript:
    """`memory` is `Run.memory`."""
    kept = memory.get(_KEY)
    if isinstance(kept, ShownTranscript) and kept.leads_to(transcript):
        kept.take(transcript[kept.count :])
    else:
        kept = memory[_KEY] = ShownTranscript()
        kept.take(visible(transcript))
    kept.count, kept.last = len(transcript), transcript[-1] if transcript else None
    return kept
