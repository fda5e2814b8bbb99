"""Commands over a transport, whatever it is. Each runs in a fresh shell that takes up where the session's
last one left, so neither `exit` nor `set -e`, an open quote nor a killed shell spoils the next command."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import Command, CommandResult, ProcessView
from hermes.domain.word import replace
from hermes.execution.commands import frames
from hermes.execution.commands.processes import CommandEnd, ProcessTable, RunningCommand, new_process_id
from hermes.execution.commands.shell_states import ShellState, ShellStates, read_dump
from hermes.execution.commands.transport import Connection, Transport

_ON_TERMINAL = {"TERM": "xterm-256color"}
FindFolder = Callable[[str, str], Awaitable[str]]
"""The folder that a path means in a session; a `UserError` if there is none."""


class ShellCommands:
    """`env` are the gateway's variables for commands. Outputs that are too long are kept in the folder
    `kept`, which is one of the world that commands run in."""

    def __init__(
        self,
        transport: Transport,
        *,
        states: ShellStates,
        env: Mapping[str, str],
        kept: str,
        find_folder: FindFolder,
    ) -> None:
        self._transport = transport
        self._states = states
        self._env = env
        self.kept = kept
        self._find_folder = find_folder
        self._running = 0
        self.processes = ProcessTable()

    @property
    def idle(self) -> bool:
        return not self._running and not self.processes.running

    async def cwd(self, session: str) -> str:
        return (await self._states.get(session)).cwd

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        self._running += 1
        try:
            return await self._run(command, output)
        finally:
            self._running -= 1

    async def _run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        running = await self._open(command)
        try:
            end = await running.hear_end(lambda data: output(data.decode("utf-8", "replace")))
        except asyncio.CancelledError:
            await running.kill()
            raise
        if end is None:
            running.connection.close()
            raise Unreachable("the process that ran the command was killed", maybe_done=True)
        await self._remember(command, end)
        goes_on = end.left and not end.timed_out
        if goes_on:
            running.code = end.code
            self.processes.add(running)
        else:
            running.connection.close()
        return CommandResult(
            output=_output_text(end),
            code=end.code,
            cut=bool(end.cut),
            saved=end.file,
            timed_out=end.timed_out,
            left=running.id if goes_on else "",
            cwd=await self.cwd(command.session),
        )

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        self.processes.check_room()
        self._running += 1  # until the table counts it
        try:
            process = await self._open(command, background=True)
            process.ended = ended
            self.processes.add(process)
        finally:
            self._running -= 1
        return process.view()

    async def close(self) -> None:
        await self.processes.close()
        await self._transport.close()

    async def _open(self, command: Command, *, background: bool = False) -> RunningCommand:
        id, state = new_process_id(), await self._states.get(command.session)
        cwd = state.cwd
        if command.cwd is not None:
            cwd = await self._find_folder(command.session, command.cwd)
        request = {
            frames.FOLDER: cwd,
            frames.STATE: self._variables(state)
            + _exports({**(_ON_TERMINAL if command.pty else {}), **command.env}),
            frames.KEEP: f"{self.kept}/{id}.txt",
            frames.COMMAND: command.text,
        }
        parts = {letter: _encoded(text) for letter, text in request.items()}
        if command.password is not None:
            parts[frames.MAY_ASK] = b""
        if command.hear is not None:
            parts[frames.MAY_CALL] = b""
        if command.pty:
            parts[frames.TERMINAL] = b""
        if command.watch:
            parts[frames.WATCH] = _encoded("\n".join(command.watch))
        parts[frames.RUN] = frames.pack_numbers(command.timeout, background)
        connection = await self._connect(parts)
        if command.hear is not None:
            connection.send(frames.WRITE, command.given)
        return RunningCommand(
            id=id,
            session=command.session,
            text=command.text,
            cwd=cwd,
            connection=connection,
            password=command.password,
            hear=command.hear,
            terminal=command.pty,
            watched=tuple(map(_encoded, command.watch)),
            wrote=command.wrote,
        )

    def _variables(self, state: ShellState) -> str:
        """Shell code for what the session exported, with the gateway's own variables as they are now: what
        was given anew, changed or taken away since counts, unless the session set that name itself."""
        if not state.exports:
            return _exports(self._env)
        code, before, now = [state.exports], state.given, self._env
        for name in dict.fromkeys((*before, *now)):
            if before.get(name) == now.get(name):
                continue
            change = f"export {name}={shlex.quote(now[name])}" if name in now else f"unset {name}"
            untouched = (
                f'[ "${{{name}-}}" = {shlex.quote(before[name])} ]'
                if name in before
                else f'[ -z "${{{name}+x}}" ]'
            )
            code.append(f"\nif {untouched}; then {change}; fi")
        return "".join(code)

    async def _connect(self, request: Mapping[bytes, bytes]) -> Connection:
        """A connection on which the request was accepted."""
        connection, accepted = await self._transport.connect(), False
        try:
            for letter, payload in request.items():
                connection.send(letter, payload)
            accepted = await connection.receive() == (frames.ACCEPTED, b"")
        finally:
            if not accepted:
                connection.close()
        if not accepted:
            raise Unreachable("the process that was to run the command did not take it")
        return connection

    async def _remember(self, command: Command, end: CommandEnd) -> None:
        before = await self._states.get(command.session)
        after = read_dump(end.state)
        if after is None or end.timed_out:
            return
        cwd = before.cwd if command.cwd is not None else after.cwd
        state = replace(before, cwd=cwd)
        if not command.pty:  # what was exported for its terminal is nothing for the next command
            state = ShellState(cwd=cwd, exports=after.exports, given=dict(self._env))
        if state != before:
            await self._states.put(command.session, state)


def _exports(env: Mapping[str, str]) -> str:
    return "".join(f"\nexport {name}={shlex.quote(value)}" for name, value in env.items())


def _encoded(text: str) -> bytes:
    if "\0" in text:
        raise UserError("A command cannot contain a NUL character.")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UserError("A command cannot contain half a character.") from None


def _output_text(end: CommandEnd) -> str:
    text = (end.head + end.tail).decode("utf-8", "replace")
    if end.cut:
        head, tail = end.head.decode("utf-8", "replace"), end.tail.decode("utf-8", "replace")
        where = f"; the output is in {end.file}" if end.file else ""
        text = f"{head}\n[… {end.cut} bytes left out{where} …]\n{tail}"
    if end.gone:
        text = f"[{end.gone} is gone; the nearest folder above it was used]\n{text}"
    return text
