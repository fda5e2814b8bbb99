"""The backends `docker` and `podman`: commands in a container, by the command line of either engine.

One container per agent, workspace and network, found again after a restart by its labels. It is made when it
is first needed, made anew when it is gone or the settings say otherwise, and removed at the end unless it is
to be kept. What an earlier gateway of this home left behind and nobody can use goes at the first opening."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ports.world import NO_NETWORK, BackendRequest, Boundary
from hermes.domain.settings.settings import TerminalSettings
from hermes.domain.text import one_line
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.programs import ProgramEnd, run_program
from hermes.execution.sandboxes.bound_place import (
    ANSWER_SECONDS,
    FOLDER,
    START_SECONDS,
    BoundPlace,
    home_label,
    write_filter,
)
from hermes.execution.sandboxes.container_run import EGRESS, HOME, WORKSPACE, ContainerPlan, boundary_of
from hermes.execution.sandboxes.probe import SandboxProbe

DOCKER, PODMAN = "docker", "podman"
_USER = 1000
_TOOL_ENV = (
    "PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF",
)  # fmt: skip
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
# What lost its parent has become a child of the first process: nobody supervises it any more. It may take a
# moment to get there.
_SWEEP = """for i in 1 2 3; do for s in /proc/[0-9]*/stat; do
read -r l 2>/dev/null <"$s" || continue; p=${l%% *}; set -- ${l##*) }
[ "$2" = 1 ] && ! grep -qs HERMES_MARK= /proc/$p/environ && kill -KILL $p
done; sleep 0.2 || sleep 1; done 2>/dev/null; true"""
_CLEAR = "kill -KILL -1"


def make_docker(request: BackendRequest) -> FarBackend:
    """The entry `docker` of the group `hermes.backends`."""
    return _make(request, DOCKER)


def make_podman(request: BackendRequest) -> FarBackend:
    """The entry `podman`: that engine and no other, unless the settings name one."""
    return _make(request, PODMAN)


def _make(request: BackendRequest, name: str) -> FarBackend:
    place = ContainerPlace(request, name)
    return FarBackend(place, states=place.folder / "shells", given=place.given)


class ContainerEngine:
    """The command line of docker or podman: whichever the settings name and answers first."""

    def __init__(self, chosen: str, preferred: str, environ: Mapping[str, str]) -> None:
        self.env = {name: environ[name] for name in _TOOL_ENV if environ.get(name)}
        self.env.setdefault("PATH", _PATH)
        named = (
            [chosen] if chosen not in ("", "auto") else [PODMAN] if preferred == PODMAN else [DOCKER, PODMAN]
        )
        self._names = named
        self.program = ""
        self.is_podman = False

    async def find(self) -> None:
        """A `UserError` says what is missing."""
        if self.program:
            return
        trouble: UserError | None = None
        for name in self._names:
            program = shutil.which(name, path=f"{self.env['PATH']}:{_PATH}")
            if program is None:
                continue
            told = await run_program([program, "version"], self.env, ANSWER_SECONDS)
            if told.code == 0:
                self.program = program
                self.is_podman = b"podman" in told.output.lower()
                return
            trouble = trouble or _no_engine(program, told.complaint)
        raise trouble or UserError(
            f"There is no {' and no '.join(self._names)} on this machine.",
            hint="Install docker.io or podman, or choose another backend (terminal.backend).",
        )

    @property
    def keeps_ids(self) -> bool:
        """An ordinary user's podman has user ids of its own, unless it is told to keep ours."""
        return self.is_podman and os.getuid() != 0

    async def run(self, *words: str, seconds: float = ANSWER_SECONDS) -> ProgramEnd:
        return await run_program([self.program, *words], self.env, seconds)


class ContainerPlace(BoundPlace):
    """The far world of one container."""

    def __init__(self, request: BackendRequest, name: str) -> None:
        settings = request.profile.settings.terminal
        super().__init__(request, name, settings.docker_image)
        self._engine: ContainerEngine = request.share(
            ("container engine", name, settings.docker_binary),
            lambda: ContainerEngine(settings.docker_binary, name, request.environ),
        )
        self._reaped: set[str] = request.share(("containers reaped", request.home), set)
        self.tool_env = self._engine.env
        self._plan: ContainerPlan | None = None

    @property
    def boundary(self) -> Boundary:
        return boundary_of(self._settings)

    def reach(self, argv: Sequence[str]) -> list[str]:
        return [self._engine.program, "exec", "-i", self._name, *argv]

    async def open(self) -> None:
        await self._engine.find()
        await self._find_egress()
        self._plan = await asyncio.to_thread(self._prepare)
        async with self._making:
            await self._have()

    async def explain(self, words: str) -> HermesError | None:
        """A container that is gone is made anew."""
        async with self._making:
            if "no such container" in words.lower() or not await self._is_running():
                await self._have()
                return None
        why = one_line(words, 200) or "it does not say why"
        return Unreachable(f"the container cannot run anything ({why})")

    async def close(self, *, only_orphans: bool = False) -> None:
        if self._plan is None or not self._engine.program:
            return
        if only_orphans:
            await self._engine.run("exec", self._name, "sh", "-c", _SWEEP)
            return
        await self._end_forwarder()
        if self._settings.container_persistent:
            await self._engine.run("exec", self._name, "sh", "-c", _CLEAR)
        else:
            await self._engine.run("rm", "-f", self._name)
            await asyncio.to_thread(shutil.rmtree, self.folder, True)

    # --- making it ---

    def _prepare(self) -> ContainerPlan:
        """What must hold before anything is bound; makes the folders that are. Blocks."""
        home, workspace = self._request.home, self._have_workspace()
        made = workspace.is_relative_to(os.path.realpath(home / FOLDER))
        user, group = _owner(workspace, made=made, ours=self._settings.docker_run_as_host_user)
        # A home for each user: what is in it changes hands as little as the workspace does.
        inside_home = self.folder / f"home-{user}"
        inside_home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _owner(inside_home, made=True, user=user, group=group)
        binds = {WORKSPACE: str(workspace), HOME: str(inside_home)}
        return self._describe(
            f"{user}:{group}", binds, write_filter(self.folder, unix=self._egress is not None)
        )

    def _describe(self, user: str, binds: dict[str, str], calls: str) -> ContainerPlan:
        return ContainerPlan(
            name=self._name,
            image=self._settings.docker_image,
            user=user,
            settings=self._settings,
            network=self._network,
            labels={
                "hermes.home": home_label(self._request.home),
                "hermes.agent": self._request.profile.agent,
                "hermes.task": self._task,
                "hermes.folder": str(self._request.home),
                "hermes.kept": str(int(self._settings.container_persistent)),
            },
            binds=binds if self._egress is None else binds | {EGRESS: str(self._egress.parent)},
            calls=calls,
            keep_id=self._engine.keeps_ids,
            podman=self._engine.is_podman,
        )

    async def _have(self) -> None:
        """The container runs afterwards, and nothing in it that was there before."""
        plan, mine = self._plan, None
        assert plan is not None, "it was not opened"
        for found in await self._of_home():
            labels = found["Config"]["Labels"]
            if found["Name"].lstrip("/") == plan.name:
                mine = found
            elif self._engine.program not in self._reaped and _is_orphan(labels, found):
                await self._engine.run("rm", "-f", found["Id"])
        self._reaped.add(self._engine.program)
        if mine is not None:
            fits = mine["Config"]["Labels"].get("hermes.digest") == plan.digest
            if fits and mine["State"]["Running"]:
                await self._engine.run("exec", plan.name, "sh", "-c", _CLEAR)
                await self._lead_out()
                return
            await self._engine.run("rm", "-f", plan.name)
        made = await self._engine.run(*plan.argv(), seconds=START_SECONDS)
        if made.code:
            await self._engine.run("rm", "-f", plan.name)
            raise _not_made(made.complaint, plan.image, self._engine.program)
        await self._lead_out()

    async def _is_running(self) -> bool:
        told = await self._engine.run("inspect", "--format", "{{.State.Running}}", self._name)
        return told.code == 0 and told.output.strip() == b"true"

    async def _of_home(self) -> list[dict[str, Any]]:
        label = f"label=hermes.home={home_label(self._request.home)}"
        ids = (await self._engine.run("ps", "-aq", "--filter", label)).output.decode().split()
        if not ids:
            return []
        told = await self._engine.run("inspect", *ids)
        with contextlib.suppress(ValueError):  # one of them may just have gone
            return list(json.loads(told.output))
        return []


def _owner(
    folder: Path, *, made: bool, ours: bool = False, user: int = _USER, group: int = _USER
) -> tuple[int, int]:
    """Whose commands are that work in a folder: the gateway's user, and where that is root, whoever owns the
    folder, so that nobody's files change hands. One that was `made` for containers and is empty is given to
    the user. With `ours` they are root's, without any of root's rights."""
    here = (os.getuid(), os.getgid())
    if here[0]:
        return here
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if made and not ours and not os.listdir(opened):
            os.fchown(opened, user, group)
        info = os.fstat(opened)
    finally:
        os.close(opened)
    if ours and info.st_uid:
        raise UserError(
            f"Commands in a container run as root without its rights, who may not change {folder}.",
            hint="Set terminal.docker_run_as_host_user: false, so that they run as its owner.",
        )
    return info.st_uid, info.st_gid


def _is_orphan(labels: Mapping[str, str], container: Mapping[str, Any]) -> bool:
    """Whether nobody can use it any more: not to be kept, ended, or of an agent that is gone."""
    gone = not os.path.isdir(labels.get("hermes.folder", ""))
    return labels.get("hermes.kept") != "1" or not container["State"]["Running"] or gone


def _no_engine(program: str, complaint: str) -> UserError:
    name = os.path.basename(program)
    words = complaint.lower()
    if "permission denied" in words:
        return UserError(
            f"The user of the gateway may not use {name}.",
            hint="Add it to the group docker and start the gateway again, or install podman.",
        )
    if "daemon" in words or "connect" in words:
        return UserError(
            f"{name} is installed, but its daemon does not answer.",
            hint="Start it: sudo systemctl start docker; or install podman, which needs none.",
        )
    return UserError(f"{name} does not work: {one_line(complaint, 200)}.", hint="Try: " + f"{name} version")


def _not_made(complaint: str, image: str, program: str) -> UserError:
    name, words = os.path.basename(program), complaint.lower()
    if "image" in words and any(
        each in words for each in ("no such", "not known", "unable to find", "not resolve")
    ):
        return UserError(
            f"The image {image} is not on this machine.",
            hint=f"Get it: {name} pull {image}; or name another (terminal.docker_image).",
        )
    if "executable file not found" in words or ("no such file or directory" in words and "sh" in words):
        return UserError(f"The image {image} has no shell.", hint="Name another (terminal.docker_image).")
    if ("runtime" in words and "not found" in words) or "unknown or invalid runtime" in words:
        return UserError(
            f"{name} does not know the OCI runtime of terminal.docker_runtime.", hint="Install it."
        )
    if "rlimit" in words:
        return UserError(
            f"{name} cannot set its usual limits on this machine.",
            hint="Set terminal.docker_extra_args: [--ulimit, nofile=1024:4096, --ulimit, nproc=512:512]",
        )
    return UserError(f"{name} cannot start a container: {one_line(complaint, 300)}.")


async def _probe(environ: Mapping[str, str], terminal: TerminalSettings, name: str) -> SandboxProbe:
    """Starts a whole container for a moment."""
    engine = ContainerEngine(terminal.docker_binary, name, environ)
    why, remedy = "", ""
    try:
        await engine.find()
        await _try(engine, terminal, name)
    except UserError as error:
        why, remedy = error.message, error.hint
    except Unreachable as error:
        why = f"{error}."
    boundary = boundary_of(terminal)
    return SandboxProbe(name=name, boundary=boundary, works=not why, why=why, remedy=remedy)


async def _try(engine: ContainerEngine, terminal: TerminalSettings, name: str) -> None:
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-probe-"))
    plan = ContainerPlan(
        name=f"hermes-probe-{name}-{folder.name[-8:]}",
        image=terminal.docker_image,
        user=f"{os.getuid()}:{os.getgid()}",
        settings=terminal,
        network=NO_NETWORK,
        labels={},
        binds={WORKSPACE: str(folder)},
        calls=await asyncio.to_thread(write_filter, folder, unix=False),
        keep_id=engine.keeps_ids,
        podman=engine.is_podman,
    )
    try:
        made = await engine.run(*plan.argv(), seconds=START_SECONDS)
        if made.code:
            raise _not_made(made.complaint, plan.image, engine.program)
    finally:
        await engine.run("rm", "-f", plan.name)
        await asyncio.to_thread(shutil.rmtree, folder, True)


async def probe_docker(environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    return await _probe(environ, terminal, DOCKER)


async def probe_podman(environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    return await _probe(environ, terminal, PODMAN)
