"""The `local` backend: commands and files of this machine, as the user the gateway runs as. No sandbox.

Each command runs in a fresh shell that takes up where the session's last one left, so neither `exit` nor
`set -e`, an open quote nor a killed shell spoils the next command. The runner (`runner.py`) keeps
each command's processes together; closing the backend ends them all."""

from __future__ import annotations

import asyncio
import os
import pwd
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import Command, CommandResult, ProcessView
from hermes.execution.local.files import LocalFiles
from hermes.execution.local.processes import CommandEnd, ProcessTable, RunningCommand, new_process_id
from hermes.execution.local.shell_states import ShellState, ShellStates, read_dump
from hermes.execution.local.spawner import Spawner

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OUTPUT_DAYS = 7
OUTPUT_FOLDER = "cache/output"
_SHELLS_FOLDER = "cache/shells"


class LocalBackend:
    """`home` is the agent's: what outlives a command (shell states, long outputs) is kept in its cache.
    Commands start in `workspace` and see the variables of `passthrough` besides the usual five."""

    def __init__(
        self, *, home: Path, environ: Mapping[str, str], workspace: Path, passthrough: tuple[str, ...] = ()
    ) -> None:
        self._output = home / OUTPUT_FOLDER
        self._shells = ShellStates(home / _SHELLS_FOLDER, start=str(workspace))
        self._shell = shutil.which("bash", path=f"{_PATH}:{environ.get('PATH', '')}")
        self._env = build_environment(environ, passthrough)
        self._spawner = Spawner(shell=self._shell or "", env=self._env)
        self._tidied = False
        self.processes = ProcessTable()
        self.files = LocalFiles(self.cwd, self._env["HOME"])

    def cwd(self, session: str) -> str:
        return self._shells.get(session).cwd

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        running = await self._open(command)
        try:
            end = await running.hear_end(lambda data: output(data.decode("utf-8", "replace")))
        except asyncio.CancelledError:
            await running.kill()
            raise
        if end is None:
            running.writer.close()
            raise Unreachable("the process that ran the command was killed", maybe_done=True)
        await self._remember(command, end)
        goes_on = end.left and not end.timed_out
        if goes_on:
            running.code = end.code
            self.processes.add(running)
        else:
            running.writer.close()
        return CommandResult(
            output=_output_text(end),
            code=end.code,
            cut=bool(end.cut),
            saved=end.file,
            timed_out=end.timed_out,
            left=running.id if goes_on else "",
            cwd=self.cwd(command.session),
        )

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        self.processes.check_room()
        process = await self._open(command, background=True)
        process.ended = ended
        self.processes.add(process)
        return process.view(take=False)

    async def close(self) -> None:
        await self.processes.close()
        await self._spawner.close()

    async def _open(self, command: Command, *, background: bool = False) -> RunningCommand:
        if not self._shell:
            raise UserError("bash is not installed here.", hint="Commands run in it: install bash.")
        if "\0" in command.text:
            raise UserError("A command cannot contain a NUL character.")
        if not self._tidied:
            self._tidied = True
            await asyncio.to_thread(_tidy, self._output)
        id, state, cwd = new_process_id(), self._shells.get(command.session), self.cwd(command.session)
        if command.cwd is not None:
            cwd = self.files.resolve(command.session, command.cwd)
            if not await asyncio.to_thread(os.path.isdir, cwd):
                raise UserError(f"There is no folder {cwd}.")
        request = {
            "command": command.text,
            "cwd": cwd,
            "state": (state.exports or _exports(self._env)) + _exports(command.env),
            "timeout": command.timeout,
            "file": str(self._output / f"{id}.txt"),
            "background": background,
        }
        reader, writer = await self._spawner.open(request)
        return RunningCommand(
            id=id, session=command.session, text=command.text, cwd=cwd, reader=reader, writer=writer
        )

    async def _remember(self, command: Command, end: CommandEnd) -> None:
        before = self._shells.get(command.session)
        after = read_dump(end.state)
        if after is None or end.timed_out:
            return
        cwd = before.cwd if command.cwd is not None else after.cwd
        state = ShellState(cwd=cwd, exports=after.exports)
        if state != before:
            await asyncio.to_thread(self._shells.put, command.session, state)


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


def _exports(env: Mapping[str, str]) -> str:
    return "".join(f"\nexport {name}={shlex.quote(value)}" for name, value in env.items())


def _output_text(end: CommandEnd) -> str:
    text = (end.head + end.tail).decode("utf-8", "replace")
    if end.cut:
        head, tail = end.head.decode("utf-8", "replace"), end.tail.decode("utf-8", "replace")
        where = f"; the output is in {end.file}" if end.file else ""
        text = f"{head}\n[… {end.cut} bytes left out{where} …]\n{tail}"
    if end.gone:
        text = f"[{end.gone} is gone; the nearest folder above it was used]\n{text}"
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
