"""The `local` backend: commands and files of this machine, as the user the gateway runs as. No sandbox.

Each command runs in a fresh shell that takes up where the session's last one left, so neither `exit` nor
`set -e`, an open quote nor a killed shell spoils the next command. The runner (`runner.py`) keeps
each command's processes together; closing the backend ends them all."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import Command, CommandResult, ProcessView
from hermes.execution.local.files import LocalFiles
from hermes.execution.local.processes import BackgroundProcess, ProcessTable, new_process_id
from hermes.execution.local.shell_states import ShellState, ShellStates, read_dump
from hermes.execution.local.spawner import CommandConnection, CommandEnd, CommandLimits, Spawner, SpawnRequest

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OUTPUT_DAYS = 7
OUTPUT_FOLDER = "cache/output"
_SHELLS_FOLDER = "cache/shells"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Where commands start, which variables they see beside the usual five, and how much they may do."""

    workspace: Path
    passthrough: tuple[str, ...] = ()
    limits: CommandLimits = field(default_factory=CommandLimits)


class LocalBackend:
    """`home` is the agent's: what outlives a command (shell states, long outputs) is kept in its cache."""

    def __init__(self, *, home: Path, environ: Mapping[str, str], options: LocalOptions) -> None:
        self._output = home / OUTPUT_FOLDER
        self._shells = ShellStates(home / _SHELLS_FOLDER, start=str(options.workspace))
        shell = shutil.which("bash", path=f"{_PATH}:{environ.get('PATH', '')}")
        env = build_environment(environ, options.passthrough)
        self._home = env["HOME"]
        self._spawner = Spawner(shell=shell or "", env=env, limits=options.limits)
        self._has_shell = shell is not None
        self._table = ProcessTable()
        self._files = LocalFiles(self.cwd, self._home)
        self._tidied = False

    @property
    def files(self) -> LocalFiles:
        return self._files

    @property
    def processes(self) -> ProcessTable:
        return self._table

    def cwd(self, session: str) -> str:
        return self._shells.get(session).cwd

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        name = new_process_id()
        request, line = await self._open(command, name, background=False)
        try:
            end = await line.hear_end(lambda data: output(data.decode("utf-8", "replace")))
        except asyncio.CancelledError:
            await line.end()
            raise
        if end is None:
            line.close()
            raise Unreachable("the process that ran the command was killed", maybe_done=True)
        await self._remember(command, end)
        left = ""
        if end.facts["left"] and not end.facts["timed_out"]:
            left = self._adopt(name, command, request, line, int(end.facts["code"]))
        else:
            line.close()
        return CommandResult(
            output=_output_text(end),
            code=int(end.facts["code"]),
            cut=bool(end.facts["cut"]),
            saved=str(end.facts["file"]),
            timed_out=bool(end.facts["timed_out"]),
            left=left,
            cwd=self.cwd(command.session),
        )

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        self._table.check_room()
        name = new_process_id()
        request, line = await self._open(command, name, background=True)
        process = BackgroundProcess(
            id=name,
            session=command.session,
            command=command.text,
            cwd=request.cwd,
            line=line,
            file=request.file,
            ended=ended,
        )
        self._table.add(process)
        return process.view(take=False)

    async def close(self) -> None:
        await self._table.close()
        await self._spawner.close()

    async def _open(
        self, command: Command, name: str, *, background: bool
    ) -> tuple[SpawnRequest, CommandConnection]:
        if not self._has_shell:
            raise UserError("bash is not installed here.", hint="Commands run in it: install bash.")
        if not self._tidied:
            self._tidied = True
            await asyncio.to_thread(_tidy, self._output)
        state = self._shells.get(command.session)
        request = SpawnRequest(
            command=command.text,
            cwd=self._absolute(command.cwd, state.cwd),
            env=command.env,
            state=state.exports,
            timeout=command.timeout,
            file=str(self._output / f"{name}.txt"),
            background=background,
        )
        if command.cwd is not None and not await asyncio.to_thread(os.path.isdir, request.cwd):
            raise UserError(f"There is no folder {request.cwd}.")
        return request, await self._spawner.open(request)

    def _absolute(self, path: str | None, cwd: str) -> str:
        if not path:
            return cwd
        path = self._home + path[1:] if path == "~" or path.startswith("~/") else path
        return os.path.normpath(os.path.join(cwd, path))

    async def _remember(self, command: Command, end: CommandEnd) -> None:
        before = self._shells.get(command.session)
        after = read_dump(end.state)
        if after is None or end.facts["timed_out"]:
            return
        cwd = before.cwd if command.cwd is not None else after.cwd
        state = ShellState(cwd=cwd, exports=after.exports)
        if state != before:
            await asyncio.to_thread(self._shells.put, command.session, state)

    def _adopt(
        self, name: str, command: Command, request: SpawnRequest, line: CommandConnection, code: int
    ) -> str:
        """What a finished command left running goes on as a background process."""
        process = BackgroundProcess(
            id=name,
            session=command.session,
            command=command.text,
            cwd=request.cwd,
            line=line,
            file=request.file,
            ended=lambda view: None,
            code=code,
        )
        self._table.add(process)
        return name


def build_environment(environ: Mapping[str, str], passthrough: tuple[str, ...] = ()) -> dict[str, str]:
    """The variables of a child, from nothing: the usual five, and those that were asked for by name."""
    account = pwd.getpwuid(os.getuid())
    env = {
        "PATH": environ.get("PATH") or _PATH,
        "HOME": environ.get("HOME") or account.pw_dir,
        "LANG": environ.get("LANG") or "C.UTF-8",
        "TERM": "dumb",
        "USER": environ.get("USER") or account.pw_name,
    }
    return env | {name: environ[name] for name in passthrough if name in environ}


def _output_text(end: CommandEnd) -> str:
    head, tail = end.head.decode("utf-8", "replace"), end.tail.decode("utf-8", "replace")
    text = head + tail
    if end.facts["cut"]:
        where = f"; the output is in {end.facts['file']}" if end.facts["file"] else ""
        text = f"{head}\n[… {end.facts['cut']} bytes left out{where} …]\n{tail}"
    if end.facts["gone"]:
        text = f"[{end.facts['gone']} is gone; the nearest folder above it was used]\n{text}"
    return text


def _tidy(folder: Path) -> None:
    """Remove saved outputs nobody will ask for any more."""
    limit = time.time() - _OUTPUT_DAYS * 86_400
    for path in folder.glob("proc_*.txt"):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
        except OSError:
            continue
