"""The owner's socket as a file: where it is, how it is made so that nobody else can open it, and whether
somebody listens there. A home whose path is too long for a socket has it at a short path in the user's
runtime folder. Knows nothing of HTTP, so that a command can look for a gateway without loading any."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from hermes.domain.errors import UserError

SOCKET_FILE = "gateway.sock"
MOST_BYTES = 107
"""The longest path that a socket can have on Linux; elsewhere it is a little shorter."""
_IN_HOME_BYTES = 100
_LISTENING_SECONDS = 5.0


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
