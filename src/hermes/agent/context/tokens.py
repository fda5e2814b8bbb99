"""How many tokens a prompt has: counted from characters, and corrected by what the model last counted itself.

Of a warm session only what is new is counted, so that a long one costs no more than a short one. A summary,
a clearing or an undoing changes what is told, so everything is counted anew after it, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.agent.context.transcript_messages import CLEARED_ARGUMENTS, CLEARED_OVER, is_image
from hermes.domain.chats.message import Attachment
from hermes.domain.tools.tool import Tool
from hermes.domain.turns.event import Cleared, Entry, ModelSaid, Record, Summarised, ToolFinished, UserSaid
from hermes.domain.turns.transcript import MARKS, visible

IMAGE_TOKENS = 1500
CHARS = 4
"""Of a token, about."""
_AROUND = 4
"""What a message takes beside its words."""
_NOTE = 25
_KEY = "tokens"
_RATIOS = (0.5, 4.0)
"""How far the model's own count may be from ours before it is not believed."""


class _Count(Struct, kw_only=True):
    """What was counted of a transcript: up to its entry `last`, `total` tokens by our count. The model said
    that it were `real` (with the fixed part) when ours was `at`; `ratio` is how far ours was off before."""

    count: int = 0
    last: Entry | None = None
    total: int = 0
    real: int = 0
    at: int = 0
    ratio: float = 1.0


def prompt_tokens(entries: Sequence[Entry], memory: dict[str, object], fixed: Callable[[], int]) -> int:
    """The size of the next prompt of a transcript, with what is `fixed`: the system prompt and the tools."""
    kept = memory.get(_KEY)
    count = kept if isinstance(kept, _Count) else _Count()
    if count.count > len(entries) or (count.count and entries[count.count - 1] is not count.last):
        count = _Count(ratio=count.ratio)
    start = count.count
    for place in range(len(entries) - 1, start - 1, -1):
        if isinstance(entries[place].record, MARKS):
            if count.real:
                low, high = _RATIOS
                count.ratio = min(max(count.real / max(fixed() + count.at, 1), low), high)
            start, count.real = place + 1, 0
            count.total = tokens_of(visible(entries[:start]))
            break
    for entry in entries[start:]:
        tokens = record_tokens(entry.record)
        count.total += tokens
        if isinstance(entry.record, ModelSaid) and entry.record.usage.prompt:
            count.real, count.at = entry.record.usage.prompt + tokens, count.total
    count.count, count.last = len(entries), entries[-1] if entries else None
    memory[_KEY] = count
    if count.real:
        return count.real + count.total - count.at
    return int((fixed() + count.total) * count.ratio)


def with_new(size: int, new: Iterable[Entry]) -> int:
    """The size of a prompt with further entries."""
    for entry in new:
        tokens = record_tokens(entry.record)
        said = entry.record if isinstance(entry.record, ModelSaid) else None
        size = (said.usage.prompt if said is not None and said.usage.prompt else size) + tokens
    return size


def tokens_of(entries: Iterable[Entry]) -> int:
    """Our count of entries of which nothing is hidden."""
    cleared, total = -1, 0
    for entry in entries:
        if isinstance(entry.record, Cleared):
            cleared = max(cleared, entry.record.upto)
        total += record_tokens(entry.record, cleared=entry.seq <= cleared)
    return total


def record_tokens(record: Record, *, cleared: bool = False) -> int:
    match record:
        case UserSaid():
            chars = len(record.text) + len(record.context)
            return _AROUND + chars // CHARS + _attached(record.attachments, cleared)
        case ModelSaid():
            given = sum(len(call.name) + _told(len(call.arguments), cleared) for call in record.calls)
            kept = 0 if record.kept is None else len(record.kept.text)
            return _AROUND + (len(record.text) + given + kept) // CHARS
        case ToolFinished():
            told = 100 if cleared and len(record.text) > CLEARED_OVER else len(record.text)
            return _AROUND + told // CHARS + _attached(record.attachments, cleared)
        case Summarised():
            parts = (record.text, record.opening, record.request, record.plan)
            return _AROUND + sum(map(len, (*parts, *record.files, *record.results))) // CHARS + 100
        case _:
            return 0


def _told(chars: int, cleared: bool) -> int:
    return min(chars, CLEARED_ARGUMENTS) if cleared else chars


def _attached(files: Sequence[Attachment], cleared: bool) -> int:
    return sum(
        IMAGE_TOKENS if is_image(file) and not cleared else _NOTE + len(file.text) // CHARS for file in files
    )


def fixed_tokens(system: str, tools: Iterable[Tool]) -> int:
    """What the system prompt and the schemas of tools take."""
    schemas = sum(len(tool.name) + len(tool.description) + _size(tool.parameters) for tool in tools)
    return (len(system) + schemas) // CHARS


def _size(schema: Mapping[str, object]) -> int:
    return len(str(schema))
