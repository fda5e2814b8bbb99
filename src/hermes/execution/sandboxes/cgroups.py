"""A cgroup around a sandbox, where the gateway may make one: it counts processes and memory together, and as
root it is the only limit on the number of processes that holds. Elsewhere there is none."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from hermes.execution.process_tree import descendants

log = logging.getLogger("hermes.sandbox")
_LEAVE_SECONDS = 2.0
_LOOK_SECONDS = 0.02
_NEW_SECONDS = 60.0
_ROOT = Path("/sys/fs/cgroup")
_OURS = "hermes"
_ASK_SECONDS = 20.0
_CONTROLLERS = ("pids", "memory")


class Cage:
    """The cgroups of one sandbox, named by who made them. Nothing is made before `open`."""

    def __init__(self, name: str, *, processes: int, memory: int, root: Path = _ROOT) -> None:
        self._name = f"{os.getpid()}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        self._root = root
        self._limits: Mapping[str, tuple[tuple[str, int], ...]] = {
            "pids": (("pids.max", processes),),
            "memory": (("memory.max", memory or -1), ("memory.limit_in_bytes", memory or -1)),
        }
        self._folders: list[Path] = []
        self.why_not = ""
        """Why none could be made, if it was tried."""

    @property
    def holds(self) -> bool:
        return bool(self._folders)

    def open(self) -> bool:
        """Make them; False where that cannot be."""
        self._folders = []
        if os.geteuid() == 0:
            self._sweep()
            try:
                self._folders = self._make()
            except OSError as error:
                self.why_not = str(error)
        return self.holds

    def take(self, pid: int, door: socket.socket) -> None:
        """The process that makes the sandbox, and then the first one inside, which asks at the door before it
        starts another. The kernel takes as long for the first as that needs to get there. Blocks."""
        door.settimeout(_ASK_SECONDS)
        self._add(pid)
        if door.recv(1):
            for below in descendants(pid):
                self._add(below)
            door.send(b"!")

    def _add(self, pid: int) -> None:
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def leave(self) -> None:
        """Remove them, once the last process is gone. Blocks."""
        give_up = time.monotonic() + _LEAVE_SECONDS
        for above in self._homes():
            while not _remove(above / self._name):
                if time.monotonic() > give_up:
                    log.warning("sandbox.cgroup_left folder=%s", above / self._name)
                    break
                time.sleep(_LOOK_SECONDS)
        self._folders = []

    def _sweep(self) -> None:
        """What is left of sandboxes whose gateway is gone. One in a container is not seen from here, and has
        nothing in its cgroup for a moment."""
        for above in self._homes():
            with contextlib.suppress(OSError):
                for folder in above.iterdir():
                    old = time.time() - folder.stat().st_mtime > _NEW_SECONDS
                    if old and not _lives(folder.name.partition("-")[0]):
                        _remove(folder)

    def _homes(self) -> list[Path]:
        if (self._root / "cgroup.controllers").exists():
            return [self._root / _OURS]
        return [self._root / name / _OURS for name in _CONTROLLERS if (self._root / name).is_dir()]

    def _make(self) -> list[Path]:
        made: list[Path] = []
        for above in self._homes():
            above.mkdir(exist_ok=True)
            if above.parent == self._root:
                wanted = " ".join(f"+{name}" for name in _CONTROLLERS)
                for folder in (self._root, above):
                    (folder / "cgroup.subtree_control").write_text(wanted)
            folder = above / self._name
            folder.mkdir(exist_ok=True)
            for limits in self._limits.values():
                for file, most in limits:
                    if (folder / file).exists() and most >= 0:
                        (folder / file).write_text(str(most))
            made.append(folder)
        return made


def _remove(folder: Path) -> bool:
    """Whether it is not there any more. While a process in it dies, it stays."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _lives(pid: str) -> bool:
    return os.path.exists(f"/proc/{pid}")
