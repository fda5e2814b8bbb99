"""A backend over streams: what is the same for a container and for another machine. Where it is, how it is
reached and what ends it, a `FarPlace` tells."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ports.world import Command, CommandResult, ProcessView, World
from hermes.execution.commands.processes import ProcessTable
from hermes.execution.commands.shell_commands import ShellCommands
from hermes.execution.commands.shell_states import ShellStates
from hermes.execution.far.files import FarFiles
from hermes.execution.far.pipes import Pipes, finish
from hermes.execution.far.shipping import FarFacts, read_survey, server_argv, survey_argv
from hermes.execution.far.streams import StreamPool

_SURVEY_SECONDS = 30.0
_HEALTH_SECONDS = 4.0
_OUTPUT_FOLDER = ".cache/hermes/output"
_OUTPUT_DAYS = 7
_NO_PYTHON = "Install it there, choose another image, or use the other tools."


class FarPlace(Protocol):
    """One far world. `alone` says that every process there is a command's."""

    @property
    def alone(self) -> bool: ...

    async def open(self) -> None:
        """Have it there; a `UserError` or `Unreachable` says why it cannot be."""

    async def start(self, argv: Sequence[str]) -> Pipes:
        """Run this command line there."""

    async def explain(self, words: str) -> HermesError | None:
        """Why nothing could be run there, from what was said; None if that is mended by now."""

    def world(self, facts: FarFacts | None) -> World | None:
        """None if only a survey can tell."""

    async def close(self, *, only_orphans: bool = False) -> None:
        """End what is left there, once nothing is connected to it; or, beside what others run, only what has
        lost its supervisor."""


class FarBackend:
    """`states` is the folder for what lasts between commands; `given` are variables of commands, besides the
    usual ones."""

    def __init__(self, place: FarPlace, *, states: Path, given: Mapping[str, str]) -> None:
        self._place = place
        self._given = given
        self._facts: FarFacts | None = None
        self._world: World | None = None
        self._warming: asyncio.Task[None] | None = None
        self._pool = StreamPool(self._server, place.explain)
        self._env: dict[str, str] = {}
        self._states = ShellStates(states, start="", elsewhere=True)
        self.files = FarFiles(self._pool.query, self.cwd)
        self._commands = ShellCommands(
            self._pool, states=self._states, env=self._env, kept="", find_folder=self.files.check_folder
        )

    @property
    def processes(self) -> ProcessTable:
        return self._commands.processes

    async def open(self) -> None:
        await self._place.open()
        facts = await self._survey()
        world = await self.place()
        self._env.clear()
        self._env |= {
            "PATH": facts.path, "HOME": world.home, "LANG": "C.UTF-8", "TERM": "dumb", "USER": facts.user,
        } | dict(self._given)  # fmt: skip
        self._commands.kept = f"{world.home.rstrip('/')}/{_OUTPUT_FOLDER}"
        self._warming = asyncio.create_task(self._warm(), name="far stream to wait")

    async def _warm(self) -> None:
        """So that the first command waits for nothing; and old outputs, which nobody will ask for, go."""
        with contextlib.suppress(HermesError):
            await self._pool.warm()
            folder = shlex.quote(self._commands.kept)
            old = f"find {folder} -name 'proc_*.txt' -mtime +{_OUTPUT_DAYS} -exec rm -f {{}} +"
            await self._pool.query(old)

    async def health(self) -> str:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                await self._pool.query("true")
        except TimeoutError:
            return "it does not answer"
        except HermesError as error:
            return str(error)
        return ""

    def idle(self) -> bool:
        return self._commands.idle

    async def close(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait((self._warming,))
        await self._commands.close()
        await self._place.close()
        self._facts = None

    async def place(self, session: str = "") -> World:
        if self._world is None:
            world = self._place.world(None) or self._place.world(await self._survey())
            assert world is not None
            self._world = world
            self._states.start, self.files.home = world.workspace, world.home
        return self._world

    async def cwd(self, session: str) -> str:
        await self.place()
        return await self._commands.cwd(session)

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult:
        await self._check_hearing(command)
        try:
            return await self._commands.run(command, output)
        except Unreachable:
            with contextlib.suppress(HermesError):
                await self._place.close(only_orphans=True)
            raise

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        await self._check_hearing(command)
        return await self._commands.start(command, ended)

    async def _check_hearing(self, command: Command) -> None:
        if (command.hear is not None or command.pty) and not (await self._survey()).python:
            raise UserError("There is no Python 3.9 or later in the place of the commands.", hint=_NO_PYTHON)

    async def _server(self) -> Pipes:
        return await self._place.start(server_argv(await self._survey(), alone=self._place.alone))

    async def _survey(self) -> FarFacts:
        if self._facts is None:
            for _ in range(2):
                done = await finish(await self._place.start(survey_argv()), _SURVEY_SECONDS)
                if done.code == 0:
                    self._facts = read_survey(done.output)
                    break
                if error := await self._place.explain(done.complaint):
                    raise error
            else:
                raise Unreachable("the place of the commands is gone as soon as it is there")
        return self._facts
