"""Hooks of plugins: functions of this process, each call in a thread of its own. A thread cannot be killed:
one that hangs is left to itself, and its function is not called again before it has come back."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from hermes.domain.errors import Unreachable
from hermes.domain.hooks import EVENTS, Hook, HookAnswer, is_asked, is_event

FOLDER = "(plugin)"
OBSERVED_EVENTS = tuple(event for event in EVENTS if not is_asked(event))
Function = Callable[[str, dict[str, Any]], Any]


def plugin_hook(name: str, run: Function) -> Hook:
    """A plugin's function as a hook: `events` are those it names, or all that are told. It observes: what is
    asked is no plugin's business."""
    named = getattr(run, "events", OBSERVED_EVENTS)
    events = tuple(event for event in named if is_event(event) and not is_asked(event))
    return Hook(name=name, folder=FOLDER, events=events)


class PluginHookRunner:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._busy: set[str] = set()

    @property
    def hooks(self) -> Sequence[Hook]:
        hooks = (plugin_hook(name, run) for name, run in self._functions.items())
        return [hook for hook in hooks if hook.events]

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        if hook.name in self._busy:
            raise Unreachable("its last call has not come back")
        answer: Future[object] = Future()
        answer.set_running_or_notify_cancel()  # so that giving up on it does not get in the thread's way
        run = self._functions[hook.name]

        def work() -> None:
            try:
                result = run(event, dict(context))
                if inspect.iscoroutine(result):
                    result = asyncio.run(result)
            except BaseException as error:  # a plugin's code may raise anything; the breaker counts it
                self._busy.discard(hook.name)
                answer.set_exception(Unreachable(type(error).__name__))
            else:
                self._busy.discard(hook.name)
                answer.set_result(result)

        self._busy.add(hook.name)
        threading.Thread(target=work, name=f"hook {hook.name}", daemon=True).start()
        try:
            async with asyncio.timeout(hook.seconds(event)):
                return HookAnswer(answer=await asyncio.wrap_future(answer))
        except TimeoutError:
            raise Unreachable(f"it gave no answer within {hook.seconds(event):g} s") from None

    async def close(self) -> None:
        """What still runs is a daemon's thread and ends with the process."""
