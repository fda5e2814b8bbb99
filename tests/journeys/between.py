"""What happens between two writes of a gateway: a store that lets a test act, or fails, right before or after
a unit of work, so that overlaps within one process are tried as crashes are."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Store, Tx

T = TypeVar("T")
Act = Callable[[], Awaitable[object] | object] | Exception


@dataclass(slots=True, kw_only=True)
class _Plan:
    moment: str
    unit: str
    act: Act
    times: range
    passed: int = 0


@dataclass(slots=True)
class Between:
    """Acts at the passings `times` (the first one if nobody says) of units whose qualified name contains
    `unit`; an exception as the act is raised. `names` are the units that passed, for a test to look at."""

    plans: list[_Plan] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def before(self, unit: str, act: Act, times: range = range(1)) -> Between:
        self.plans.append(_Plan(moment="before", unit=unit, act=act, times=times))
        return self

    def after(self, unit: str, act: Act, times: range = range(1)) -> Between:
        self.plans.append(_Plan(moment="after", unit=unit, act=act, times=times))
        return self

    def wrap(self, store: Store) -> Store:
        return _BetweenStore(store, self)

    def acted(self) -> bool:
        """Whether every plan came about."""
        return all(plan.passed >= plan.times.stop for plan in self.plans)

    async def pass_by(self, moment: str, unit: Callable[..., object]) -> None:
        name = qualified_name(unit)
        if moment == "before":
            self.names.append(name)
        for plan in self.plans:
            if plan.moment != moment or plan.unit not in name:
                continue
            plan.passed += 1
            if plan.passed - 1 not in plan.times:
                continue
            if isinstance(plan.act, Exception):
                raise plan.act
            result = plan.act()
            if inspect.isawaitable(result):
                await result


def qualified_name(unit: Callable[..., object]) -> str:
    unit = getattr(unit, "func", unit)
    return f"{unit.__module__}.{getattr(unit, '__qualname__', '')}"


class _BetweenStore:
    def __init__(self, store: Store, between: Between) -> None:
        self._store, self._between = store, between

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        await self._between.pass_by("before", unit)
        result = await self._store.write(unit, first=first, ends=ends)
        await self._between.pass_by("after", unit)
        return result

    async def read(self, query: Callable[[Tx], T]) -> T:
        await self._between.pass_by("before", query)
        result = await self._store.read(query)
        await self._between.pass_by("after", query)
        return result

    def scoped(self, agent: AgentId) -> Store:
        return _BetweenStore(self._store.scoped(agent), self._between)
