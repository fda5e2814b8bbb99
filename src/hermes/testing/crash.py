"""The crash kit: ways to end a gateway at a chosen moment.

`KillSwitch` sends a real SIGKILL to its own process at the n-th passing of a named point. The points are
the borders of the ports (every unit of the store, every call to the platform, the model and the tools), so
nothing in the product knows of them: `victim` is a gateway with such borders.
`StoppingStore` does the same inside a test: after the n-th write nothing moves."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hermes.domain.ids import AgentId
from hermes.domain.ports.agent import ModelPiece, ModelRequest, Provider
from hermes.domain.ports.store import Store, Tx
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.domain.turns.event import TextDelta
from hermes.domain.word import replace
from hermes.testing.model import last_words

T = TypeVar("T")

POINTS = (
    "poll.after", "accept.before", "accept.after", "ack.before", "ack.after",
    "take.before", "take.after", "claim.before", "claim.after",
    "model.before", "model.middle", "model.after",
    "record.before", "record.after", "read.before", "read.after",
    "keyed.before", "keyed.after", "once.before", "once.after",
    "attempt.before", "attempt.after", "send.before", "send.after",
)  # fmt: skip
DRAFT_POINTS = ("draft.before", "draft.after", "shown.before", "shown.after", "edit.before", "edit.after")
"""Points that only platforms with edits pass."""

_UNITS = {
    "accept": "accept",
    "TakeInbound.unit": "take",
    "ClaimTurn.unit": "claim",
    "record": "record",
    "attempt": "attempt",
    "begin_draft": "draft",
    "keep_receipt": "shown",
    "SubmitTurn.unit": "submit",
    "AbsorbSteering.unit": "absorb",
    "Gateway.start.<locals>.<lambda>": "boot",
    "Gateway.stop.<locals>.<lambda>": "close",
    "Gateway.enter.<locals>.<lambda>": "enter",
    "Gateway.answer.<locals>.<lambda>": "answer",
    "SessionActor._look.<locals>.<lambda>": "look",
}


@dataclass(slots=True, kw_only=True)
class KillSwitch:
    """Kills this process at the `occurrence`-th passing of `point`; an empty point never. Each passing is
    a line of `log`, if there is one."""

    point: str = ""
    occurrence: int = 1
    log: Path | None = None
    _passed: Counter[str] = field(default_factory=Counter)

    @classmethod
    def set_to(cls, told: str, log: Path | None = None) -> KillSwitch:
        """Of `point:n`, as it stands on a command line."""
        point, _, occurrence = told.partition(":")
        return cls(point=point, occurrence=int(occurrence or 1), log=log)

    def at(self, name: str) -> None:
        self._passed[name] += 1
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{name}:{self._passed[name]}\n")
        if name == self.point and self._passed[name] == self.occurrence:
            os.kill(os.getpid(), signal.SIGKILL)


def unit_name(unit: Callable[..., object]) -> str:
    """What a unit of work is called at the crash points; empty for units that have none."""
    name = getattr(unit, "__qualname__", "")
    return _UNITS.get(name) or _UNITS.get(name.rpartition(".")[2], "")


class KillingStore:
    def __init__(self, store: Store, switch: KillSwitch) -> None:
        self._store = store
        self._switch = switch

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        name = unit_name(unit)
        if name:
            self._switch.at(f"{name}.before")
        result = await self._store.write(unit, first=first, ends=ends)
        if name:
            self._switch.at(f"{name}.after")
        return result

    async def read(self, query: Callable[[Tx], T]) -> T:
        name = unit_name(query)
        result = await self._store.read(query)
        if name:
            self._switch.at(f"{name}.after")
        return result

    def scoped(self, agent: AgentId) -> Store:
        return KillingStore(self._store.scoped(agent), self._switch)


class KillingProvider:
    def __init__(self, provider: Provider, switch: KillSwitch) -> None:
        self._provider = provider
        self._switch = switch

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self._switch.at("model.before")
        if "poison" in last_words(request):
            self._switch.at("poison")
        async for piece in self._provider.call(request):
            yield piece
            if isinstance(piece, TextDelta):
                self._switch.at("model.middle")
        self._switch.at("model.after")


def killing_tool(tool: Tool, switch: KillSwitch) -> Tool:
    """The tool with a kill point before and after each run, named by its effect."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        switch.at(f"{tool.effect.value}.before")
        result = await tool.run(context, arguments)
        switch.at(f"{tool.effect.value}.after")
        return result

    return replace(tool, run=run)


class KillingService:
    """The world behind its socket, with a kill point before and after each call to it. Effects are named by
    their tool, so that each sort of effect can be cut off."""

    def __init__(self, service: Any, switch: KillSwitch) -> None:
        self._service = service
        self._switch = switch

    def __getattr__(self, name: str) -> Any:
        async def guarded(*args: object, **kwargs: object) -> object:
            point = args[0] if name == "effect" else name
            self._switch.at(f"{point}.before")
            result = await getattr(self._service, name)(*args, **kwargs)
            self._switch.at(f"{point}.after")
            return result

        return guarded


class StoppingStore:
    """Lets `writes` units through and then stops for good: what comes later never returns, as in a process
    that is no more. `stopped` tells the test; `kill()` ends those that still wait."""

    def __init__(
        self, store: Store, writes: int, *, after: bool = True, stopped: asyncio.Event | None = None
    ) -> None:
        self._store = store
        self._after = after
        self._state = _Stop(left=writes, stopped=stopped or asyncio.Event())

    @property
    def stopped(self) -> asyncio.Event:
        return self._state.stopped

    def kill(self) -> None:
        self._state.dead = True

    def allow(self, writes: int) -> None:
        """From now on so many."""
        self._state.left = writes

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        await self._state.gate()
        self._state.left -= 1
        last = self._state.left <= 0
        if last and not self._after:
            await self._state.end()
        result = await self._store.write(unit, first=first, ends=ends)
        if last:
            await self._state.end()
        return result

    async def read(self, query: Callable[[Tx], T]) -> T:
        await self._state.gate()
        return await self._store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        scoped = StoppingStore(self._store.scoped(agent), 0, after=self._after)
        scoped._state = self._state
        return scoped


@dataclass(slots=True)
class _Stop:
    left: int
    dead: bool = False
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def gate(self) -> None:
        if self.stopped.is_set():
            await self.end()

    async def end(self) -> None:
        self.stopped.set()
        if self.dead:
            raise asyncio.CancelledError
        await asyncio.Event().wait()
