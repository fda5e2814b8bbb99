"""The chat in a terminal: how soon its prompt is there, over a bare interpreter, when a gateway runs already
and when none does."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from bench.figure import Figure
from bench.model import model_process, surroundings
from bench.start import gateway_process, one_start
from bench.whole import prepare

_PROMPT = "❯".encode()
_CHAT = (sys.executable, "-P", "-m", "hermes")
_SECONDS = 60.0
_MOST_MS = 300.0


def measure(folder: Path, quick: bool) -> list[Figure]:
    times = 3 if quick else 10
    home = folder / "home"
    bare = min(one_start(("-c", "pass"))[0] for _ in range(times))
    with model_process() as url:
        prepare(home, url)
        around = {**surroundings(home), "TERM": "xterm-256color"}
        with gateway_process(home):
            starts = [_prompt(around) for _ in range(times + 1)][1:]
        cold = []
        for _ in range(times):
            cold.append(_prompt(around)[0])
            subprocess.run([*_CHAT, "gateway", "stop"], env=around, capture_output=True, check=False)
    warm, keys = [start for start, _ in starts], [key for _, key in starts]
    until_prompt = {"prompt beside a gateway, over bare": warm, "prompt without one, over bare": cold}
    return [
        Figure(bench="chat", name="a key until it is shown", value=min(keys) * 1e3, unit="ms", target=30),
        *(
            Figure(bench="chat", name=name, value=(min(values) - bare) * 1e3, unit="ms", target=_MOST_MS)
            for name, values in until_prompt.items()
        ),
    ]


def _prompt(around: Mapping[str, str]) -> tuple[float, float]:
    """Seconds from the start of a process to the first prompt on its terminal, and from a key to its echo."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    began = time.perf_counter()
    process = subprocess.Popen(
        _CHAT, env=around, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
    )
    os.close(follower)
    _read_until(leader, _PROMPT)
    seconds = time.perf_counter() - began
    _read_until(leader, b"/help")
    while select.select([leader], [], [], 0.5)[0]:
        os.read(leader, 65536)
    pressed = time.perf_counter()
    os.write(leader, b"x")
    _read_until(leader, b"x")
    key = time.perf_counter() - pressed
    process.send_signal(signal.SIGTERM)
    while process.poll() is None:
        if select.select([leader], [], [], 0.05)[0]:
            try:
                os.read(leader, 65536)
            except OSError:
                break
    process.wait()
    os.close(leader)
    return seconds, key


def _read_until(leader: int, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        if not select.select([leader], [], [], _SECONDS)[0]:
            raise RuntimeError(f"not seen: {wanted!r} in {seen[-500:]!r}")
        seen += os.read(leader, 65536)
