"""The terminal's input: keys as they are pressed, read by the loop, with the terminal put back as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
from collections.abc import Callable, Iterator

from hermes.entry.terminal.keys import KeyReader, Press

_PIECE = 65_536
_INPUT_FLAGS, _LOCAL_FLAGS, _CONTROL_CHARACTERS = 0, 3, 6


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
    return data.decode("utf-8", "replace")
