"""The owner's socket: where it is, how it is made so that nobody else can open it, whether somebody listens
there, and who is at its other end. Knows nothing of HTTP, so that a command can look for a gateway without
loading any.

A process speaks for the owner, or was started for a hook, a script or an agent
(`domain/system/process_rank.py`); an unknown one has no rank. On Linux we read the limits of the process
and its parents; the lowest one decides. Elsewhere we look only at the parents, so a process that was
re-parented is not recognised there."""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.system.process_mark import TOP, level_of
from hermes.domain.system.process_rank import Rank, rank_of

SOCKET_FILE = "gateway.sock"
MOST_BYTES = 107
"""The longest path that a socket can have on Linux; elsewhere it is a little shorter."""
_IN_HOME_BYTES = 100
_LISTENING_SECONDS = 5.0
_PEER = struct.Struct("3i")
_SO_PEERPIDFD = 77
_LOCAL_PEERPID = (0, 2)
"""Level and name of the option on macOS."""
_LIMIT = re.compile(r"^Max resident set +\S+ +(\d+|unlimited)", re.MULTILINE)
_RUNNER = "hermes.execution.commands import runner"
_DEEPEST = 1000


def socket_places(home: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """Where the socket may be, the first choice first: in the home, or, where that is too long a path for a
    socket, at a short one in the user's runtime folder. A gateway that a service started may know another
    runtime folder than a shell does."""
    path = home / SOCKET_FILE
    if len(os.fsencode(path)) <= _IN_HOME_BYTES:
        yield path
        return
    name = f"hermes-{sha256(os.fsencode(home)).hexdigest()[:16]}.sock"
    for path in dict.fromkeys(runtime / name for runtime in _runtime_folders(variables)):
        if len(os.fsencode(path)) <= MOST_BYTES:
            yield path


def _runtime_folders(variables: Mapping[str, str]) -> Iterator[Path]:
    """This user's folders for sockets."""
    given = variables.get("XDG_RUNTIME_DIR", "")
    if given and os.path.isdir(given):
        yield Path(given)
    own = Path(f"/run/user/{os.getuid()}")
    if own.is_dir():
        yield own
    yield Path(f"/tmp/hermes-{os.getuid()}")


def bind_socket(home: Path, variables: Mapping[str, str]) -> tuple[Path, socket.socket]:
    """A socket that nobody but the owner of the home can open, from its first moment on. What an earlier
    process left there is in nobody's use: whoever calls this holds the home."""
    path = next(socket_places(home, variables))
    if path.parent != home:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(path.parent)
    if path.is_dir() and not path.is_symlink():
        raise UserError(
            f"There is a folder at {path}, where the gateway's socket belongs.", hint="Move it away."
        )
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A folder of ours alone is around it until its rights are set: `umask` would be every thread's.
        with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
            made = f"{folder}/s"
            bound.bind(made)
            os.chmod(made, 0o600)
            os.rename(made, path)
    except OSError as error:
        bound.close()
        raise UserError(f"The socket {path} cannot be made ({error.strerror or error}).") from error
    return path, bound


def check_folder(folder: Path) -> None:
    """A folder in which others may put things could hold a socket of theirs instead of ours."""
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise UserError(
            f"{folder} is not for you alone, so no socket is put or looked for there.",
            hint="Set XDG_RUNTIME_DIR to a folder of your own (mode 700).",
        )


def listening(home: Path, variables: Mapping[str, str]) -> Path | None:
    """The socket at which a gateway of this home answers, if one does. A file that a killed process left
    behind is not one."""
    for path in socket_places(home, variables):
        if path.parent != home:
            try:
                check_folder(path.parent)
            except FileNotFoundError:
                continue
        if _is_open(path):
            return path
    return None


def _is_open(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.settimeout(_LISTENING_SECONDS)
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


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
