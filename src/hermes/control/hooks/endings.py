"""Ends of sessions that hooks have yet to hear of. An end is noted in the commit that writes it down and
struck out once the hooks were called, so a crash in between loses none: the next start tells it again, marked
as a possible repeat."""

from __future__ import annotations

import logging

import msgspec

from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.gateway_event import GatewayEvent, SessionEnded

log = logging.getLogger("hermes.hooks")
MOST_NOTED = 500
"""More are not kept: a hook that is so far behind is given no more by others either."""
_FACT = "hooks.session_ends"


def noted_ends(tx: Tx) -> list[SessionEnded]:
    try:
        return msgspec.json.decode(tx.facts.get(_FACT) or "[]", type=list[SessionEnded])
    except msgspec.MsgspecError:
        log.warning("hook.ends_unreadable: they are forgotten")
        return []


def note_ends(tx: Tx, events: tuple[GatewayEvent, ...]) -> None:
    """Keep the ends among these events."""
    ends = [event for event in events if isinstance(event, SessionEnded)]
    if ends:
        _put(tx, [*noted_ends(tx), *ends][-MOST_NOTED:])


def strike_out(tx: Tx, sessions: set[SessionId]) -> None:
    _put(tx, [end for end in noted_ends(tx) if end.session not in sessions])


def _put(tx: Tx, ends: list[SessionEnded]) -> None:
    tx.facts.put(_FACT, msgspec.json.encode(ends).decode())
