"""Thoughts that models write into their replies, between tags: they are no answer and go into no later
prompt. Whoever is shown thoughts is shown these, too."""

from __future__ import annotations

import re
from typing import NamedTuple

from hermes.domain.safety.late_pattern import late_pattern

_REASONING = ("think", "thinking", "thought", "reasoning", "reasoning_scratchpad")
_TAGS = tuple(f"<{slash}{name}>" for slash in ("", "/") for name in _REASONING)
_MARK = late_pattern(rf"\n|<(/?)({'|'.join(_REASONING)})>|`{{3,}}|~{{3,}}", re.IGNORECASE | re.ASCII)
_SPECIAL = late_pattern(r"[<`~]")
_CLOSING = {name: late_pattern(f"</{name}>", re.IGNORECASE | re.ASCII) for name in _REASONING}
_OPEN_RUN = late_pattern(r"\s*(`+|~+)")


def _unfinished_tag(text: str, tags: tuple[str, ...]) -> int:
    """How many characters at the end may still grow into one of the tags."""
    at = text.rfind("<")
    tail = text[at:].lower() if at >= 0 else ""
    return len(text) - at if tail and any(tag.startswith(tail) for tag in tags) else 0


class ThoughtFilter:
    """Takes a model's words as they come and gives back those that are no reasoning; `take` gives the others.

    A block opens with a tag at the start of a line and ends with the same closing tag; a closing tag
    alone is dropped; code is left as it is. However the words are cut, the result is the same."""

    __slots__ = (
        "_begun", "_count", "_fence", "_first", "_fresh", "_gap", "_held", "_inside", "_last", "_swallow",
        "_thought",
    )  # fmt: skip

    def __init__(self) -> None:
        self._held = ""
        self._inside = ""
        self._fence = ""
        self._last = ""
        self._fresh = True
        self._swallow = False
        self._thought = ""
        self._gap = ""
        self._begun = False
        self._count = 0
        self._first: int | None = None

    @property
    def ahead(self) -> int:
        """How many characters were thought before the first word that is no empty line."""
        return self._count if self._first is None else self._first

    def take(self) -> str:
        """What was thought since the last time. Blocks are paragraphs."""
        thought, self._thought = self._thought, ""
        return thought

    def feed(self, text: str) -> str:
        if self._held or self._inside or self._swallow or _SPECIAL.search(text):
            return self._scan(self._held + text, final=False)
        if text:
            line = text.rpartition("\n")[2] if "\n" in text else text
            self._fresh = (self._fresh or line is not text) and (not line or line.isspace())
            self._last = text[-1]
            self._spoken(text)
        return text

    def close(self) -> str:
        """What was held back because it might have become a tag, and did not."""
        return self._scan(self._held, final=True)

    def _scan(self, text: str, *, final: bool) -> str:
        self._held = ""
        shown: list[str] = []
        while text:
            if self._inside:
                text = self._skip(text, final=final)
            else:
                words, text = self._pass(text, final=final)
                self._spoken(words)
                shown.append(words)
        return "".join(shown)

    def _skip(self, text: str, *, final: bool) -> str:
        closing = _CLOSING[self._inside].search(text)
        if closing is None:
            held = 0 if final else _unfinished_tag(text, (f"</{self._inside}>",))
            self._held = text[len(text) - held :]
            self._think(text[: len(text) - held])
            return ""
        self._think(text[: closing.start()])
        self._gap, self._begun = "\n\n" if self._begun else self._gap, False
        self._inside, self._fresh, self._swallow, self._last = "", True, True, ""
        return text[closing.end() :]

    def _spoken(self, words: str) -> None:
        if self._first is None and words.strip("\n"):
            self._first = self._count

    def _think(self, words: str) -> None:
        if not self._begun:
            words = words.lstrip()
            self._begun = bool(words)
            words = words and self._gap + words
        self._thought += words
        self._count += len(words)

    def _pass(self, text: str, *, final: bool) -> tuple[str, str]:
        """The words before the next change, and what comes after it."""
        if self._swallow:
            text = text.lstrip()
            self._swallow = not text
        begin, fresh = 0, self._fresh
        for mark in _MARK.finditer(text):
            start, end = mark.span()
            fresh = fresh and not text[begin:start].strip()
            begin = end
            before = text[start - 1] if start else self._last
            if mark[0] == "\n":
                fresh = True
                continue
            if mark[2] is None:
                if fresh and end == len(text) and not final:
                    begin = start
                    break
                if fresh:
                    self._meet_fence(mark[0])
            elif not self._fence and before != "`" and (mark[1] or fresh):
                self._inside = "" if mark[1] else mark[2].lower()
                self._fresh, self._swallow, self._last = fresh, fresh, ""
                return text[:start], text[end:]
            fresh = False
        tail = text[begin:]
        words = text if final else text[: len(text) - self._undecided(tail, fresh)]
        self._held = text[len(words) :]
        self._fresh = fresh and not words[begin:].strip()
        self._last = words[-1:] or self._last
        return words, ""

    def _undecided(self, tail: str, fresh: bool) -> int:
        run = _OPEN_RUN.fullmatch(tail) if fresh else None
        if run is not None:
            return len(run[1])
        return 0 if self._fence else _unfinished_tag(tail, _TAGS)

    def _meet_fence(self, run: str) -> None:
        if not self._fence:
            self._fence = run
        elif run.startswith(self._fence):
            self._fence = ""


class SplitReply(NamedTuple):
    """A reply's words for people, what it thinks between tags, and how many characters of that it thinks
    before its first word."""

    words: str
    thought: str
    ahead: int


def split_thoughts(text: str) -> SplitReply:
    if "<" not in text:
        return SplitReply(text, "", 0)
    words = ThoughtFilter()
    return SplitReply(words.feed(text) + words.close(), words.take(), words.ahead)


def without_thoughts(text: str) -> str:
    return split_thoughts(text).words
