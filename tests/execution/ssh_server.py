"""A real sshd for tests, on a port of its own, with keys and a configuration of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from hermes.execution.process_tree import children_of
from hermes.testing.ports import free_port
from tests.execution.beds import install

_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile {folder}/pid
AuthorizedKeysFile {folder}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
MaxSessions 50
MaxStartups 100
SetEnv HOME={folder}/person PATH={path}
"""


class SshServer:
    def __init__(self, *, path: str = "/usr/local/bin:/usr/bin:/bin") -> None:
        install("openssh-server", "sshd")
        install("openssh-client", "ssh")
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-sshd-"))
        self.port = free_port()
        self.user = getpass.getuser()
        self.key = self.folder / "key"
        self.make_key(self.key)
        self.make_key(self.folder / "host_key")
        (self.folder / "authorized_keys").write_text((self.folder / "key.pub").read_text())
        (self.folder / "person").mkdir()  # not the home of whoever runs the tests
        (self.folder / "config").write_text(_CONFIG.format(port=self.port, folder=self.folder, path=path))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def make_key(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
        subprocess.run(command, check=True, capture_output=True)

    def start(self) -> None:
        Path("/run/sshd").mkdir(exist_ok=True)
        program = shutil.which("sshd", path="/usr/sbin:/sbin")
        assert program is not None
        log = self.folder / "log"
        self._process = subprocess.Popen(
            [program, "-D", "-f", str(self.folder / "config"), "-E", str(log)], start_new_session=True
        )
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError(log.read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def cut(self) -> None:
        """Every connection dies, as when a machine goes away."""
        assert self._process is not None
        for pid in children_of(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
