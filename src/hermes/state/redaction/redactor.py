"""Texts without secrets: whole, or as they come in pieces.

Loaded values are always taken out, what only looks like a secret if the settings say so. A text that comes in
pieces is let through at once, but for an end in which a secret may have begun: it waits for what follows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hermes.domain.settings.declaring import STAND_IN
from hermes.state.redaction.patterns import LONGEST, may_go_on, pattern_spans
from hermes.state.redaction.runs import Span
from hermes.state.redaction.values import START, LoadedValues

_CONTEXT = 96
"""So much of what was let through is remembered: the name of a secret stands before it."""
_SMALL = 256
_MOST_REMEMBERED = 128
_LONGEST_REMEMBERED = 16_384
"""Texts in which nothing was found are remembered: the same words pass here on every step of their way, and a
system prompt with each session."""
_LONGEST_SPELLING = 2048
_LONG_HELD = 2048
_SHARE = 8
"""What is held is looked at again once an eighth of it has come: each sign is read a few times, however small
the pieces are."""
_BREAK = re.compile(r"[^!#-&(-_a-~]")
_SUSPECT = re.compile(r"[!#-&(-_a-~]{8}|[:=>][ \t]{0,4}\S|(?i:bearer|basic|cookie|pass|\bis)[ \t]")


class Redactor:
    """`patterns` says whether what looks like a secret is taken out too; it may change any time."""

    __slots__ = ("_plain", "_plain_for", "patterns", "values")

    def __init__(self, values: LoadedValues, *, patterns: bool) -> None:
        self.values = values
        self.patterns = patterns
        self._plain: dict[str, None] = {}
        self._plain_for: object = None

    def redact(self, text: str) -> str:
        return splice(text, self.spans(text)) if text else text

    def conceal(self, text: str) -> str:
        """Without loaded values alone: for words that are passed on as somebody wrote them."""
        version = self.values.version
        if self._plain_for is not version:
            self._plain, self._plain_for = {}, version
        plain = self._plain
        if not text or text in plain:
            return text
        if spans := self.values.spans(text):
            return splice(text, spans)
        if len(text) <= _LONGEST_REMEMBERED:
            if len(plain) >= _MOST_REMEMBERED:
                plain.clear()
            plain[text] = None
        return text

    def spans(self, text: str) -> list[Span]:
        spans = self.values.spans(text)
        return spans + pattern_spans(text) if self.patterns else spans

    def stream(self) -> RedactedStream:
        return RedactedStream(self)


class RedactedStream:
    """One text that comes in pieces: `take` gives what may be shown by now, `close` what is left."""

    __slots__ = ("_held", "_new", "_new_size", "_redactor", "_shown")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._shown = ""
        self._held = ""
        self._new: list[str] = []
        self._new_size = 0

    def take(self, text: str) -> str:
        if not text:
            return ""
        if self._held and len(self._held) >= START:
            self._new.append(text)
            self._new_size += len(text)
            ends = len(self._held) < _LONG_HELD and _BREAK.search(text) is not None
            if self._new_size * _SHARE < len(self._held) and not ends:
                return ""
            text = self._taken()
        whole, start = self._shown + self._held + text, len(self._shown)
        if len(self._held) < START and self._is_plain(whole, start, len(text)):
            end = max(start, len(whole) - self._redactor.values.led_to(whole))
            self._shown, self._held = whole[:end][-_CONTEXT:], whole[end:]
            return whole[start:end]
        spans = self._redactor.spans(whole)
        end = len(whole) if len(whole) - start > LONGEST else self._end(whole, start, spans)
        self._shown, self._held = whole[:end][-_CONTEXT:], whole[end:]
        return splice(whole, spans, start, end)

    def _taken(self) -> str:
        text, self._new, self._new_size = "".join(self._new), [], 0
        return text

    def close(self, *, cut: bool = False) -> str:
        """The last of it: nothing follows that could make a secret of it. If it was `cut` off, what may be
        the beginning of a value is left out."""
        whole, start = self._shown + self._held + self._taken(), len(self._shown)
        self._shown = self._held = ""
        if start >= len(whole):
            return ""
        since = max(0, start - START + 1, len(whole) - _LONGEST_SPELLING)
        end = self._redactor.values.open_from(whole, since) if cut else len(whole)
        return splice(whole, self._redactor.spans(whole), start, end)

    def _is_plain(self, whole: str, start: int, size: int) -> bool:
        """Whether a short piece has neither a part of a secret nor the beginning of one."""
        values = self._redactor.values
        if size > _SMALL or values.begins_in(whole, start):
            return False
        return not self._redactor.patterns or _SUSPECT.search(whole, max(0, start - 12)) is None

    def _end(self, whole: str, start: int, spans: Iterable[Span]) -> int:
        """Up to where a text is settled, whatever follows."""
        since = max(0, start - START + 1, len(whole) - _LONGEST_SPELLING)
        end = self._redactor.values.open_from(whole, since)
        end = min(end, len(whole) - self._redactor.values.led_to(whole))
        if self._redactor.patterns:
            end = min(end, may_go_on(whole))
        # A secret that reaches the end may be longer than what is there by now.
        for first, last in sorted(spans, reverse=True):
            if last >= end > first or last == len(whole):
                end = min(end, first)
        return max(start, end)


def splice(text: str, spans: list[Span], start: int = 0, end: int | None = None) -> str:
    """The part of a text from `start` to `end`, with the stand-in in place of these parts."""
    end = len(text) if end is None else end
    if start >= end:
        return ""
    if spans and STAND_IN in text:
        size = len(STAND_IN)  # what is hidden stays hidden, though a value were a part of the stand-in
        spans = [span for span in spans if text.find(STAND_IN, max(0, span[1] - size), span[0] + size) < 0]
    parts: list[str] = []
    at = start
    for first, last in sorted(spans):
        if last <= at or first >= end:
            continue
        if first > at or not parts:
            parts += (text[at : max(first, at)], STAND_IN)
        at = min(last, end)
    return "".join((*parts, text[at:end])) if parts else text[start:end]
