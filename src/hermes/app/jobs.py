"""Jobs and the machine: their scripts, folders and files, and the `cronjob` tool's way to them."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hermes.app.agents.agent_backends import AgentBackends
from hermes.control.gateway import Gateway
from hermes.control.jobs.editing import JobAction, JobSpec
from hermes.control.jobs.wording import job_line
from hermes.domain.chats.address import Source
from hermes.domain.errors import UserError
from hermes.domain.ids import JobId, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.ports.world import Backend, Command
from hermes.domain.tools.tool import ToolContext
from hermes.domain.turns.job import ScriptReport
from hermes.domain.word import field_names
from hermes.execution.scripts import Scripts
from hermes.state.files.job_files import keep_output

log = logging.getLogger("hermes.cron")


class HomeJobs:
    """The machine as the jobs of one agent see it: `scripts/` and `cron/output/` of its home."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        backends: AgentBackends,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._home = home
        self._redact = redact
        self._scripts = Scripts(home, environ)
        self._backends = backends

    async def check(self, script: str, workdir: str, maker: Source | None) -> None:
        if script and not self._backends.trusts(maker):
            raise UserError(
                "Scripts run on the machine of the gateway: only jobs of the owner and of admins have any.",
                hint="Let the job say in words what is to be done.",
            )
        if script:
            await asyncio.to_thread(self._scripts.find, script)
        if workdir:
            await self._find(self._backends.of_job(maker), workdir, maker)

    async def enter(self, session: SessionId, workdir: str, maker: Source | None) -> str:
        backend = self._backends.of_job(maker, session)
        folder = await self._find(backend, workdir, maker)
        if not folder:
            order = Command(text=f"cd -- {shlex.quote(workdir)}", session=session, timeout=30.0)
            await backend.run(order, lambda text: None)
        return folder

    async def _find(self, backend: Backend, workdir: str, maker: Source | None) -> str:
        """Nothing for a folder that commands see there; for one of this machine that the maker's sandbox can
        be given, where it really is. A `UserError` if it is neither."""
        if workdir.startswith("/"):
            view = await backend.files.stat("", workdir)
            if view is not None and view.folder:
                return ""
            if self._backends.trusts(maker) and await asyncio.to_thread(os.path.isdir, workdir):
                return await asyncio.to_thread(os.path.realpath, workdir)
        raise UserError(
            f"There is no folder {workdir}.", hint="A job's folder is an absolute path that exists."
        )

    async def run_script(self, name: str, workdir: str, seconds: float) -> ScriptReport:
        end = await self._scripts.run(name, b"", seconds, workdir)
        output = self._redact(end.output.decode("utf-8", "replace"))
        if end.code == 0:
            return ScriptReport(output=output)
        why = (
            f"It ended with code {end.code}."
            if end.code is not None
            else "It took too long or said too much."
        )
        complaint = end.complaint.decode("utf-8", "replace").strip()
        return ScriptReport(output=output, problem=self._redact(f"{why} {complaint}".strip()))

    async def keep_output(self, job: JobId, file: str, text: str, most: int) -> None:
        await asyncio.to_thread(keep_output, self._home, job, file, self._redact(text), most)


# --- the tool ------------------------------------------------------------------------------------

_DONE = {
    JobAction.PAUSE: "Paused",
    JobAction.RESUME: "Resumed",
    JobAction.RUN: "Runs now",
    JobAction.REMOVE: "Removed",
}
JobTool = Callable[[ToolContext, str, Mapping[str, Any]], Awaitable[str]]


def job_tool(gateway: Callable[[], Gateway | None]) -> JobTool:
    """What the `cronjob` tool asks: an action, a job, and what is said of it."""

    async def act(context: ToolContext, action: str, arguments: Mapping[str, Any]) -> str:
        running = gateway()
        if running is None:
            raise UserError("Jobs are not available now.")
        origin = await running.read(context.agent, partial(_origin, context))
        desk = running.jobs_of(context.agent, origin)
        job, wish = str(arguments.get("job") or ""), wish_of(arguments)
        match action:
            case "create":
                return f"Made: {job_line(await desk.create(wish, origin), desk.zone)}"
            case "list":
                lines = [job_line(each, desk.zone) for each in await desk.all()]
                return "\n".join(lines) or "There are no jobs."
            case "update":
                return f"Changed: {job_line(await desk.update(job, wish), desk.zone)}"
            case _:
                done = await desk.act(job, JobAction(action))
                return f"{_DONE[JobAction(action)]}: {job_line(done, desk.zone)}"

    return act


def _origin(context: ToolContext, tx: Tx) -> Any:
    turn = tx.turns.get(context.turn)
    return None if turn is None else turn.input.guidance.origin or turn.source


def wish_of(arguments: Mapping[str, Any]) -> JobSpec:
    """What is said of a job by the names that people and programs use."""
    values = {name: arguments.get(name) for name in field_names(JobSpec)}
    repeat = arguments.get("repeat")
    return JobSpec(**values | {"times": repeat if isinstance(repeat, int) else None})
