"""A unit of work on its way through the writer thread, how whoever waits for it hears what came of it, and
what the store tells of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Tx


@dataclass(slots=True)
class WorkUnit:
    """One piece of work on its way through the writer."""

    agent: AgentId
    work: Callable[[Tx], Any]
    first: bool
    future: asyncio.Future[Any]
    ends: bool = False
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class StoreFacts:
    """What the store has done and how it is; for status, metrics and benches."""

    units: int = 0
    commits: int = 0
    seconds: float = 0.0
    """Spent in batches that were committed: their units and the COMMIT, which waits for the disk."""
    trouble: str = ""


def resolve_open(opened: asyncio.Future[None]) -> None:
    if not opened.done():
        opened.set_result(None)


def fail_open(opened: asyncio.Future[None], error: BaseException) -> None:
    if not opened.done():
        opened.set_exception(error)


def settle_units(batch: list[WorkUnit]) -> None:
    for unit in batch:
        if unit.future.done():
            continue
        if unit.error is None:
            unit.future.set_result(unit.result)
        elif isinstance(unit.error, StopIteration):
            # A future cannot carry it.
            unit.future.set_exception(RuntimeError("the unit raised StopIteration"))
        else:
            unit.future.set_exception(unit.error)
