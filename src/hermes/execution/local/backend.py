"""The `local` backend: commands and files of this machine, as the user the gateway runs as. No sandbox.

The runner (`runner.py`) keeps each command's processes together; closing the backend ends them all."""

from __future__ import annotations

import asyncio
import os
import platform
import pwd
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.ports.world import (
    OUTPUT_FOLDER,
    BackendRequest,
    Command,
    CommandResult,
    ProcessView,
    World,
)
from hermes.execution.commands.fork_server import ForkServer, ForkTransport, launch_here
from hermes.execution.commands.processes import ProcessTable
from hermes.execution.commands.shell_commands import ShellCommands
from hermes.execution.commands.shell_states import ShellStates
from hermes.execution.commands.transport import Transport
from hermes.execution.local.files import LocalFiles

_SHELL = "bash"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OUTPUT_DAYS = 7
_SHELLS_FOLDER = "cache/shells"


def make_local(request: BackendRequest) -> LocalBackend:
    """The entry `local` of the group `hermes.backends`."""
    env, shell = build_environment(request.environ, request.passthrough), find_shell(request.environ)
    key = ("local", shell, *sorted(env.items()))
    server = request.share(key, lambda: ForkServer(launch_here(shell, env)))
    return LocalBackend(
        home=request.home, env=env, workspace=request.workspace, shell=shell, transport=ForkTransport(server)
    )


class LocalBackend:
    """`home` is the agent's: what outlives a command (shell states, long outputs) is kept in its cache.
    Commands start in `workspace` with the variables of `env`, in the `shell` at this path."""

    def __init__(
        self, *, home: Path, env: Mapping[str, str], workspace: Path, shell: str, transport: Transport
    ) -> None:
        self._output = home / OUTPUT_FOLDER
        self._shell = shell
        self._world = World(
            workspace=str(workspace),
            home=env["HOME"],
            system=f"{platform.system()} {platform.release()} ({platform.machine()})",
            shell=_SHELL,
            host_files=True,
            host_folder=str(workspace),
        )
        self._commands = ShellCommands(
            transport,
            states=ShellStates(home / _SHELLS_FOLDER, start=str(workspace)),
            env=env,
            kept=str(self._output),
            find_folder=self._find_folder,
        )
        self.files = LocalFiles(self.cwd, env["HOME"])

    @property
    def processes(self) -> ProcessTable:
        return self._commands.processes

    async def open(self) -> None:
        if not self._shell:
            raise UserError(f"{_SHELL} is not installed here.", hint=f"Commands run in it: install {_SHELL}.")
        await asyncio.to_thread(_tidy, self._output)

    async def health(self) -> str:
        return "" if self._shell else f"{_SHELL} is not installed"

    def idle(self) -> bool:
        return self._commands.idle

    async def close(self) -> None:
        await self._commands.close()

    async def place(self, session: str = "") -> World:
        return self._world

    async def cwd(self, session: str) -> str:
        return await self._commands.cwd(session)

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        return await self._commands.run(command, output)

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        return await self._commands.start(command, ended)

    async def _find_folder(self, session: str, path: str) -> str:
        folder = await self.files.resolve(session, path)
        if not await asyncio.to_thread(os.path.isdir, folder):
            raise UserError(f"There is no folder {folder}.")
        return folder


def find_shell(environ: Mapping[str, str]) -> str:
    """The path of the shell; empty if there is none."""
    return shutil.which(_SHELL, path=f"{_PATH}:{environ.get('PATH', '')}") or ""


def build_environment(environ: Mapping[str, str], passthrough: tuple[str, ...] = ()) -> dict[str, str]:
    """The variables of a child, from nothing: the usual five, and those of `passthrough`."""
    account = pwd.getpwuid(os.getuid())
    env = {
        "PATH": environ.get("PATH") or _PATH,
        "HOME": environ.get("HOME") or account.pw_dir,
        "LANG": environ.get("LANG") or "C.UTF-8",
        "TERM": "dumb",
        "USER": environ.get("USER") or account.pw_name,
    }
    return env | {name: environ[name] for name in passthrough if name in environ}


def _tidy(folder: Path) -> None:
    """Remove saved outputs nobody will ask for any more."""
    limit = time.time() - _OUTPUT_DAYS * 86_400
    for path in folder.glob("proc_*.txt"):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
        except OSError:
            continue
