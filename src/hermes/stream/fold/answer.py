"""A turn's records as its answer and its usage."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.domain.turns.event import Entry, Finished, ModelSaid, Record, TurnEnd, UserSaid, usage_of
from hermes.domain.turns.thoughts import without_thoughts
from hermes.stream.fold.steps import was_cut


def _texts(entries: Iterable[Entry]) -> list[tuple[str, bool]]:
    """What the model said, reply by reply (cut replies joined), and whether calls followed it."""
    texts: list[tuple[str, bool]] = []
    continues = False
    for entry in entries:
        record = entry.record
        if isinstance(record, ModelSaid):
            text = without_thoughts(record.text)
            if continues:
                text = texts.pop()[0] + text
            texts.append((text, bool(record.calls)))
            continues = was_cut(record)
        elif isinstance(record, UserSaid):
            continues = False
    return texts


def answer_text(entries: Iterable[Entry], *, footer: bool = True) -> str:
    """The text of a turn for delivery: the model's last reply without calls, and under it the note or
    the reason of the end. Directives stay: whoever delivers acts on them."""
    entries = tuple(entries)
    answer = next((text.strip() for text, calls in reversed(_texts(entries)) if not calls), "")
    ends = [entry.record for entry in entries if isinstance(entry.record, TurnEnd)] if footer else []
    words = [end.note if isinstance(end, Finished) else end.reason for end in ends[-1:]]
    return "\n\n".join(part for part in (answer, *words) if part)


def chat_usage(records: Iterable[Record]) -> dict[str, object]:
    """What the model calls took, as chat completions tell it."""
    used = usage_of(records)
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.total,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    }


def usage_named(records: Iterable[Record], prompt: str, completion: str) -> dict[str, int]:
    """What the model calls took, under the names that a format has for it."""
    used = usage_of(records)
    return {prompt: used.prompt, completion: used.completion, "total_tokens": used.total}
