"""The hooks of a gateway, put together: those of the home's `hooks` folder, those of plugins, and BOOT.md."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.control.gateway import Gateway
from hermes.control.hooks.dispatch import Hooks
from hermes.control.jobs.runs import SESSION_KEPT
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.control.workers import Supervisor, report_death
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.ids import MAIN_AGENT, SessionId, new_session_id
from hermes.domain.safety.concealing import Conceal
from hermes.domain.settings.settings import PluginSettings
from hermes.domain.system.hooks import EVENTS, STARTUP, Hook, HookAnswer, HookRunner, is_asked, is_event
from hermes.domain.turns.event import Entry, Failed, Finished, Stopped
from hermes.domain.turns.turn import Cause, Guidance, TurnInput
from hermes.state.files.hook_files import read_hooks
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import read_text

log = logging.getLogger("hermes.hooks")
BOOT_FILE = "BOOT.md"
BOOT_DOOR = "boot"
BOOT_WORDS = "[The gateway has just started. Nobody is here to talk to. Do what BOOT.md says:]"
PLUGIN_FOLDER = "(plugin)"
OBSERVED_EVENTS = tuple(event for event in EVENTS if not is_asked(event))
Function = Callable[[str, dict[str, Any]], Any]


class AppHooks:
    """Reads files and plugins, so it is made beside the loop."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        clock: Clock,
        used: PluginSettings = plugins.EVERY_PLUGIN,
        loops: Supervisor | None = None,
        conceal: Conceal = str,
    ) -> None:
        self._home = home
        self._clock = clock
        self._listener: Callable[[list[dict[str, Any]]], None] = lambda facts: None
        self._booting: asyncio.Task[None] | None = None
        home_hooks = read_hooks(home)
        self._problems = home_hooks.problems
        for problem in self._problems:
            log.warning("hook.left_out %s", problem)
        added = PluginHookRunner(plugins.hooks(used))
        groups: list[tuple[Sequence[Hook], HookRunner]] = [(added.hooks, added)]
        if home_hooks.hooks:
            from hermes.execution.hooks.processes import HookProcesses

            groups.insert(0, (home_hooks.hooks, HookProcesses(home, environ)))
        self.hooks = Hooks(groups, clock, lambda: self._listener(self.facts()), loops, conceal)

    def facts(self) -> list[dict[str, Any]]:
        """How each hook is, as the state file tells it."""
        used = [
            {"name": hook.name, "state": "left alone" if hook.open else "on", "why": hook.why}
            for hook in self.hooks.facts()
        ]
        return used + [
            {"name": problem.file, "state": "left out", "why": str(problem)} for problem in self._problems
        ]

    def begin(
        self, gateway: Gateway, accounts: Sequence[str], listener: Callable[[list[dict[str, Any]]], None]
    ) -> None:
        """The gateway is ready."""
        self._listener = listener
        agents = {"agent_id": gateway.default_agent, "agents": list(gateway.agents)}
        self.hooks.tell(STARTUP, {**agents, "platforms": list(accounts)})
        self._booting = asyncio.create_task(self._boot(gateway), name=BOOT_FILE)
        self._booting.add_done_callback(report_death)

    async def close(self) -> None:
        if self._booting is not None:
            self._booting.cancel()
            await asyncio.wait((self._booting,))
        await self.hooks.close()

    async def _boot(self, gateway: Gateway) -> None:
        """What BOOT.md says is done by the main agent, once for each start, in a session of its own."""
        text = await asyncio.to_thread(_read_boot, self._home)
        if not text:
            return
        now = self._clock.now()
        session = SessionId(f"boot_{new_session_id(now)}")
        words = Submission(
            agent=MAIN_AGENT,
            source=Source(address=Address(platform=BOOT_DOOR, chat=BOOT_FILE), kind=SourceKind.JOB),
            input=TurnInput(text=f"{BOOT_WORDS}\n\n{text}", guidance=Guidance(unattended="deny")),
            place=SessionTarget(session=session, begin=True, until=now + SESSION_KEPT),
            cause=Cause.JOB,
        )
        try:
            turn = await gateway.submit(words)
            log.info("boot.began session=%s", session)
            async for seen in gateway.watch(MAIN_AGENT, turn.id):
                if isinstance(seen, Entry) and isinstance(seen.record, Finished | Failed | Stopped):
                    end = type(seen.record).__name__.lower()
                    log.info("boot.ended session=%s end=%s: hermes sessions show %s", session, end, session)
        except HermesError as error:
            log.warning("boot.failed why=%s", error)


def _read_boot(home: Path) -> str:
    found = SettingsFindings(BOOT_FILE)
    text = read_text(home / BOOT_FILE, found).text.strip()
    for problem in found.problems:
        log.warning("boot.problem %s", problem)
    return "" if found.problems else text


# --- hooks of plugins ---


def plugin_hook(name: str, run: Function) -> Hook:
    """A plugin's function as a hook: `events` are those it names, or all that are told. It observes: what is
    asked is no plugin's business."""
    named = getattr(run, "events", OBSERVED_EVENTS)
    events = tuple(event for event in named if is_event(event) and not is_asked(event))
    return Hook(name=name, folder=PLUGIN_FOLDER, events=events)


class PluginHookRunner:
    """Calls each function in a thread of its own. A thread cannot be killed: one that hangs is left to
    itself, and its function is not called again before it has come back."""

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
                why = Unreachable(type(error).__name__)
                why.add_note("".join(traceback.format_exception(error)))  # it may quote people
                answer.set_exception(why)
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
