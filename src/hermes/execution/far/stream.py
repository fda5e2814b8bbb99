"""The far end of a stream, in a world that has Python: one command after another, each with a supervisor of
its own, whose shell waits before the request comes. It is sent over as text (`shipping.py`), so it and what
it imports need nothing but the standard library, of Python 3.9 or later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from hermes.execution.commands import frames
from hermes.execution.commands.supervisor import CommandSupervisor, FrameLink
from hermes.execution.process_tree import become_reaper, descendants, hide_memory, send_signal

_DONE = 7
"""The exit code of a supervisor after which the stream can be used again."""
_QUERY_SECONDS = 60.0
_END_SECONDS = 1.8


class StreamLink(FrameLink):
    """Answers queries until a request comes."""

    def _take(self, letter: bytes, payload: bytes, parts: dict[bytes, bytes]) -> None:
        if letter == frames.QUERY:
            self._answer(payload, parts.pop(frames.INPUT, b""))
        else:
            super()._take(letter, payload, parts)

    def _answer(self, script: bytes, data: bytes) -> None:
        try:
            done = subprocess.run(
                ["sh", "-c", script],
                input=data,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_QUERY_SECONDS,
                check=False,
            )
            code, output = done.returncode, done.stdout
        except (OSError, ValueError, subprocess.TimeoutExpired):
            code, output = 127, b""
        ended = frames.pack_numbers(code & 255, 0, 0, 0, 0)
        self.send((frames.UNREAD, output), (frames.ENDED, ended))


def main() -> None:
    """Argument: the shell."""
    hide_memory()
    become_reaper()
    while True:
        pid = os.fork()
        if not pid:
            _serve(sys.argv[1])
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != _DONE:
            break
    # Whoever killed the supervisor orphaned what it had started, to us.
    give_up = time.monotonic() + _END_SECONDS
    while (left := descendants()) and time.monotonic() < give_up:
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        _reap()
    os._exit(1)


def _serve(shell: str) -> None:
    supervisor, link = CommandSupervisor(shell), StreamLink(0, 1)
    try:
        link.send((frames.READY, b""))
        supervisor.take(link)
        supervisor.live(lambda: None)
    except OSError:
        os._exit(1)
    os._exit(_DONE)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    time.sleep(0.002)
