"""What containers of every engine have in common: which folders of this machine they show and as whose
commands, the variables, and the way to listed hosts."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.ports.world import NO_NETWORK, BackendRequest, Boundary, World
from hermes.execution.far.pipes import Pipes, start_program
from hermes.execution.far.shipping import FarFacts
from hermes.execution.sandboxes.box import PROXY_PORT, proxy_environment, socket_families
from hermes.execution.sandboxes.container_calls import call_filter
from hermes.execution.sandboxes.container_run import EGRESS, HOME, WORKSPACE, check_binds, check_source

FOLDER = "sandboxes"
ANSWER_SECONDS = 10.0
START_SECONDS = 50.0


class BoundPlace:
    """The agent's own workspace is bound into it; the folder of a session elsewhere only if the settings say
    so, else the container has one of its own. `image` is as the settings name it."""

    alone = True
    tool_env: Mapping[str, str]

    def __init__(self, request: BackendRequest, name: str, image: str) -> None:
        self._request = request
        self._settings = settings = request.profile.settings.terminal
        self._image = image
        self._network = request.network if settings.docker_network else NO_NETWORK
        # Not the agent's id: it may get another, and its home is its alone.
        words = (str(request.home), str(request.workspace), str(self._network))
        self._task = f"{name}-{hashlib.sha256('|'.join(words).encode()).hexdigest()[:12]}"
        self._name = f"hermes-{self._task}"
        self.folder = request.home / FOLDER / name / self._task.rpartition("-")[2]
        self._egress: Path | None = None
        self._forwarder: asyncio.subprocess.Process | None = None
        self._making = asyncio.Lock()

    @property
    def given(self) -> dict[str, str]:
        environ, chosen = self._request.environ, self._settings
        names = (*self._request.passthrough, *chosen.docker_forward_env)
        given = {name: environ[name] for name in names if name in environ}
        given |= dict(pair.partition("=")[::2] for pair in chosen.docker_env)
        return given | (proxy_environment() if self._lists_hosts else {})

    @property
    def boundary(self) -> Boundary:
        raise NotImplementedError

    def reach(self, argv: Sequence[str]) -> list[str]:
        raise NotImplementedError

    async def start(self, argv: Sequence[str]) -> Pipes:
        return await start_program(self.reach(argv), self.tool_env)

    def world(self, facts: FarFacts | None) -> World:
        return World(
            workspace=WORKSPACE,
            home=HOME,
            system=f"Linux (container of {self._image})",
            shell="bash, or sh where there is none",
            sandbox="container",
            boundary=self.boundary,
            network=self._network,
            host_folder=str(self._workspace()),
        )

    # --- its folders ---

    def _workspace(self) -> Path:
        own = self._request.workspace.is_relative_to(self._request.home)
        mounted = self._settings.docker_mount_cwd_to_workspace or own
        return Path(os.path.realpath(self._request.workspace if mounted else self.folder / "workspace"))

    def _have_workspace(self) -> Path:
        """Checked with all else that is bound, and made if it is ours. Blocks."""
        environ, home = self._request.environ, self._request.home
        homes = {home, Path(environ.get("HERMES_HOME") or home)}
        homes |= {Path(environ.get("HOME") or "/root") / ".hermes"}
        if home.parent.name == "agents":
            homes.add(home.parent.parent)
        runtime_folder = environ.get("XDG_RUNTIME_DIR", "")
        check_binds(self._settings, homes, runtime_folder)
        workspace = self._workspace()
        check_source(str(workspace), homes, runtime_folder, inside=False)
        if workspace.is_relative_to(os.path.realpath(home)):
            workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not workspace.is_dir():
            raise UserError(f"There is no folder {workspace} for the container.")
        return workspace

    # --- the way to listed hosts ---

    @property
    def _lists_hosts(self) -> bool:
        return bool(self._network.hosts) and not self._network.open

    async def _find_egress(self) -> None:
        if self._lists_hosts:
            if self._request.open_egress is None:
                raise UserError(
                    "The gateway has no egress proxy for the hosts that this container may reach."
                )
            self._egress = await self._request.open_egress()

    async def _lead_out(self) -> None:
        """Have the forwarder run that leads to the listed hosts. It ends with our end of its input."""
        await self._end_forwarder()
        if self._egress is None:
            return
        text = resources.files("hermes.execution.egress").joinpath("forwarder.py").read_text("utf-8")
        to = f"{EGRESS}/{self._egress.name}"
        argv = ["python3", "-I", "-c", text, "--until-stdin-ends", str(PROXY_PORT), to]
        pipe = asyncio.subprocess.PIPE
        self._forwarder = started = await asyncio.create_subprocess_exec(
            *self.reach(argv), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env=self.tool_env,
            cwd="/", start_new_session=True,
        )  # fmt: skip
        assert started.stdout is not None
        listens = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                listens = await started.stdout.readline()
        if listens.strip() != str(PROXY_PORT).encode():
            raise UserError(
                f"A container of {self._image} has no Python, so it reaches no listed host.",
                hint="Choose another image (terminal.docker_image, terminal.singularity_image), or set the "
                "network to none or open.",
            )

    async def _end_forwarder(self) -> None:
        forwarder, self._forwarder = self._forwarder, None
        if forwarder is not None and forwarder.returncode is None:
            assert forwarder.stdin is not None
            forwarder.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                forwarder.kill()
            await forwarder.wait()


def home_label(home: Path) -> str:
    return hashlib.sha256(os.path.realpath(home).encode()).hexdigest()[:16]


def write_filter(folder: Path, *, unix: bool, names_errors: bool = True) -> str:
    """The file with the filter for system calls; named by what is in it, so that another one makes another
    container. With `unix`, paths of sockets can be used, as the way to listed hosts needs it."""
    text = call_filter(socket_families(internet=True, unix=unix), names_errors=names_errors)
    if not text:
        return ""
    path = folder / f"calls-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    if not path.exists():
        path.write_text(text)
    return str(path)
