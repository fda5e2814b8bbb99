"""The `landlock` backend: the kernel opens no files but the system's programs, the agent's folder, a home
and a temporary folder. It needs no namespace and no program, and is weak: processes of the machine can be
seen, a user's limits are shared with them, the network is open or closed as a whole, and of other files
size, mode and times can be seen, and mode and times of the user's own be changed. As root nothing would be
safe from that, so it refuses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from hermes.domain.errors import UserError
from hermes.domain.ports.world import BackendRequest, Boundary
from hermes.domain.settings.settings import TerminalSettings
from hermes.execution.commands.fork_server import start_apart
from hermes.execution.sandboxes import box, seccomp
from hermes.execution.sandboxes.interpreter import own_interpreter
from hermes.execution.sandboxes.landlock_rules import landlock_abi
from hermes.execution.sandboxes.probe import SandboxProbe

NAME = "landlock"
_NAMES = ("passwd", "group", "nsswitch.conf", "hosts")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_ROOT = "landlock cannot hold root, who may change the mode of nearly every file"
_ROOT_HINT = "Run the gateway as an ordinary user, or use bubblewrap or a container."
_HINT = "Use bubblewrap or a container, or a kernel since 5.13 that is started with `lsm=landlock,…`."


def make_landlock(request: BackendRequest, *, even_root: bool = False) -> box.SandboxBackend:
    """The entry `landlock` of the group `hermes.backends`. `even_root` = whoever starts it."""
    opening = _LandlockOpening(request, even_root=even_root)
    home = str(opening.home)
    env = box.build_environment(request, home, str(opening.folders.bin))
    world = box.describe_world(request, NAME, Boundary.WEAK, str(request.workspace), home)
    return box.SandboxBackend(opening, world, env | {"TMPDIR": str(opening.folders.temporary)})


class _LandlockOpening(box.SandboxOpening):
    def __init__(self, request: BackendRequest, *, even_root: bool) -> None:
        super().__init__(request, NAME)
        self._even_root = even_root
        self.home = self.folders.home if box.is_kept(request) else self.folders.passing / "home"

    async def check(self) -> None:
        network = self.request.network
        if network.hosts and not network.open:
            raise UserError(
                "landlock cannot hold commands to a list of hosts, only to all or none.",
                hint="Use bubblewrap or a container, or set the network to `none` or `open`.",
            )
        if why := why_unusable(even_root=self._even_root):
            raise UserError(f"{why}.", hint=_hint(why))

    def prepare(self) -> None:
        super().prepare()
        self.home.mkdir(mode=0o700, exist_ok=True)

    def launch(self, doors: Sequence[int], complaint: IO[bytes]) -> subprocess.Popen[bytes]:
        workspace, network = os.path.realpath(self.request.workspace), self.request.network.open
        plan = _plan(self.folders, self.home, workspace, network=network, limits=self.limits)
        argv = own_interpreter().start(plan, str(doors[0]), box.find_shell(), str(doors[1]))
        return start_apart(argv, {"PATH": box.PATH}, doors, complaint)


def _plan(
    folders: box.BoxFolders,
    home: Path,
    workspace: str,
    *,
    network: bool,
    limits: box.Limits,
    only_try: bool = False,
) -> str:
    etc = (*box.ETC, *_NAMES, *(("resolv.conf",) if network else ()))
    readable = [
        *box.SYSTEM,
        "/proc",
        *(f"/etc/{name}" for name in etc),
        *own_interpreter().readable,
        str(folders.bin),
    ]
    rules = {
        "readable": readable,
        "writable": [workspace, str(home), str(folders.temporary)],
        "devices": [f"/dev/{name}" for name in _DEVICES],
        "network": network,
    }
    return box.inside_plan(
        limits=limits.as_resources(count_processes=False),
        families=box.socket_families(internet=network),
        landlock=rules,
        output=f"{home}/{box.OUTPUT}",
        only_try=only_try,
    )


def why_unusable(*, even_root: bool = False) -> str:
    """Why there is none on this machine; empty if there is."""
    if sys.platform != "linux":
        return "Landlock is a part of Linux"
    if os.geteuid() == 0 and not even_root:
        return _ROOT
    try:
        seccomp.seccomp_filter(())
    except ValueError as error:
        return f"landlock cannot be used: {error}"
    return "" if landlock_abi() else "This kernel has no Landlock, or it is switched off"


async def probe_landlock(environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    """Closes everything but the system for a process of its own, for a moment."""
    remedy = ""
    try:
        why = why_unusable() or await asyncio.to_thread(_try)
    except UserError as error:
        why, remedy = error.message, error.hint
    return SandboxProbe(
        name=NAME, boundary=Boundary.WEAK, works=not why, why=why, remedy=remedy or (why and _hint(why))
    )


def _hint(why: str) -> str:
    return _ROOT_HINT if why == _ROOT else _HINT


def _try() -> str:
    with box.folders_to_try() as folders:
        work = str(folders.temporary)
        plan = _plan(folders, folders.home, work, network=False, limits=box.Limits(), only_try=True)

        def launch(doors: Sequence[int], complaint: IO[bytes]) -> subprocess.Popen[bytes]:
            argv = own_interpreter().start(plan, str(doors[0]), box.find_shell(), str(doors[1]))
            return start_apart(argv, {"PATH": box.PATH}, doors, complaint)

        return box.try_launch(launch)
