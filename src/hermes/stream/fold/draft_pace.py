"""When the draft of a turn is posted and edited, and how it looks while it grows.

The pace knows no clock: monotonic time is passed in. The splitter decides how long a message may be."""

from __future__ import annotations

from hermes.domain.chats.address import SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.settings.settings import StreamingSettings

_LONGEST_INTERVAL = 10.0
_MOST_FLOODS = 3
_FIRST_CHARS = 4


def draft_text(text: str, cursor: str) -> str:
    """An unfinished text with its cursor. A closing fence keeps its line for itself, or the cursor
    would open the code again."""
    text = text.rstrip()
    if not text or not cursor:
        return text
    on_fence = text.rpartition("\n")[2].lstrip().startswith(("```", "~~~"))
    return f"{text}\n{cursor.lstrip()}" if on_fence else text + cursor


class DraftPace:
    """When the draft of one turn is posted and edited.

    Two edits are never closer than the interval. A change of fewer characters than the threshold
    waits one interval longer for company. A platform that says "too fast" doubles the interval; after
    the third time the draft is left as it is, and only the final goes out. With `keep` it is no message but a
    preview, which has to be shown again after so many seconds."""

    __slots__ = ("_floods", "_last", "_not_before", "_shown", "cursor", "interval", "keep", "threshold")

    def __init__(
        self, interval: float = 0.8, threshold: int = 24, cursor: str = " ▉", keep: float = 0.0
    ) -> None:
        self.interval = interval
        self.threshold = threshold
        self.cursor = cursor
        self.keep = keep
        self._shown = ""
        self._last = 0.0
        self._not_before = float("-inf")
        self._floods = 0

    @property
    def given_up(self) -> bool:
        return self._floods >= _MOST_FLOODS

    def wait(self, now: float, text: str) -> float | None:
        """Seconds until this text is due, 0 for now; None if there is nothing to do about it."""
        text = text.rstrip()
        if self.given_up or not text:
            return None
        if text == self._shown:
            return max(0.0, self._last + self.keep - now, self._not_before - now) if self.keep else None
        if not self._shown:
            enough = len("".join(text.split())) >= _FIRST_CHARS
            return max(0.0, self._not_before - now) if enough else None
        added = len(text) - len(self._shown)
        small = 0 <= added < self.threshold and text.startswith(self._shown)
        due = self._last + self.interval * (2 if small else 1)
        return max(0.0, due - now, self._not_before - now)

    def shown(self, now: float, text: str) -> None:
        """The platform took this text."""
        self._shown = text.rstrip()
        self._last = now

    def flooded(self, now: float, after: float | None = None) -> None:
        """The platform refused an edit because they come too fast; it may have told how long to wait."""
        self._floods += 1
        self.interval = max(self.interval, min(self.interval * 2, _LONGEST_INTERVAL))
        self._not_before = now + max(self.interval, after or 0.0)


def is_streamed(settings: StreamingSettings, platform: Capabilities) -> bool:
    return settings.enabled and settings.transport != "off" and platform.edit_interval is not None


def draft_pace(settings: StreamingSettings, platform: Capabilities, kind: SourceKind) -> DraftPace | None:
    """The pace for a chat of a kind, never faster than its platform takes edits; None if drafts are not
    shown."""
    if not is_streamed(settings, platform):
        return None
    slower = 0.0 if kind is SourceKind.PRIVATE else platform.group_edit_interval
    interval = max(settings.edit_interval, platform.edit_interval or 0.0, slower)
    if kind is SourceKind.PRIVATE and platform.preview_seconds and settings.transport in ("auto", "draft"):
        return DraftPace(interval, settings.buffer_threshold, "", platform.preview_seconds)
    return DraftPace(interval, settings.buffer_threshold, settings.cursor if platform.draft_cursor else "")
