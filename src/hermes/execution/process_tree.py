"""The tree of processes below this one: staying its root, finding its members, signalling them."""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # which makes no enumerations, and runners start sooner

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_DUMPABLE = 4


def become_reaper() -> None:
    """Whatever below loses its parent becomes a child of this process, and not of the system's first."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def hide_memory() -> None:
    """Nobody of the same user looks into the memory of this process or changes it; what it starts is as open
    as ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def hear_deaths() -> int:
    """A descriptor that becomes readable whenever a child of this process has died: then `reap`."""
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    return ours


def reap(deaths: int) -> tuple[dict[int, int], bool]:
    """The children that have died, with their exit codes, and whether any are left."""
    try:
        os.read(deaths, 4096)
    except BlockingIOError:
        pass
    dead: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return dead, True
            dead[pid] = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        return dead, False


def descendants(root: int | None = None) -> list[int]:
    """Everything below a process; below this one if none is told."""
    me = os.getpid() if root is None else root
    children = children_of if os.path.exists(f"/proc/{me}/task/{me}/children") else _listed_children()
    found: list[int] = []
    queue = [me]
    while queue:
        below = children(queue.pop())
        found += below
        queue += below
    return found


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def _listed_children() -> Callable[[int], list[int]]:
    import subprocess  # a runner starts sooner without it

    listing = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, check=False).stdout
    below: dict[int, list[int]] = {}
    for line in listing.splitlines():
        pid, parent = map(int, line.split())
        below.setdefault(parent, []).append(pid)
    return lambda pid: below.get(pid, [])


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
