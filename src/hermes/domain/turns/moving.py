"""Conversations of another program, on their way into this one."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.turn import Speaker


class MovedMessage(Struct, frozen=True, kw_only=True):
    """What was said, in the order in which it was. `call` is the call that a tool's result answers."""

    by: Speaker
    at: datetime
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    thought: str = ""


class MovedSession(Struct, frozen=True, kw_only=True):
    """`key` is the chat it was bound to, if it was still open there."""

    id: str
    created_at: datetime
    updated_at: datetime
    messages: tuple[MovedMessage, ...]
    title: str = ""
    model: str = ""
    key: str = ""
