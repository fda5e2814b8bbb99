"""The line that is being written: its text, the cursor, and earlier lines, which a file of the home keeps.
Knows keys, draws nothing itself."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from hermes.domain.text import showable, width
from hermes.entry.terminal.keyboard import NamedKey, Press, TypedText

MOST = 4_000_000
"""Characters a line may have; what is written beyond them is counted and not kept."""
_WORD_BEFORE = re.compile(r"\S*\s*\Z")
_WORD_AFTER = re.compile(r"\s*\S*")
_KEPT = 1_000
_LONGEST = 10_000
_MOST_BYTES = 4_000_000


class LineEnd(StrEnum):
    """Why a line ended."""

    SENT = "sent"
    LEFT = "left"


class Editor:
    def __init__(self, history: Sequence[str] = (), names: Sequence[str] = ()) -> None:
        self._history = list(history)
        self._names = names
        self._at = len(self._history)
        self._unsent = ""
        self.text = ""
        self.place = 0
        self.lost = 0

    def press(self, press: Press) -> LineEnd | None:
        if isinstance(press, TypedText):
            self._insert(press.text)
        elif press is NamedKey.ENTER and not self.text[: self.place].endswith("\\"):
            return LineEnd.SENT
        elif press is NamedKey.EOF and not self.text:
            return LineEnd.LEFT
        elif press is NamedKey.ENTER:
            # A backslash before Enter goes on in a new line.
            self._cut(self.place - 1, self.place)
            self._insert("\n")
        elif press in (NamedKey.UP, NamedKey.DOWN):
            self._recall(-1 if press is NamedKey.UP else 1)
        elif press is NamedKey.NEWLINE:
            self._insert("\n")
        elif press is NamedKey.COMPLETE:
            self._complete()
        else:
            self._edit(press)
        return None

    def take(self) -> str:
        """The line, and an empty one in its place."""
        text = self.text
        self.put("")
        self._at = len(self._history)
        return text

    def put(self, text: str) -> None:
        self.text, self.place, self.lost = text, len(text), 0

    def remember(self, line: str) -> None:
        if line.strip() and self._history[-1:] != [line]:
            self._history.append(line)
        self._at = len(self._history)

    def row(self, room: int) -> tuple[str, int]:
        """What of the line fits into one row around the cursor, and the cursor's column in it."""
        left = _shown(self.text[max(0, self.place - room) : self.place])
        while width(left) > max(room - 1, 0):
            left = left[1:]
        right = _shown(self.text[self.place : self.place + room])
        while width(left) + width(right) > room:
            right = right[:-1]
        return left + right, width(left)

    # --- keys ---

    def _insert(self, text: str) -> None:
        spare = MOST - len(self.text)
        kept = text[: max(spare, 0)]
        self.lost += len(text) - len(kept)
        self.text = self.text[: self.place] + kept + self.text[self.place :]
        self.place += len(kept)

    def _cut(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.place = start

    def _edit(self, key: NamedKey) -> None:
        at, end = self.place, len(self.text)
        before, after = self._word_before(), self._word_after()
        cuts = {
            NamedKey.BACKSPACE: (max(at - 1, 0), at),
            NamedKey.DELETE: (at, min(at + 1, end)),
            NamedKey.EOF: (at, min(at + 1, end)),
            NamedKey.KILL_LEFT: (0, at),
            NamedKey.KILL_RIGHT: (at, end),
            NamedKey.KILL_WORD: (before, at),
        }
        moves = {
            NamedKey.LEFT: max(at - 1, 0),
            NamedKey.RIGHT: min(at + 1, end),
            NamedKey.WORD_LEFT: before,
            NamedKey.WORD_RIGHT: after,
            NamedKey.HOME: 0,
            NamedKey.END: end,
        }
        if key in cuts:
            self._cut(*cuts[key])
        else:
            self.place = moves.get(key, at)

    def _word_before(self) -> int:
        near = max(0, self.place - 1000)
        found = _WORD_BEFORE.search(self.text[near : self.place])
        return self.place if found is None else near + found.start()

    def _word_after(self) -> int:
        found = _WORD_AFTER.match(self.text, self.place)
        return self.place if found is None else found.end()

    def _recall(self, step: int) -> None:
        wanted = self._at + step
        if not 0 <= wanted <= len(self._history):
            return
        if self._at == len(self._history):
            self._unsent = self.text
        self._at = wanted
        self.put(self._unsent if wanted == len(self._history) else self._history[wanted])

    def _complete(self) -> None:
        if not self.text.startswith("/") or " " in self.text:
            self._insert("\t")
            return
        fitting = [name for name in self._names if name.startswith(self.text[1:])]
        if len(fitting) == 1:
            self.put(f"/{fitting[0]} ")


def _shown(text: str) -> str:
    return showable(text.replace("\n", "⏎").replace("\t", " "))


class LineHistory:
    """Lines that were written before. A file that cannot be used stops nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - _MOST_BYTES))
                rows = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [line for line in map(_line, rows[-_KEPT:]) if line]

    def add(self, line: str) -> None:
        """One row of JSON a line, so that a line with line breaks stays one."""
        if self._path is None or not line.strip() or len(line) > _LONGEST:
            return
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(line).encode() + b"\n")


def _line(row: str) -> str:
    try:
        line = json.loads(row)
    except ValueError:
        return ""
    return line if isinstance(line, str) else ""
