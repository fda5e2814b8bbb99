"""The terminal's input: its bytes as what was pressed (characters, keys with a meaning, pasted text as one
piece), read by the loop, with the terminal put back as it was."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import sys
import termios
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

_PIECE = 65_536
_ESCAPE_SECONDS = 0.1
"""A terminal sends the bytes of one key faster than that, and nobody types so fast after Esc."""
_INPUT_FLAGS, _LOCAL_FLAGS, _CONTROL_CHARACTERS = 0, 3, 6


class NamedKey(StrEnum):
    ENTER = "enter"
    NEWLINE = "newline"
    BACKSPACE = "backspace"
    DELETE = "delete"
    LEFT = "left"
    RIGHT = "right"
    WORD_LEFT = "word left"
    WORD_RIGHT = "word right"
    HOME = "home"
    END = "end"
    UP = "up"
    DOWN = "down"
    KILL_LEFT = "kill left"
    KILL_RIGHT = "kill right"
    KILL_WORD = "kill word"
    COMPLETE = "complete"
    REDRAW = "redraw"
    ESCAPE = "escape"
    EOF = "end of input"


class TypedText(Struct, frozen=True, kw_only=True):
    """Characters, typed or pasted."""

    text: str


Press = NamedKey | TypedText

_SENT_AS = {
    NamedKey.ENTER: ("\r", "\n"),
    NamedKey.NEWLINE: ("\x1b\r", "\x1b\n"),
    NamedKey.BACKSPACE: ("\x7f", "\x08"),
    NamedKey.DELETE: ("\x1b[3~",),
    NamedKey.LEFT: ("\x02", "\x1b[D", "\x1bOD"),
    NamedKey.RIGHT: ("\x06", "\x1b[C", "\x1bOC"),
    NamedKey.WORD_LEFT: ("\x1b[1;5D", "\x1bb"),
    NamedKey.WORD_RIGHT: ("\x1b[1;5C", "\x1bf"),
    NamedKey.HOME: ("\x01", "\x1b[H", "\x1bOH", "\x1b[1~"),
    NamedKey.END: ("\x05", "\x1b[F", "\x1bOF", "\x1b[4~"),
    NamedKey.UP: ("\x10", "\x1b[A", "\x1bOA"),
    NamedKey.DOWN: ("\x0e", "\x1b[B", "\x1bOB"),
    NamedKey.KILL_LEFT: ("\x15",),
    NamedKey.KILL_RIGHT: ("\x0b",),
    NamedKey.KILL_WORD: ("\x17", "\x1b\x7f"),
    NamedKey.COMPLETE: ("\t",),
    NamedKey.REDRAW: ("\x0c",),
    NamedKey.EOF: ("\x04",),
}
_KEYS = {sequence: key for key, sequences in _SENT_AS.items() for sequence in sequences}
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")
_PLAIN = re.compile(r"[^\x00-\x1f\x7f]+")


class KeyReader:
    """Reads what comes in pieces of any size; bytes that its character set lacks become a sign for it."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder(_encoding())("replace")
        self._ahead = ""
        self._pasted: list[str] | None = None

    def feed(self, data: bytes) -> list[Press]:
        text = self._ahead + self._decode.decode(data)
        self._ahead = ""
        presses: list[Press] = []
        while text:
            text = self._paste(text, presses) if self._pasted is not None else self._press(text, presses)
        return presses

    @property
    def is_unsure(self) -> bool:
        """Whether what came last may be Esc alone, or the beginning of another key."""
        return self._pasted is None and bool(self._ahead)

    def give_up(self) -> list[Press]:
        """Nothing more came of it: Esc alone was pressed, or the rest was lost."""
        ahead, self._ahead = self._ahead, ""
        return [NamedKey.ESCAPE] if ahead == "\x1b" else []

    def _press(self, text: str, presses: list[Press]) -> str:
        """Take one thing from the front of the text; what is left of it is returned."""
        if text[0] == "\x1b":
            return self._escape(text, presses)
        plain = _PLAIN.match(text)
        if plain is not None:
            presses.append(TypedText(text=plain[0]))
            return text[plain.end() :]
        if text[0] in _KEYS:
            presses.append(_KEYS[text[0]])
        return text[1:]

    def _escape(self, text: str, presses: list[Press]) -> str:
        whole = _SEQUENCE.match(text)
        if whole is None:
            if _UNFINISHED.fullmatch(text) is None:
                return text[1:]
            self._ahead = text
            return ""
        if whole[0] == _PASTE_BEGINS:
            self._pasted = []
        elif whole[0] in _KEYS:
            presses.append(_KEYS[whole[0]])
        return text[whole.end() :]

    def _paste(self, text: str, presses: list[Press]) -> str:
        assert self._pasted is not None
        words, end, rest = text.partition(_PASTE_ENDS)
        if not end:
            # The mark of the end may be cut in two.
            kept = text.rfind("\x1b", max(0, len(text) - len(_PASTE_ENDS) + 1))
            self._ahead = "" if kept < 0 else text[kept:]
            self._pasted.append(text if kept < 0 else text[:kept])
            return ""
        self._pasted.append(words)
        pasted = "".join(self._pasted).replace("\r\n", "\n").replace("\r", "\n")
        self._pasted = None
        if pasted:
            presses.append(TypedText(text=pasted))
        return rest


@contextlib.contextmanager
def own_terminal(descriptor: int, flags: int = os.O_RDONLY) -> Iterator[int]:
    """The terminal once more, for this process alone: it is made non-blocking, and whoever shares the first
    descriptor (the shell that started us) must not find it so. What is no terminal is used as it is."""
    try:
        own = os.open(os.ttyname(descriptor), flags | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        own = os.dup(descriptor)
    try:
        yield own
    finally:
        os.close(own)


class Keyboard:
    """`rich` terminals hand over every key at once and echo nothing; others give whole lines."""

    def __init__(
        self, descriptor: int, *, rich: bool, press: Callable[[Press], None], gone: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._rich = rich
        self._press = press
        self._gone = gone
        self._reader = KeyReader()
        self._waiting: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """While this lasts, presses are told."""
        loop = asyncio.get_running_loop()
        before = termios.tcgetattr(self._descriptor)
        self.take_over()
        with own_terminal(self._descriptor) as own:
            loop.add_reader(own, self._read, own)
            try:
                yield
            finally:
                loop.remove_reader(own)
                if self._waiting is not None:
                    self._waiting.cancel()
                with contextlib.suppress(termios.error):  # the terminal may be gone
                    termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)

    def take_over(self) -> None:
        """Set the terminal to what we need, also after the process was stopped and goes on (Ctrl-Z, fg)."""
        if not self._rich:
            return
        with contextlib.suppress(termios.error):
            mode = termios.tcgetattr(self._descriptor)
            mode[_INPUT_FLAGS] &= ~termios.ICRNL
            mode[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
            mode[_CONTROL_CHARACTERS][termios.VMIN] = 1
            mode[_CONTROL_CHARACTERS][termios.VTIME] = 0
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, mode)

    def echo(self, shown: bool) -> None:
        """Whether a terminal that gives whole lines shows what is typed."""
        if self._rich:
            return
        with contextlib.suppress(termios.error):
            mode = termios.tcgetattr(self._descriptor)
            flags = mode[_LOCAL_FLAGS]
            mode[_LOCAL_FLAGS] = flags | termios.ECHO if shown else flags & ~termios.ECHO
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, mode)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
            self._gone()
            return
        for press in self._reader.feed(data):
            self._press(press)
        if self._waiting is not None:
            self._waiting.cancel()
        if self._reader.is_unsure:
            self._waiting = asyncio.get_running_loop().call_later(_ESCAPE_SECONDS, self._stop_waiting)

    def _stop_waiting(self) -> None:
        self._waiting = None
        for press in self._reader.give_up():
            self._press(press)


async def read_line(descriptor: int) -> str | None:
    """A line of a terminal that hands over whole lines; None at the end of the input."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    data = bytearray()
    with own_terminal(descriptor) as own:
        loop.add_reader(own, ready.set)
        try:
            while not data.endswith(b"\n"):
                ready.clear()
                await ready.wait()
                piece = os.read(own, _PIECE)
                if not piece:
                    return None
                data += piece
        finally:
            loop.remove_reader(own)
    return data.decode(_encoding(), "replace")


def _encoding() -> str:
    """The character set of the terminal."""
    return getattr(sys.stdin, "encoding", None) or "utf-8"
