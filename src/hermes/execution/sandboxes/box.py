"""What sandboxes on this machine have in common: their folder in the agent's home, what they show of the
system, the limits inside, and the backend around the runner and the files that are served from inside.

`<agent home>/sandboxes/<backend>/<task>` holds what lasts besides the workspace: `home` is seen inside; what
else is there (`shells`, `bin`, `lives`) is the gateway's, and inside at most read."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import marshal
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct, field

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import (
    BackendRequest,
    Boundary,
    Command,
    CommandResult,
    ProcessView,
    World,
)
from hermes.domain.text import one_line
from hermes.execution.commands.fork_server import ForkServer, ForkTransport, Launch
from hermes.execution.commands.processes import ProcessTable
from hermes.execution.commands.served_files import ServedFiles
from hermes.execution.commands.shell_commands import ShellCommands
from hermes.execution.commands.shell_states import ShellStates
from hermes.execution.sandboxes import seccomp
from hermes.execution.sandboxes.interpreter import compile_sources

log = logging.getLogger("hermes.sandbox")
MIB = 1 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
"""The system's programs, which are seen inside at the same place."""
_SHELLS = f"/bin:{PATH}:/run/current-system/sw/bin"
PROXY_PORT = 3128
OUTPUT = ".cache/hermes"
ETC = (
    "alternatives", "ssl", "ca-certificates", "ca-certificates.conf", "pki", "crypto-policies", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "locale.alias", "locale.conf", "mime.types",
    "services", "protocols", "magic", "terminfo", "inputrc", "bash.bashrc", "profile.d", "fonts", "perl",
    "python3", "python3.11", "java-17-openjdk", "java-21-openjdk", "java-openjdk", "debian_version",
    "os-release", "papersize", "texmf", "R", "nix",
)  # fmt: skip
"""What of /etc programs need, and nothing about the machine or its people."""
_SUDO = """#!/bin/sh
echo 'There is no sudo in this sandbox: nothing of the system can be changed from here.' >&2
exit 1
"""
_TRY_SECONDS = 20.0
_LOOK_SECONDS = 0.25
_TASK_NAME = re.compile(r"[^A-Za-z0-9_-]+")


class Limits(Struct, frozen=True, kw_only=True):
    """What holds inside. `memory` counts for each process, and for all together where a cgroup can be made;
    `file` is the largest file; `temporary` is the size of each folder that is kept in memory; `spared` is
    what commands leave of the disk that the workspace is on, or they are ended."""

    processes: int = 512
    memory: int = 5120 * MIB
    file: int = 51200 * MIB
    open_files: int = 4096
    temporary: int = 1024 * MIB
    spared: int = 512 * MIB

    def as_resources(self, *, count_processes: bool) -> dict[str, int]:
        limits = {"RLIMIT_DATA": self.memory, "RLIMIT_FSIZE": self.file, "RLIMIT_NOFILE": self.open_files}
        if count_processes:
            limits["RLIMIT_NPROC"] = self.processes
        held = {name: most for name, most in limits.items() if most}
        return {**held, "RLIMIT_CORE": 0, "RLIMIT_MEMLOCK": 64 * MIB}


def limits_of(request: BackendRequest) -> Limits:
    """Those of the settings, which containers have too; 0 = none."""
    terminal = request.profile.settings.terminal
    return Limits(memory=terminal.container_memory * MIB, file=terminal.container_disk * MIB)


def is_kept(request: BackendRequest) -> bool:
    """Whether its home outlives the sandbox."""
    return request.profile.settings.terminal.container_persistent


class BoxFolders(Struct, frozen=True, kw_only=True):
    """The folders of one sandbox on the gateway's machine. Several that differ in their network may share
    them; what must not outlive one of them is in the folder of its `life`."""

    root: Path
    life: str = field(default_factory=lambda: f"{os.getpid()}-{os.urandom(6).hex()}")

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def shells(self) -> Path:
        return self.root / "shells"

    @property
    def passing(self) -> Path:
        return self.root / "lives" / self.life

    @property
    def temporary(self) -> Path:
        return self.passing / "tmp"

    def end(self) -> None:
        """Remove what was of this life; and of those whose gateway is gone."""
        shutil.rmtree(self.passing, ignore_errors=True)
        for folder in self.passing.parent.glob("*-*"):
            if not os.path.exists(f"/proc/{folder.name.partition('-')[0]}"):
                shutil.rmtree(folder, ignore_errors=True)

    def prepare(self) -> None:
        """Make them, and what is needed at the start."""
        compile_sources()
        self.end()
        for folder in (self.root, self.home, self.bin, self.temporary):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.bin / "sudo").write_text(_SUDO)
        (self.bin / "sudo").chmod(0o755)


def folders_of(request: BackendRequest, backend: str) -> BoxFolders:
    """Those of the task: the folder that the commands start in. What a stranger has is all in one place, so
    that it can go as a whole."""
    if request.workspace.is_relative_to(request.home / "sandboxes"):
        return BoxFolders(root=request.workspace.parent / "box")
    workspace = str(request.workspace)
    name = _TASK_NAME.sub("-", request.workspace.name)[:40].strip("-") or "root"
    task = f"{name}-{hashlib.sha256(workspace.encode()).hexdigest()[:8]}"
    return BoxFolders(root=request.home / "sandboxes" / backend / task)


def check_workspace(request: BackendRequest) -> None:
    """A `UserError` if it is not there, or if giving it to a sandbox would give it a home of Hermes or a part
    of one that is not for commands."""
    workspace = Path(os.path.realpath(request.workspace))
    if not workspace.is_dir():
        raise UserError(f"There is no folder {request.workspace} for the sandbox.")
    own = is_for_commands(request)
    for home in _homes(request):
        if home.is_relative_to(workspace) or (workspace.is_relative_to(home) and not own):
            raise UserError(
                f"{workspace} holds a home of Hermes or lies in one ({home}), so no sandbox is given it.",
                hint="Work in another folder, or in the home's own `workspace`.",
            )


def is_for_commands(request: BackendRequest) -> bool:
    """Whether the folder is of a home's own for commands, and not one that people work in."""
    workspace = Path(os.path.realpath(request.workspace))
    homes = (home for home in _homes(request) if workspace.is_relative_to(home))
    parts = [workspace.relative_to(home).parts for home in homes]
    return any(p[:1] == ("workspace",) or (p[:1], p[3:4]) == (("sandboxes",), ("workspace",)) for p in parts)


def _homes(request: BackendRequest) -> list[Path]:
    environ = request.environ
    named = [str(request.home), environ.get("HERMES_HOME", ""), f"{environ.get('HOME') or '~'}/.hermes"]
    return [Path(os.path.realpath(os.path.expanduser(home))) for home in named if home]


def find_shell() -> str:
    """bash, by a path that leads to it inside too; a `UserError` if there is none."""
    found = shutil.which("bash", path=_SHELLS)
    real = os.path.realpath(found or "/")
    if found is None or not any(real.startswith(f"{folder}/") for folder in SYSTEM):
        raise UserError("bash is not installed here, and no sandbox works without it.", hint="Install bash.")
    return real


def build_environment(request: BackendRequest, home: str, tools: str) -> dict[str, str]:
    """The variables of commands, from nothing: the usual ones, those that are passed on, and the proxy."""
    environ, names = request.environ, request.passthrough
    env = {"PATH": f"{tools}:{PATH}", "HOME": home, "LANG": environ.get("LANG") or "C.UTF-8"}
    env |= {"TERM": "dumb", "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/bash"}
    env |= {name: environ[name] for name in names if name in environ}
    return env | (proxy_environment() if request.network.hosts and not request.network.open else {})


def proxy_environment() -> dict[str, str]:
    """The variables by which programs find the forwarder inside."""
    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    env = {spelling: proxy for name in names for spelling in (name, name.upper())}
    return env | dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1")


def socket_families(*, internet: bool, unix: bool = False) -> list[int]:
    """Those of `socket`; pairs of sockets are always allowed."""
    inside = [seccomp.INET, seccomp.INET6, seccomp.NETLINK] if internet else []
    return inside + ([seccomp.UNIX] if unix else [])


def inside_plan(**plan: object) -> str:
    """The first argument of `inside.py`."""
    whole = {"forward": None, "landlock": None, "only_try": False, "output": "", **plan}
    return marshal.dumps(whole).hex()  # for the same interpreter; to read JSON it would load much


@contextlib.contextmanager
def folders_to_try() -> Iterator[BoxFolders]:
    with tempfile.TemporaryDirectory(prefix="hermes-probe-") as folder:
        folders = BoxFolders(root=Path(os.path.realpath(folder)))
        folders.prepare()
        yield folders


def try_launch(launch: Launch) -> str:
    """What a sandbox that was told to end at once complains of; empty if it got so far. Blocks."""
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as complaint:
        with launch((theirs.fileno(), theirs.fileno()), complaint) as started:
            theirs.close()
            try:
                if started.wait(_TRY_SECONDS) == 0 and ours.recv(1) == b"!":
                    return ""
            finally:
                started.kill()
        complaint.seek(0)
        lines = complaint.read(4000).decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[-1], 300) if lines else f"it ended with {started.returncode}"


class SandboxOpening:
    """What happens before and at each start of a sandbox, and after its end."""

    def __init__(self, request: BackendRequest, name: str) -> None:
        self.request = request
        self.folders = folders_of(request, name)
        self.limits = limits_of(request)

    async def check(self) -> None:
        """A `UserError` says why there is no such sandbox."""

    def prepare(self) -> None:
        """The same for what takes time to find out; makes what the sandbox needs. Blocks."""
        find_shell()
        check_workspace(self.request)
        self.folders.prepare()

    def launch(self, doors: Sequence[int], complaint: IO[bytes]) -> subprocess.Popen[bytes]:
        """As `Launch`."""
        raise NotImplementedError

    def release(self) -> None:
        """Blocks."""
        self.folders.end()


class SandboxBackend:
    """A backend whose commands and files are both inside."""

    def __init__(self, opening: SandboxOpening, world: World, env: Mapping[str, str]) -> None:
        self._opening = opening
        self._world = world
        self._disk = opening.request.workspace
        self._spared = opening.limits.spared
        self._watcher: asyncio.Task[None] | None = None
        self._filled = False
        self._server = ForkServer(opening.launch, doors=2)
        transport = ForkTransport(self._server)
        self._commands = ShellCommands(
            transport,
            states=ShellStates(opening.folders.shells, start=world.workspace, elsewhere=True),
            env=env,
            kept=f"{world.home}/{OUTPUT}",
            find_folder=self._find_folder,
        )
        self.files = ServedFiles(transport.connect_files, self.cwd, world.home)

    @property
    def processes(self) -> ProcessTable:
        return self._commands.processes

    async def open(self) -> None:
        await self._opening.check()
        await asyncio.to_thread(self._opening.prepare)

    async def health(self) -> str:
        return ""

    def idle(self) -> bool:
        return self._commands.idle

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        await self._commands.close()
        await asyncio.to_thread(self._opening.release)

    async def place(self, session: str = "") -> World:
        return self._world

    async def cwd(self, session: str) -> str:
        return await self._commands.cwd(session)

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        self._watch()
        try:
            return await self._commands.run(command, output)
        except Unreachable as error:
            if not self._filled:
                raise
            left = f"less than {self._spared // MIB} MiB were left"
            raise UserError(f"The sandbox was ended: its commands filled the disk until {left}.") from error

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        self._watch()
        return await self._commands.start(command, ended)

    def _watch(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._filled = False
            self._watcher = asyncio.create_task(self._watch_disk(), name=f"disk of {self._disk}")

    async def _watch_disk(self) -> None:
        """While something runs. A disk that was nearly full before may lose half of the rest."""
        free = await asyncio.to_thread(_free, self._disk)
        least = min(self._spared, free // 2)
        while not self.idle():
            await asyncio.sleep(_LOOK_SECONDS)
            if await asyncio.to_thread(_free, self._disk) < least:
                self._filled = True
                log.warning("sandbox.disk_full backend=%s folder=%s", self._world.sandbox, self._disk)
                await self._server.kill()
                return

    async def _find_folder(self, session: str, path: str) -> str:
        folder = await self.files.resolve(session, path)
        found = await self.files.stat(session, folder)
        if found is None or not found.folder:
            raise UserError(f"There is no folder {folder}.")
        return folder


def _free(folder: Path) -> int:
    """Bytes that an ordinary user may still write there."""
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize


def describe_world(
    request: BackendRequest, sandbox: str, boundary: Boundary, workspace: str, home: str
) -> World:
    return World(
        workspace=workspace,
        home=home,
        system=f"{platform.system()} {platform.release()} ({platform.machine()})",
        shell="bash",
        sandbox=sandbox,
        boundary=boundary,
        network=request.network,
        host_folder=os.path.realpath(request.workspace),
    )
