"""How `sudo` gets a password in one command: by a helper program (askpass) that asks the supervisor over a
socket, which asks the gateway. Nobody is asked before sudo really wants one. The password is in no argument,
variable or file, and only a child of the command's own sudo is given it. It runs where the commands do, so
it needs nothing but the standard library."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import struct
import sys
import tempfile

from hermes.execution.process_tree import descendants, hide_memory

_ANSWER_SECONDS = 300
_HELPER = """#!{python} -IS
import ctypes, os, socket, sys
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
door = socket.socket(socket.AF_UNIX)
door.settimeout({seconds})
door.connect(os.path.join(os.path.dirname(sys.argv[0]), "door"))
word = b""
while piece := door.recv(4096):
    word += piece
if not word:
    sys.exit(1)
os.write(1, word + b"\\n")
"""


class PasswordDoor:
    """Open for one command. Whoever comes in waits for `give`; `greet` says whether somebody did."""

    def __init__(self) -> None:
        hide_memory()
        self._folder = tempfile.mkdtemp(prefix=".hermes-")
        self._helper = os.path.join(self._folder, "ask")
        self._waiting: list[socket.socket] = []
        self.asked = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(os.path.join(self._folder, "door"))
        self._socket.listen(8)
        self._socket.setblocking(False)
        with open(self._helper, "w") as file:
            file.write(_HELPER.format(python=os.path.realpath(sys.executable), seconds=_ANSWER_SECONDS))
        os.chmod(self._helper, 0o700)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def shell_code(self) -> bytes:
        """A function, which no dump of the shell's variables shows."""
        path = shlex.quote(self._helper)
        return os.fsencode(f'\nsudo() {{ SUDO_ASKPASS={path} command sudo -A "$@"; }}\nexport -f sudo')

    def greet(self) -> bool:
        try:
            guest, _ = self._socket.accept()
        except OSError:
            return False
        guest.setblocking(True)
        if not _is_of_sudo(guest):
            guest.close()
            return False
        self._waiting.append(guest)
        self.asked += 1
        return True

    def give(self, password: bytes) -> None:
        """To everybody who waits; nothing = there is none."""
        for guest in self._waiting:
            with contextlib.suppress(OSError):
                guest.sendall(password)
            guest.close()
        self._waiting.clear()

    def close(self) -> None:
        self.give(b"")
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _is_of_sudo(guest: socket.socket) -> bool:
    """Whether it is a child of a sudo that this command started: a process with root's rights, which none of
    the same user can pretend to have."""
    pid, user, _ = struct.unpack("3i", guest.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    try:
        parent = int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
        status = dict(line.split(":\t", 1) for line in _read(f"/proc/{parent}/status").splitlines())
        rights = int(status["Uid"].split()[1])
    except (OSError, ValueError, LookupError):
        return False
    ours = {*descendants()}
    return user == os.getuid() and {pid, parent} <= ours and (status["Name"], rights) == ("sudo", 0)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
