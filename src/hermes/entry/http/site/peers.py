"""Who is at the other end of the owner's socket: which user, and whether the process speaks for the owner or
was started for a hook, a script or an agent (`domain/process_rank.py`). An unknown peer has no rank.

On Linux we read the limits of the process and its parents; the lowest one decides. Elsewhere we look only at
the parents, so a process that was re-parented is not recognised there."""

from __future__ import annotations

import os
import re
import socket
import struct
import sys

from hermes.domain.process_mark import TOP, level_of
from hermes.domain.process_rank import Rank, rank_of

_PEER = struct.Struct("3i")
_SO_PEERPIDFD = 77
_LOCAL_PEERPID = (0, 2)
"""Level and name of the option on macOS."""
_LIMIT = re.compile(r"^Max resident set +\S+ +(\d+|unlimited)", re.MULTILINE)
_RUNNER = "hermes.execution.local import runner"
_DEEPEST = 1000


def peer_user(peer: socket.socket) -> int | None:
    """The user at the other end, where the kernel tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        return int(_PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, option, _PEER.size))[1])
    except OSError:
        return None


def peer_rank(peer: socket.socket) -> Rank | None:
    """The rank of the process that connected, None if it is gone or hidden. Reads files or runs `ps`: call it
    off the loop."""
    try:
        if os.path.exists(f"/proc/{os.getpid()}/limits"):
            return _marked_rank(peer)
        pid = int.from_bytes(peer.getsockopt(*_LOCAL_PEERPID, 4), sys.byteorder)
        return descent_rank(pid, os.getpid())
    except (OSError, ValueError, LookupError):
        return None


def lowest_level(pid: int) -> int:
    """The lowest level of a process and its parents. Its own is enough unless root has raised it."""
    level = TOP
    for _ in range(_DEEPEST):
        if pid <= 0:
            return level
        limit = _LIMIT.search(_read(f"/proc/{pid}/limits"))
        if limit is None:
            raise LookupError("limits")
        level = min(level, TOP if limit[1] == "unlimited" else level_of(int(limit[1])))
        # The name in brackets may hold anything, brackets too.
        pid = int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
    raise LookupError("parents")


def _marked_rank(peer: socket.socket) -> Rank | None:
    pid = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
    if pid <= 0:
        return None
    try:
        handle = peer.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        if _knows_handles():
            return None  # it is gone already
        return rank_of(lowest_level(pid))
    try:
        rank = rank_of(lowest_level(pid))
        # While the handle names this number, nobody else has got it.
        return rank if f"\nPid:\t{pid}\n" in _read(f"/proc/self/fdinfo/{handle}") else None
    finally:
        os.close(handle)


def _knows_handles() -> bool:
    """Whether this kernel gives handles of peers (Linux 6.5 and later)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            os.close(ours.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
        except OSError:
            return False
    return True


def descent_rank(pid: int, gateway: int) -> Rank:
    """The rank of a process by its parents: below the gateway's command runner it is an agent's."""
    rows = [line.split() for line in _ps("-axo", "pid=,ppid=").splitlines()]
    parents = {int(row[0]): int(row[1]) for row in rows}
    for _ in range(_DEEPEST):
        parent = parents[pid]
        if parent == gateway:
            # Asked for alone: a command with line breaks could pretend to be other rows.
            runs = _RUNNER in _ps("-ww", "-o", "command=", "-p", str(pid))
            return Rank.AGENT if runs else Rank.SCRIPT
        if parent <= 1:
            return Rank.OWNER
        pid = parent
    raise LookupError("parents")


def _ps(*words: str) -> str:
    import subprocess  # no command should load it for what only some systems need

    return subprocess.run(
        ["ps", *words], capture_output=True, check=False, text=True, errors="replace"
    ).stdout


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
