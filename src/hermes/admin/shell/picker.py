"""Choosing from a list at a terminal: with arrow keys, by typing a part of a name, or, where the terminal can
do less, by number. One `Picker` lives for one question; it leaves the terminal as it found it, also when it
is interrupted or suspended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from hermes.admin.shell.output import CliConsole, cut_to
from hermes.domain.errors import UserError
from hermes.domain.text import one_line, showable
from hermes.entry.terminal.keyboard import KeyReader, NamedKey, Press, TypedText

_MOST_ROWS = 14
_MOST_LISTED = 60
_KEYS = "↑↓ move · type to search · Enter chooses · Esc leaves"
_MANY_KEYS = "↑↓ move · Space switches · type to search · Enter saves · Esc leaves"
NOTHING = "Nothing was changed."


class PickOption(Struct, frozen=True, kw_only=True):
    """Something to choose, by its `key`."""

    key: str
    label: str = ""
    detail: str = ""
    on: bool = False

    @property
    def text(self) -> str:
        shown = self.label or self.key
        return one_line(f"{shown}  ({self.detail})" if self.detail else shown, 300)


def pick(console: CliConsole, title: str, options: Sequence[PickOption], *, free: bool = False) -> str:
    """The key of one option; with `free`, also words that fit none. Whoever leaves gets a `UserError`."""
    if is_capable(console):
        return Picker(console, title, options, free=free).one()
    _list(console, title, options)
    while True:
        answer = console.ask("Its number or name:")
        if not answer:
            raise UserError(NOTHING)
        key = _meant(answer, options)
        if key or free:
            return key or answer
        console.line(f"There is no “{one_line(answer, 60)}” in the list.")


def pick_many(console: CliConsole, title: str, options: Sequence[PickOption]) -> set[str]:
    """The keys of all that are to be on."""
    if is_capable(console):
        return Picker(console, title, options, many=True).several()
    on = {option.key for option in options if option.on}
    while True:
        _list(console, title, [PickOption(**_fields(one, one.key in on)) for one in options], many=True)
        answer = console.ask("Switch which? Numbers or names, with commas; Enter saves:")
        if not answer:
            return on
        for word in answer.split(","):
            key = _meant(word.strip(), options)
            if not key:
                console.line(f"There is no “{one_line(word, 60)}” in the list.")
            on ^= {key} if key else set()


def is_capable(console: CliConsole) -> bool:
    """Whether a list can be drawn and drawn again."""
    return console.interactive and console.draws


def _fields(option: PickOption, on: bool) -> dict[str, Any]:
    return {"key": option.key, "label": option.label, "detail": option.detail, "on": on}


def _list(console: CliConsole, title: str, options: Sequence[PickOption], *, many: bool = False) -> None:
    console.line(title)
    for number, option in enumerate(options[:_MOST_LISTED], 1):
        mark = f"[{'x' if option.on else ' '}] " if many else ""
        console.line(f"{number:3}. {mark}{option.text}")
    if len(options) > _MOST_LISTED:
        console.line(f"     and {len(options) - _MOST_LISTED} more")


def _meant(answer: str, options: Sequence[PickOption]) -> str:
    if answer.isascii() and answer.isdigit() and 1 <= int(answer[:6]) <= len(options):
        return options[int(answer[:6]) - 1].key
    named = [one.key for one in options if answer.lower() in (one.key.lower(), one.label.lower())]
    return named[0] if named else ""


class Picker:
    """A list that is drawn on stderr below the cursor, and taken away again."""

    def __init__(
        self,
        console: CliConsole,
        title: str,
        options: Sequence[PickOption],
        *,
        many: bool = False,
        free: bool = False,
    ) -> None:
        self._console = console
        self._title = title
        self._options = options
        self._many = many
        self._free = free
        self._on = {option.key for option in options if option.on}
        self._typed = ""
        self._at = 0
        self._drawn = 0

    def one(self) -> str:
        with self._terminal():
            for press in self._presses():
                if press is NamedKey.ENTER and (shown := self._shown()):
                    self._end(shown[self._at].label or shown[self._at].key)
                    return shown[self._at].key
                if press is NamedKey.ENTER and self._free and self._typed.strip():
                    self._end(self._typed)
                    return self._typed.strip()
                self._take(press)
        raise UserError(NOTHING)

    def several(self) -> set[str]:
        with self._terminal():
            for press in self._presses():
                if press is NamedKey.ENTER:
                    self._end(f"{len(self._on)} of {len(self._options)}")
                    return self._on
                self._take(press)
        raise UserError(NOTHING)

    # --- what is pressed

    def _presses(self) -> Iterator[Press]:
        """Until Esc, or until the terminal is closed."""
        reader, keys = KeyReader(), sys.stdin.fileno()
        self._draw()
        while True:
            ready = not reader.is_unsure or select.select([keys], [], [], 0.1)[0]
            data = os.read(keys, 4096) if ready else b""
            if ready and not data:
                return
            for press in reader.feed(data) if ready else reader.give_up():
                if press in (NamedKey.ESCAPE, NamedKey.EOF):
                    return
                yield press
            self._draw()

    def _take(self, press: Press) -> None:
        shown = self._shown()
        match press:
            case NamedKey.UP | NamedKey.DOWN:
                step = 1 if press is NamedKey.DOWN else -1
                self._at = (self._at + step) % len(shown) if shown else 0
            case NamedKey.HOME | NamedKey.END:
                self._at = 0 if press is NamedKey.HOME else max(len(shown) - 1, 0)
            case NamedKey.BACKSPACE:
                self._typed, self._at = self._typed[:-1], 0
            case NamedKey.KILL_LEFT:
                self._typed, self._at = "", 0
            case TypedText(text=" ") if self._many and shown:
                self._on ^= {shown[self._at].key}
            case TypedText(text=text):
                self._typed, self._at = (self._typed + text)[:80], 0
            case _:
                return

    def _shown(self) -> list[PickOption]:
        words = self._typed.lower().split()
        return [one for one in self._options if all(word in one.text.lower() for word in words)]

    # --- what is drawn

    def _draw(self) -> None:
        try:
            columns, rows = os.get_terminal_size(self._console.err.fileno())
        except OSError:
            columns, rows = 80, 24
        shown, room = self._shown(), max(1, min(_MOST_ROWS, rows - 4))
        first = min(max(0, self._at - room // 2), max(0, len(shown) - room))
        lines = [f"{self._title} {self._typed}"]
        for number, option in enumerate(shown[first : first + room], first):
            mark = f"[{'x' if option.key in self._on else ' '}] " if self._many else ""
            lines.append(f"{'❯' if number == self._at else ' '} {mark}{option.text}")
        if not shown:
            lines.append("  Enter takes it as it is" if self._free and self._typed else "  nothing fits")
        hidden = len(shown) - room
        lines.append((_MANY_KEYS if self._many else _KEYS) + (f" · {hidden} more" if hidden > 0 else ""))
        cut = [cut_to(showable(line), max(1, columns - 1)) for line in lines]
        if self._console.colour:
            cut = [f"\x1b[1m{line}\x1b[0m" if line.startswith("❯") else line for line in cut[:-1]] + [
                f"\x1b[2m{cut[-1]}\x1b[0m"
            ]
        self._write(self._erased() + "\r\n".join(cut))
        self._drawn = len(cut)

    def _erased(self) -> str:
        """Back to the first line of what was drawn, with nothing below it."""
        return ("\r" + f"\x1b[{self._drawn - 1}A" * (self._drawn > 1) + "\x1b[J") if self._drawn else ""

    def _end(self, chosen: str) -> None:
        self._write(self._erased() + f"{showable(self._title)} {one_line(chosen, 200)}\r\n")
        self._drawn = 0

    def _write(self, text: str) -> None:
        """By the system call itself: a window that is resized while we write makes us write again."""
        err = self._console.err
        os.write(err.fileno(), text.encode(err.encoding or "utf-8", err.errors or "replace"))

    @contextlib.contextmanager
    def _terminal(self) -> Iterator[None]:
        """Keys one by one; as it was at the end, and while the process is suspended."""
        keys = sys.stdin.fileno()
        before = termios.tcgetattr(keys)

        def suspend(number: int, frame: object) -> None:
            self._write(self._erased())
            self._drawn = 0
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
            os.kill(os.getpid(), signal.SIGSTOP)
            tty.setcbreak(keys)
            self._draw()

        handlers = {signal.SIGTSTP: suspend, signal.SIGWINCH: lambda number, frame: self._draw()}
        self._console.err.flush()
        earlier = {number: signal.signal(number, act) for number, act in handlers.items()}
        tty.setcbreak(keys)
        try:
            yield
        finally:
            self._write(self._erased())
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
            for number, act in earlier.items():
                signal.signal(number, act)
