"""What a chat shows of a turn, from the settings of all, of its platform and of its session; and an answer
with what the model thought above it and what it took below."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from hermes.domain.chats.address import Address
from hermes.domain.models.manner import NO_MANNER, Manner
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.settings.manner import PlatformDisplay
from hermes.domain.settings.settings import Settings, StreamingSettings
from hermes.domain.turns.event import Entry, ModelSaid, usage_of
from hermes.domain.word import replace
from hermes.stream.fold.steps import thoughts_of
from hermes.stream.fold.tool_lines import ProgressLevel

_MOST_LINES = 15
_AS_FOR_ALL = PlatformDisplay()


class ChatDisplay(Struct, frozen=True, kw_only=True):
    progress: ProgressLevel = ProgressLevel.ALL
    preview: int = 0
    interim: bool = True
    thoughts: bool = False
    thoughts_full: bool = False
    footer: bool = False
    streaming: StreamingSettings = StreamingSettings()


def display_for(settings: Settings, to: Address, manner: Manner | None = None) -> ChatDisplay:
    """The session's word counts first, then that of the account or platform, then that for all."""
    display, own = settings.display, manner or NO_MANNER
    platforms = display.platforms
    here = platforms.get(to.credential) or platforms.get(to.platform) or _AS_FOR_ALL
    streaming, wanted = settings.streaming, _first(here.streaming, display.streaming)
    return ChatDisplay(
        progress=ProgressLevel(own.progress or here.tool_progress or display.tool_progress),
        preview=_first(here.tool_preview_length, display.tool_preview_length) or 0,
        interim=bool(_first(here.interim_assistant_messages, display.interim_assistant_messages)),
        thoughts=bool(_first(own.thoughts, here.show_reasoning, display.show_reasoning)),
        thoughts_full=bool(_first(own.full, here.reasoning_full, display.reasoning_full)),
        footer=bool(_first(own.footer, here.runtime_footer, display.runtime_footer.enabled)),
        streaming=streaming if wanted is None else replace(streaming, enabled=bool(wanted)),
    )


def _first(*said: int | None) -> int | None:
    return next((word for word in said if word is not None), None)


def dress_answer(text: str, entries: Sequence[Entry], shown: ChatDisplay, footer: str) -> str:
    """An answer as a chat shows it; one that says nothing stays as it is."""
    if not text:
        return text
    above = _thoughts(entries, full=shown.thoughts_full) if shown.thoughts else ""
    return "\n\n".join(part for part in (above, text, footer if shown.footer else "") if part)


def _thoughts(entries: Sequence[Entry], *, full: bool) -> str:
    replies = [entry.record for entry in entries if isinstance(entry.record, ModelSaid)]
    lines = "\n".join(filter(None, map(thoughts_of, replies))).strip().splitlines()
    if not lines:
        return ""
    left_out = 0 if full else max(len(lines) - _MOST_LINES, 0)
    shown = [f"… {left_out} earlier lines", *lines[left_out:]] if left_out else lines
    return "\n".join(f"> {line}" for line in ("💭", *shown))


def _count(tokens: int) -> str:
    return str(tokens) if tokens < 10_000 else f"{tokens / 1000:.0f}k"


def footer_line(
    fields: Sequence[str], entries: Sequence[Entry], facts: Callable[[str], ModelFacts], folder: str
) -> str:
    """What is known of a turn, in one line."""
    replies = [entry.record for entry in entries if isinstance(entry.record, ModelSaid)]
    if not replies:
        return ""
    last, used = replies[-1], usage_of(entry.record for entry in entries)
    most, filled = facts(last.model).window, last.usage.total
    told = {
        "model": last.model,
        "context_pct": f"{100 * filled / most:.0f} % of the window" if most and filled else "",
        "tokens": f"{_count(used.prompt)} in, {_count(used.completion)} out" if used.total else "",
        "cost": f"${used.cost:.4f}" if used.cost else "",
        "cwd": folder,
    }
    return " · ".join(told[name] for name in fields if told.get(name))
