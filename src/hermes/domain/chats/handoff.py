"""Hand-offs: conversations on their way from the terminal to a chat."""

from __future__ import annotations

import secrets
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hermes.domain.chats.address import Address, Source
from hermes.domain.ids import AgentId, SessionId


class HandoffState(StrEnum):
    """pending → running → completed · failed; one whose carrier died runs until its lease is over."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def open(self) -> bool:
        return self in (HandoffState.PENDING, HandoffState.RUNNING)


class Handoff(Struct, frozen=True, kw_only=True):
    """`account` is where to, as `platform[@account]`, `source` who asked for it. `due_at` is when it may be
    taken up: for one that runs, when its lease is over; `until` is when it is given up. `to` and `left` are
    known once it is completed: the chat it went to, and the session in which whoever asked is now. `error`
    says why it failed or waits."""

    id: str
    agent: AgentId
    session: SessionId
    account: str
    source: Source
    created_at: datetime
    due_at: datetime
    until: datetime | None = None
    state: HandoffState = HandoffState.PENDING
    attempts: int = 0
    to: Address | None = None
    left: SessionId | None = None
    error: str = ""


def new_handoff_id() -> str:
    return f"ho_{secrets.token_hex(4)}"
