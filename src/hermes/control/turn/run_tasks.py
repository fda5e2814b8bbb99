"""The tasks that go on beside a run: the model's stream, tools. Closed, with all in it, when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("hermes.scope")
_GRACE = 5.0


class RunScope:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str, broke: Callable[[str], None]) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(done, broke))

    async def close(self) -> None:
        """Cancel what still runs and wait, but not for ever: a task that will not end is left behind."""
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=_GRACE)
            for task in stuck:
                log.error("scope.stuck task=%s", task.get_name())

    def _done(self, task: asyncio.Task[None], broke: Callable[[str], None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("scope.broke task=%s", task.get_name(), exc_info=error)
            broke(f"{type(error).__name__}: {error}")
