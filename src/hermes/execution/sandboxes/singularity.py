"""The backends `singularity` and `apptainer`: commands in an instance of an image file, as an ordinary user,
by the command line of either.

One instance per agent, workspace and network. Its workspace, home and temporary folders last on this machine;
the instance itself ends with its last use. One that a killed gateway left behind is ended, and everything in
it, before the next begins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import NO_NETWORK, BackendRequest, Boundary
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.domain.text import one_line
from hermes.execution.far.backend import FarBackend
from hermes.execution.far.programs import ProgramEnd, run_program
from hermes.execution.sandboxes.bound_place import (
    ANSWER_SECONDS,
    START_SECONDS,
    BoundPlace,
    home_label,
    write_filter,
)
from hermes.execution.sandboxes.container_calls import call_filter
from hermes.execution.sandboxes.container_run import EGRESS, HOME, WORKSPACE
from hermes.execution.sandboxes.probe import SandboxProbe

SINGULARITY, APPTAINER = "singularity", "apptainer"
_TOOL_ENV = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_RUNTIME_DIR")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_PROCESSES = 512
_CHOOSE = "Name a file or folder with one: terminal.singularity_image."


def make_singularity(request: BackendRequest) -> FarBackend:
    """The entry `singularity` of the group `hermes.backends`."""
    return _make(request, SINGULARITY)


def make_apptainer(request: BackendRequest) -> FarBackend:
    """The entry `apptainer`: that program and no other."""
    return _make(request, APPTAINER)


def _make(request: BackendRequest, name: str) -> FarBackend:
    place = InstancePlace(request, name)
    return FarBackend(place, states=place.folder / "shells", given=place.given)


class InstancePlace(BoundPlace):
    """The far world of one instance."""

    def __init__(self, request: BackendRequest, name: str) -> None:
        super().__init__(request, name, request.profile.settings.terminal.singularity_image)
        self._kind = name
        self._of_home = f"hermes-{home_label(request.home)[:8]}-"
        self._name = f"{self._of_home}{self._task}"
        self._ours: set[str] = request.share(("instances", request.home), set)
        self._program = ""
        self._binds: dict[str, str] = {}
        self._calls = ""
        self.tool_env = {name: request.environ[name] for name in _TOOL_ENV if request.environ.get(name)}
        self.tool_env.setdefault("PATH", _PATH)

    @property
    def boundary(self) -> Boundary:
        """Without a filter for system calls it is no better than what it is made of."""
        return Boundary.CONTAINER if call_filter(()) else Boundary.WEAK

    def reach(self, argv: Sequence[str]) -> list[str]:
        chosen = self._settings
        limits = [
            f"ulimit -u {_PROCESSES} 2>/dev/null || ulimit -p {_PROCESSES} 2>/dev/null",
            f"ulimit -v {chosen.container_memory << 10}" if chosen.container_memory else "",
            f"ulimit -f {chosen.container_disk << 11}" if chosen.container_disk else "",
            'exec "$@"',
        ]
        inside = ["sh", "-c", "\n".join(limits), "hermes", *argv]
        return [self._program, "--quiet", "exec", "--cleanenv", "--pwd", "/", self._address, *inside]

    @property
    def _address(self) -> str:
        return f"instance://{self._name}"

    async def open(self) -> None:
        if os.getuid() == 0:
            raise UserError(
                f"A gateway that is root cannot use {self._kind}: its commands would be root's.",
                hint="Run the gateway as an ordinary user, or choose another backend (terminal.backend).",
            )
        self._program = self._find()
        image = await asyncio.to_thread(self._check_image)
        await self._find_egress()
        await asyncio.to_thread(self._prepare)
        async with self._making:
            self._ours.add(self._name)
            await self._have(image)

    async def explain(self, words: str) -> HermesError | None:
        """An instance that is gone is started anew."""
        async with self._making:
            if self._name not in await self._running():
                await self._have(await asyncio.to_thread(self._check_image))
                return None
        if "no instance found" in words.lower():
            return None  # another stream has heard of it first, and it is back
        why = one_line(words, 200) or "it does not say why"
        return Unreachable(f"the container cannot run anything ({why})")

    async def close(self, *, only_orphans: bool = False) -> None:
        """The far end of a stream ends what it started, so nothing is an orphan before the instance ends."""
        if only_orphans or not self._program:
            return
        await self._end_forwarder()
        await self._run("instance", "stop", "-F", self._name)
        self._ours.discard(self._name)
        if not self._settings.container_persistent:
            await asyncio.to_thread(shutil.rmtree, self.folder, True)

    # --- making it ---

    def _find(self) -> str:
        names = [APPTAINER] if self._kind == APPTAINER else [SINGULARITY, APPTAINER]
        path = f"{self.tool_env['PATH']}:{_PATH}"
        program = next(filter(None, (shutil.which(name, path=path) for name in names)), None)
        if program is None:
            raise UserError(
                f"There is no {' and no '.join(names)} on this machine.",
                hint="Install apptainer, or choose another backend (terminal.backend).",
            )
        return program

    def _check_image(self) -> str:
        if not self._image:
            raise UserError(f"No image is named for the backend {self._kind}.", hint=_CHOOSE)
        image, shown = os.path.expanduser(self._image), one_line(self._image, 100)
        if "://" in image:
            raise UserError(
                f"{shown} is not on this machine, and nothing is fetched unasked.",
                hint=f"Run: apptainer pull hermes.sif {shown}; then name that file "
                "(terminal.singularity_image).",
            )
        if not os.access(image, os.R_OK):
            raise UserError(f"The image {shown} is not there or cannot be read.", hint=_CHOOSE)
        return os.path.realpath(image)

    def _prepare(self) -> None:
        self._binds = {str(self._have_workspace()): WORKSPACE}
        for name in ("home", "scratch"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._egress is not None:
            self._binds[str(self._egress.parent)] = f"{EGRESS}:ro"
        for volume in self._settings.docker_volumes:
            source, _, place = os.path.expanduser(volume).partition(":")
            self._binds[source] = place
        for source in self._binds:
            if not source.startswith("/") or ":" in source or "," in source:
                raise UserError(
                    f"{one_line(source, 100)} cannot be bound into a container of {self._kind}.",
                    hint="Name a folder by its full path, without colons and commas.",
                )
        self._calls = write_filter(self.folder, unix=self._egress is not None, names_errors=False)

    def _options(self) -> list[str]:
        words = ["--userns", "--containall", "--no-privs", "--no-mount", "hostfs,bind-paths"]
        words += [] if self._network.open else ["--net", "--network", "none"]
        words += ["--security", f"seccomp:{self._calls}"] if self._calls else []
        words += ["--home", f"{self.folder / 'home'}:{HOME}", "--workdir", str(self.folder / "scratch")]
        for source, place in self._binds.items():
            words += ["--bind", f"{source}:{place}"]
        return words

    async def _have(self, image: str) -> None:
        """The instance runs afterwards, and nothing of one before it, nor what an earlier gateway left."""
        for name in await self._running():
            if name == self._name or (name.startswith(self._of_home) and name not in self._ours):
                await self._run("instance", "stop", "-F", name)
        start = ("instance", "start", *self._options(), image, self._name)
        made = await self._run(*start, seconds=START_SECONDS)
        if made.code:
            raise _not_made(made.complaint, self._kind)
        await self._lead_out()

    async def _running(self) -> list[str]:
        told = await self._run("instance", "list", "--json")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return [each["instance"] for each in json.loads(told.output)["instances"]]
        return []

    async def _run(self, *words: str, seconds: float = ANSWER_SECONDS) -> ProgramEnd:
        return await run_program([self._program, "--quiet", *words], self.tool_env, seconds)


def _not_made(complaint: str, kind: str) -> UserError:
    words = complaint.lower()
    if "user namespace" in words or "userns" in words or "unprivileged" in words:
        return UserError(
            f"{kind} may not make user namespaces on this machine.",
            hint="Allow them: sysctl kernel.unprivileged_userns_clone=1, or "
            "kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu.",
        )
    if "seccomp" in words:
        return UserError(
            f"This {kind} was built without filters for system calls.", hint="Install the usual package."
        )
    lines = [line for line in complaint.splitlines() if "FATAL" in line or "ERROR" in line]
    why = one_line(" ".join((lines or [complaint])[:1]), 300)
    return UserError(f"{kind} cannot start a container: {why}.", hint="See: hermes doctor")


async def _probe(environ: Mapping[str, str], terminal: TerminalSettings, name: str) -> SandboxProbe:
    """Starts a whole instance for a moment."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-probe-"))
    (folder / "workspace").mkdir()
    place = InstancePlace(
        BackendRequest(
            profile=Profile(agent=MAIN_AGENT, home=folder, settings=Settings(terminal=terminal)),
            workspace=folder / "workspace",
            environ={**environ, "HERMES_HOME": str(folder)},
            share=lambda key, make: make(),
            network=NO_NETWORK,
        ),
        name,
    )
    why, remedy = "", ""
    try:
        await place.open()
    except UserError as error:
        why, remedy = error.message, error.hint
    except Unreachable as error:
        why = f"{error}."
    finally:
        await place.close()
        await asyncio.to_thread(shutil.rmtree, folder, True)
    return SandboxProbe(name=name, boundary=place.boundary, works=not why, why=why, remedy=remedy)


async def probe_singularity(environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    return await _probe(environ, terminal, SINGULARITY)


async def probe_apptainer(environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
    return await _probe(environ, terminal, APPTAINER)
