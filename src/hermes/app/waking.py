"""Background processes that are over: each one's session hears of it in a turn of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hermes.control.gateway import Gateway
from hermes.domain.ports.world import ProcessView
from hermes.domain.text import one_line
from hermes.domain.tool import ToolContext
from hermes.domain.turn import Turn


class ProcessNotifier:
    """`gateway` gives the gateway while it takes new turns."""

    def __init__(self, gateway: Callable[[], Gateway | None]) -> None:
        self._gateway = gateway
        self._tasks: set[asyncio.Task[Turn | None]] = set()

    def tell_ended(self, context: ToolContext, view: ProcessView) -> None:
        gateway = self._gateway()
        if gateway is None:
            return
        words = f"[Background process {view.id} ended with code {view.code}: {one_line(view.command, 200)}]"
        work = gateway.wake(context.agent, context.session, words)
        task = asyncio.get_running_loop().create_task(work, name=f"wake {context.session}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
