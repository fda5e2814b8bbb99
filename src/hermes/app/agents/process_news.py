"""How a session hears of its background processes: what they are and wrote goes to the gateway, without
secrets, in the order in which it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hermes.control.gateway import Gateway
from hermes.control.workers import report_death
from hermes.domain.chats.address import SourceKind
from hermes.domain.chats.rows import AwaitedProcess
from hermes.domain.errors import UserError
from hermes.domain.ports.world import ProcessView
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolContext
from hermes.domain.turns.session import BACKGROUND, RUN_SESSIONS

_ALONE = (SourceKind.JOB, SourceKind.WEBHOOK)


class AppProcessNews:
    """`gateway` gives the one that runs; None while there is none, or it stops."""

    def __init__(self, gateway: Callable[[], Gateway | None], redact: Callable[[str], str]) -> None:
        self._gateway = gateway
        self._redact = redact
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, context: ToolContext) -> None:
        alone = context.source is not None and context.source.kind in _ALONE
        if alone or context.session.startswith((BACKGROUND, RUN_SESSIONS)) or self._gateway() is None:
            raise UserError(
                "This conversation is over with your answer, so nobody could be told later.",
                hint="Leave out notify and watch_patterns, and wait with process.",
            )

    async def expect(self, context: ToolContext, process: ProcessView, notify: bool) -> None:
        gateway = self._gateway()
        if gateway is not None:
            await gateway.processes.expect(self._awaited(context, process, notify))

    def wrote(
        self, context: ToolContext, process: ProcessView, lines: tuple[str, ...], outside: bool
    ) -> None:
        gateway = self._gateway()
        if gateway is not None:
            awaited = self._awaited(context, process, False, outside)
            self._begin(gateway.processes.wrote(awaited, tuple(map(self._redact, lines))))

    def ended(self, context: ToolContext, process: ProcessView, notify: bool) -> None:
        gateway = self._gateway()
        if gateway is not None:  # else the next life tells of it
            self._begin(gateway.processes.ended(self._awaited(context, process, notify), process.code))

    def _awaited(
        self, context: ToolContext, process: ProcessView, notify: bool, outside: bool = False
    ) -> AwaitedProcess:
        return AwaitedProcess(
            id=process.id,
            agent=context.agent,
            session=context.session,
            turn=context.turn,
            command=one_line(self._redact(process.command), 200),
            notify=notify,
            outside=outside,
        )

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="process news")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(report_death)
