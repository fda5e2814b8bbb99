"""Somebody at a real terminal: a process on a pty, keys that are pressed, and what stands on the screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.cli.command import ROOT, end_gateway, environment
from tests.nursery import Popen

CHILD = ROOT / "tests" / "cli" / "chat_child.py"
PATIENCE = 60.0
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
HERMES = "hermes.cli"
_REAL = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from {} import main; sys.exit(main())"
)


class Ended(AssertionError):
    """The process ended while somebody waited for its words."""


class Person:
    """`seen` is all that was ever written, without colours and cursor movements; `raw` is with them."""

    def __init__(self, command: Sequence[str], env: dict[str, str], cwd: Path, home: Path) -> None:
        self._home = home
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(follower)
        self._follower = follower
        self.process = Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        self.raw = ""
        self._at = 0

    @property
    def seen(self) -> str:
        return _CONTROL.sub("", self.raw).replace("\r\n", "\n")

    def resize(self, columns: int, rows: int = 24) -> None:
        fcntl.ioctl(self._follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def keys(self, text: str) -> None:
        self.bytes(text.encode())

    def bytes(self, data: bytes) -> None:
        done = 0
        while done < len(data):
            self._read(0)
            if select.select([], [self._leader], [], 1.0)[1]:
                done += os.write(self._leader, data[done : done + 512])

    def type(self, line: str) -> None:
        self.keys(line + "\r")

    def paste(self, text: str) -> None:
        self.keys(f"\x1b[200~{text}\x1b[201~")

    def until(self, *texts: str, patience: float = PATIENCE) -> str:
        """Wait until the texts stand, in this order, in what was written since the last wait."""

        def come() -> bool:
            place = self._at
            for text in texts:
                found = self.seen.find(text, place)
                if found < 0:
                    return False
                place = found + len(text)
            self._at = place
            return True

        self._wait(come, texts, patience)
        return self.seen

    def until_all(self, *texts: str) -> None:
        """Wait until the texts stand, in any order, in what was written since the last wait."""

        def come() -> bool:
            places = [self.seen.find(text, self._at) for text in texts]
            if min(places) < 0:
                return False
            self._at = max(place + len(text) for place, text in zip(places, texts, strict=True))
            return True

        self._wait(come, texts)

    def _wait(self, come: Callable[[], bool], texts: Sequence[str], patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while not come():
            assert time.monotonic() < end, f"not seen: {texts}\n--- since then:\n{self.seen[self._at :]}"
            if not self._read(0.05) and self.process.poll() is not None and not self._read(0.2):
                raise Ended(f"it ended ({self.process.returncode}) without {texts}:\n{self.seen}")

    def until_one(self, *texts: str) -> str:
        """Wait until one of the texts stands in what was written since the last wait; which came first."""
        found: dict[int, str] = {}

        def come() -> bool:
            places = {self.seen.find(text, self._at): text for text in texts}
            found.update({place: text for place, text in places.items() if place >= 0})
            return bool(found)

        self._wait(come, texts)
        first = min(found)
        self._at = first + len(found[first])
        return found[first]

    def prompt(self) -> None:
        self.until("❯ ")

    def ends(self) -> int:
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end:\n{self.seen[-500:]}"
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.returncode

    def leaves(self) -> int:
        """Ctrl-C once more, or twice again where the machine was too busy to take it for the same wish."""
        try:
            while True:
                self.keys("\x03")
                self.until("Ctrl-C once more leaves.")
        except Ended:
            return self.ends()

    def kill(self) -> None:
        """Pull the plug: the terminal and its gateway are gone."""
        self.kill_terminal()
        end_gateway(self._home)

    def kill_terminal(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def mode(self) -> list[object]:
        return termios.tcgetattr(self._follower)

    @property
    def blocking(self) -> bool:
        return os.get_blocking(self._follower)

    def hang_up(self) -> None:
        """The terminal's window is closed."""
        os.close(self._follower)
        self._follower = -1
        os.close(self._leader)
        self._leader = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill_terminal()
        for descriptor in (self._leader, self._follower):
            if descriptor >= 0:
                os.close(descriptor)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._leader], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._leader, 65536)
        except OSError:
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


@contextlib.contextmanager
def at_terminal(
    home: Path, *words: str, real: str = "", cwd: Path | None = None, rich: bool = False, **more: str
) -> Iterator[Person]:
    """A person who has just started `hermes chat`, with the model of `chat_child.py` or, `real`, by the
    `main` of this module; in the plain chat, unless `rich`."""
    child = [sys.executable, str(CHILD), str(home)]
    command = [sys.executable, "-P", "-c", _REAL.format(real)] if real else child
    # A script finds its modules next to itself; ours are found from the root of the checkout.
    path = f"{ROOT / 'src'}:{ROOT}"
    words = words if rich else ("--plain", *words)
    more = {"TERM": "xterm-256color", "PYTHONPATH": path, "HERMES_NO_PROBE": "1", **more}
    place = cwd or home.parent / "place"
    place.mkdir(exist_ok=True)
    person = Person([*command, *words], environment(home, **more), place, home)
    try:
        yield person
    finally:
        person.close()
