"""The command line of a container: which walls it gets, and what may not be bound into it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.ports.world import Boundary, NetworkRules
from hermes.domain.settings.settings import TerminalSettings
from hermes.domain.text import one_line

WORKSPACE = "/workspace"
HOME = "/home/agent"
EGRESS = "/egress"
_PIDS = 256
_MEGABYTE = 1 << 20
# The first process: it ends with nothing but a kill from outside, and reaps whatever loses its parent. Its
# mark tells what it started itself from what has lost its supervisor.
_INIT = "while :; do sleep 3600 & wait; done"
_HARMLESS = frozenset(
    {
        "--ulimit", "--shm-size", "--memory", "-m", "--memory-swap", "--cpus", "--cpu-shares",
        "--cpuset-cpus", "--pids-limit", "--env", "-e", "--label", "-l", "--hostname", "-h", "--dns",
        "--gpus", "--platform", "--tmpfs", "--log-driver", "--log-opt", "--stop-timeout", "--annotation",
    }
)  # fmt: skip
"""Options that open nothing; any other makes a container a weak sandbox."""
_BINDING = ("-v", "--volume", "--mount")
_SOCKETS = (
    "docker.sock", "podman/podman.sock", "containerd/containerd.sock", "crio/crio.sock", "systemd/private",
    "dbus/system_bus_socket", "bus",
)  # fmt: skip


class ContainerPlan(Struct, frozen=True, kw_only=True):
    """A container before it is made. `binds` are folders of this machine by their place in it; `labels` say
    whose it is; `calls` is the file with the filter for system calls. `keep_id` = an ordinary user's podman,
    which has user ids of its own. Two plans with the same `digest` make the same container."""

    name: str
    image: str
    user: str
    settings: TerminalSettings
    network: NetworkRules
    labels: Mapping[str, str]
    binds: Mapping[str, str]
    calls: str = ""
    keep_id: bool = False
    podman: bool = False

    @property
    def digest(self) -> str:
        words = (*self._options(), *self.labels.values())
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]

    def argv(self) -> list[str]:
        labels = dict(self.labels) | {"hermes.digest": self.digest}
        told = [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
        return ["run", "-d", "--name", self.name, *told, *self._options(), "-c", _INIT]

    def _options(self) -> list[str]:
        chosen = self.settings
        empty = ",notmpcopyup" if self.podman else ""  # podman copies the image's folder, and its mode counts
        words = [
            "--pull", "never", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
            "--pids-limit", str(_PIDS), "--user", self.user, "--workdir", WORKSPACE, "--stop-timeout", "0",
            "--hostname", "hermes", "--entrypoint", "sh", "--env", "HERMES_MARK=first",
            "--tmpfs", f"/tmp:rw,nosuid,nodev,size=512m,mode=1777{empty}",
            "--tmpfs", f"/var/tmp:rw,noexec,nosuid,nodev,size=256m,mode=1777{empty}",
            "--tmpfs", f"/run:rw,noexec,nosuid,nodev,size=64m,mode=755{empty}",
        ]  # fmt: skip
        if not self.network.open:
            words += ["--network", "none"]
        if self.calls:
            words += ["--security-opt", f"seccomp={self.calls}"]
        if chosen.docker_runtime:
            words += ["--runtime", chosen.docker_runtime]
        if chosen.container_cpu:
            words += ["--cpus", f"{chosen.container_cpu:g}"]
        if chosen.container_memory:
            words += [
                "--memory",
                f"{chosen.container_memory}m",
                "--memory-swap",
                f"{chosen.container_memory}m",
            ]
        if chosen.container_disk:
            words += ["--ulimit", f"fsize={chosen.container_disk * _MEGABYTE}"]
        if self.keep_id:
            words += ["--userns", "keep-id"]
        for place, source in self.binds.items():
            words += ["--volume", f"{source}:{place}{':ro' if place == EGRESS else ''}"]
        for volume in chosen.docker_volumes:
            words += ["--volume", os.path.expanduser(volume)]
        return [*words, *chosen.docker_extra_args, self.image]


def boundary_of(settings: TerminalSettings) -> Boundary:
    words = option_names(settings.docker_extra_args)
    return Boundary.CONTAINER if words <= _HARMLESS else Boundary.WEAK


def option_names(words: Sequence[str]) -> set[str]:
    """The options among the words of a command line; a word that is nobody's value counts as one."""
    names: set[str] = set()
    value_follows = False
    for word in words:
        if value_follows and not word.startswith("-"):
            value_follows = False
            continue
        name, equals, _ = word.partition("=")
        names.add(name)
        value_follows = not equals
    return names


def check_binds(settings: TerminalSettings, homes: Collection[Path], runtime_folder: str) -> None:
    """A `UserError` if the owner's settings would bind a home of Hermes or a way to the machine itself."""
    sources = [_source(volume) for volume in settings.docker_volumes]
    words = settings.docker_extra_args
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in _BINDING or (word.startswith("-v") and not word.startswith("--")):
            given = (
                value
                if equals and name in _BINDING
                else words[at + 1]
                if word in _BINDING and at + 1 < len(words)
                else word[2:]
            )
            sources.append(_mount_source(given) if name == "--mount" else _source(given))
    for source in filter(None, sources):
        check_source(source, homes, runtime_folder)


def check_source(source: str, homes: Collection[Path], runtime_folder: str, *, inside: bool = True) -> None:
    """`inside` = nothing in a home may be bound either."""
    real = Path(os.path.realpath(source))
    for home in homes:
        home = Path(os.path.realpath(home))
        if home.is_relative_to(real) or (inside and real.is_relative_to(home)):
            raise UserError(
                f"The folder {one_line(source, 100)} cannot be bound into a container: a home of Hermes "
                "is in it or around it.",
                hint="Bind a folder beside it (terminal.docker_volumes).",
            )
    folders = [folder for folder in ("/run", "/var/run", runtime_folder) if folder]
    sockets = [Path(os.path.realpath(folder)) / name for folder in folders for name in _SOCKETS]
    if any(socket.is_relative_to(real) for socket in sockets) or _is_socket(real):
        raise UserError(
            f"{one_line(source, 100)} cannot be bound into a container: it is or holds a socket by which "
            "commands would reach this machine itself.",
            hint="Bind a folder without it (terminal.docker_volumes).",
        )


def _source(volume: str) -> str:
    """The folder of this machine in `host:container[:options]`; empty for a volume by name."""
    source = os.path.expanduser(volume.partition(":")[0])
    return source if source.startswith(("/", ".")) else ""


def _mount_source(mount: str) -> str:
    parts = dict(part.partition("=")[::2] for part in mount.split(","))
    return parts.get("source") or parts.get("src") or ""


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
