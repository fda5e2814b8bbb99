"""Beds for the conformance suite, one for each kind of backend. A further kind joins by a line in `BEDS`."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from hermes.domain.ports.world import NO_NETWORK, Backend, BackendRequest
from hermes.execution.commands.fork_server import ForkServer
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.pipes import Pipes, RemotePipes
from hermes.execution.local.backend import LocalBackend, build_environment
from hermes.execution.process_tree import descendants, send_signal
from hermes.execution.sandboxes.box import PATH, SandboxBackend
from hermes.execution.sandboxes.bubblewrap import WORKSPACE, make_bubblewrap
from hermes.execution.sandboxes.landlock import make_landlock, why_unusable
from hermes.testing.backend_suite import GRANTED, GRANTED_NAME, SECRET, SECRET_NAME, Bed
from hermes.testing.backends import HerePlace, backend_request, far_backend, local_backend

ENVIRON = {**os.environ, SECRET_NAME: SECRET, GRANTED_NAME: GRANTED}


def install(package: str, program: str) -> None:
    """See to it that a program is here; root can, where there is Debian's installer. One at a time."""
    search = f"{os.environ.get('PATH', '')}:{PATH}"
    if os.geteuid() != 0:
        if not shutil.which(program, path=search):
            pytest.skip(f"there is no {program} here, and only root can install it")
        return
    with (Path(tempfile.gettempdir()) / "hermes-apt.lock").open("a") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if shutil.which(program, path=search):
            return
        if not shutil.which("apt-get", path=search):
            pytest.skip(f"there is no {program}, and it cannot be installed from here")
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": search}
        patiently = ["-o", "DPkg::Lock::Timeout=300"]  # somebody else may install something just now
        wanted = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *patiently, package]
        told = b""
        for command in (wanted, ["apt-get", "update", "-q"], wanted):
            done = subprocess.run(command, env=environ, capture_output=True, timeout=600, check=False)
            if command is wanted and done.returncode == 0:
                return
            told = done.stderr
        pytest.fail(f"{package} could not be installed: {told.decode()[-200:]}")


def make_local_bed(home: Path, workspace: Path) -> Bed:
    def make() -> LocalBackend:
        return local_backend(home=home, workspace=workspace, environ=ENVIRON, passthrough=(GRANTED_NAME,))

    backend = make()
    server = backend._commands._transport._server  # type: ignore[attr-defined]
    folder = str(workspace)
    return Bed(backend=backend, folder=folder, granted=True, again=make, kill=partial(kill_server, server))


def make_far_bed(home: Path, workspace: Path) -> Bed:
    environ = {**ENVIRON, "HOME": str(home)}  # long outputs are kept there
    backend = far_backend(home=home, workspace=workspace, environ=environ)
    return Bed(backend=backend, folder=str(workspace))


class RemotePlace(HerePlace):
    """This machine as a vendor's SDK would reach it."""

    def __init__(self, workspace: Path, env: Mapping[str, str]) -> None:
        super().__init__(workspace, env)
        self.told = asyncio.Event()
        """Streams hear of their end."""
        self.told.set()
        self._children: list[asyncio.subprocess.Process] = []

    async def kill(self) -> None:
        """Everything there."""
        for child in self._children:
            if child.returncode is None:
                for pid in (child.pid, *descendants(child.pid)):
                    send_signal(pid, signal.SIGKILL)
                await child.wait()

    async def start(self, argv: Sequence[str]) -> Pipes:
        child = await super().start(argv)
        assert isinstance(child, asyncio.subprocess.Process)
        self._children.append(child)

        async def send(data: bytes) -> None:
            if child.returncode is not None:
                raise ConnectionResetError
            child.stdin.write(data)
            await child.stdin.drain()

        async def hang_up() -> None:
            child.stdin.close()
            await child.wait()

        async def hear() -> None:
            assert child.stdout is not None and child.stderr is not None
            while data := await child.stdout.read(1000):
                await pipes.feed(data)
            words = await child.stderr.read()
            await self.told.wait()
            pipes.end(await child.wait(), words.decode())

        pipes = RemotePipes(send, hang_up)
        pipes.watched_by(asyncio.create_task(hear()))
        return pipes


def make_remote_bed(home: Path, workspace: Path) -> Bed:
    place = RemotePlace(workspace, build_environment({**ENVIRON, "HOME": str(home)}))
    return Bed(backend=FarBackend(place, states=home / "cache/shells", given={}), folder=str(workspace))


def make_bubblewrap_bed(home: Path, workspace: Path) -> Bed:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is for Linux")
    install("bubblewrap", "bwrap")
    return _sandbox_bed(home, workspace, make_bubblewrap, WORKSPACE)


landlock_of_anybody = partial(make_landlock, even_root=True)
"""These tests run as root, whom it refuses; what it holds, it holds for root too."""


def make_landlock_bed(home: Path, workspace: Path) -> Bed:
    if why := why_unusable(even_root=True):
        pytest.skip(why)
    return _sandbox_bed(home, workspace, landlock_of_anybody, str(workspace))


def _sandbox_bed(
    home: Path, workspace: Path, make: Callable[[BackendRequest], SandboxBackend], folder: str
) -> Bed:
    request = backend_request(
        home=home, workspace=workspace, environ=ENVIRON, passthrough=(GRANTED_NAME,), network=NO_NETWORK
    )
    backend = make(request)
    kill = partial(kill_server, backend._server)
    return Bed(backend=backend, folder=folder, granted=True, again=lambda: make(request), kill=kill)


async def kill_server(server: ForkServer) -> None:
    """Every process of it, as something else on the machine might."""
    assert server._runner is not None
    for pid in (server._runner.pid, *descendants(server._runner.pid)):
        send_signal(pid, signal.SIGKILL)


MakeBed = Callable[[Path, Path], Bed]
BEDS: Mapping[str, MakeBed] = {
    "local": make_local_bed,
    "far": make_far_bed,
    "remote": make_remote_bed,
    "bubblewrap": make_bubblewrap_bed,
    "landlock": make_landlock_bed,
}


def make_bed(kind: str, folder: Path) -> Bed:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    return BEDS[kind](folder / "home", workspace)


def backend_of(kind: str, folder: Path) -> Backend:
    return make_bed(kind, folder).backend


def children() -> set[int]:
    """Processes below this one, at any depth."""
    found: set[int] = set()
    queue = [os.getpid()]
    while queue:
        pid = queue.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            below = [
                int(word)
                for task in tasks
                for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            ]
        except OSError:
            continue
        found.update(below)
        queue += below
    return found
