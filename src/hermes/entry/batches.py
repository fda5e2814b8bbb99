"""What the operator's commands ask about batch runs: how far one is, its samples, its removal. Only a running
gateway begins items (`http/batches.py`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from hermes.control.sessions.batches import ItemStanding, item_sessions, list_standings, session_of
from hermes.control.sessions.submission import NotFound
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import read_tool_list
from hermes.domain.turns.event import ModelSaid
from hermes.domain.turns.session import Session
from hermes.domain.turns.transcript import visible
from hermes.domain.turns.turn import NO_GUIDANCE
from hermes.entry.desk import OperatorDesk, operation
from hermes.stream.faces.trajectory import make_trajectory


class ItemSample(msgspec.Struct, kw_only=True):
    """An item as a training sample, but for what only the run's own files know."""

    timestamp: datetime
    model: str
    reasoned: bool
    sample: dict[str, Any]


@operation("POST", "batch/items", "How far the items of a batch run are.")
async def list_items(desk: OperatorDesk, run: str, agent: str) -> list[ItemStanding]:
    return await desk.collect(lambda tx: list_standings(tx, run), agent)


@operation("GET", "batch/sample", "An item of a batch run as a training sample.")
async def item_sample(desk: OperatorDesk, run: str, agent: str, index: int) -> ItemSample:
    def read(tx: Tx) -> ItemSample:
        session = tx.sessions.get(session_of(run, index))
        entries = [] if session is None else list(visible(tx.journal.read(session.id)))
        if session is None or not entries:
            raise NotFound(f"Item {index} of “{run}” is not there.")
        models = [entry.record.model for entry in entries if isinstance(entry.record, ModelSaid)]
        made = make_trajectory(entries, _offered(tx, session, entries[0].turn))
        sample = {
            "conversations": made.conversations,
            "api_calls": made.api_calls,
            "tool_stats": made.tool_stats,
            "tool_error_counts": made.tool_error_counts,
        }
        model = next(filter(None, reversed(models)), session.model or "")
        return ItemSample(timestamp=entries[-1].at, model=model, reasoned=made.reasoned, sample=sample)

    return await desk.of(AgentId(agent)).read(read)


def _offered(tx: Tx, session: Session, turn: TurnId) -> list[Tool]:
    """The tools that the item could use."""
    known = tx.turns.get(turn)
    limits = NO_GUIDANCE if known is None else known.input.guidance
    tools = read_tool_list(session.tool_list or "[]")[0]
    return [
        tool
        for tool in tools
        if (not limits.toolsets or not {tool.name, tool.toolset}.isdisjoint(limits.toolsets))
        and {tool.name, tool.toolset}.isdisjoint(limits.withheld)
    ]


@operation("DELETE", "batch", "Delete the items of a batch run; how many there were.")
async def delete_items(desk: OperatorDesk, run: str, agent: str) -> int:
    sessions = await desk.of(AgentId(agent)).read(lambda tx: item_sessions(tx, run))
    for session in sessions:
        await desk.delete(AgentId(agent), session.id)
    return len(sessions)
