"""The machine of a job, for tests: scripts are functions, outputs are kept in a dictionary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hermes.domain.chats.address import Source
from hermes.domain.errors import UserError
from hermes.domain.ids import JobId, SessionId
from hermes.domain.turns.job import ScriptReport


@dataclass(slots=True, kw_only=True)
class FakeJobWorld:
    """`scripts` by name; `ran` is every start of one, `outputs` every file by job and name."""

    scripts: dict[str, Callable[[], Awaitable[ScriptReport]]] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    ran: list[str] = field(default_factory=list)
    entered: dict[str, str] = field(default_factory=dict)
    outputs: dict[tuple[str, str], str] = field(default_factory=dict)

    async def check(self, script: str, workdir: str, maker: Source | None) -> None:
        if script and script not in self.scripts:
            raise UserError(f"There is no script “{script}”.")
        if workdir and workdir not in self.folders:
            raise UserError(f"There is no folder “{workdir}”.")

    async def enter(self, session: SessionId, workdir: str, maker: Source | None) -> str:
        self.entered[session] = workdir
        return ""

    async def run_script(self, name: str, workdir: str, seconds: float) -> ScriptReport:
        self.ran.append(name)
        return await self.scripts[name]()

    async def keep_output(self, job: JobId, file: str, text: str, most: int) -> None:
        self.outputs[job, file] = text
