"""A platform says of a message that it took that it never arrived. The message counts as given up from then
on, and the operator reads of it as of any other."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hermes.control.core import GatewayCore
from hermes.control.outbound.notices import is_missed, report_undelivered
from hermes.domain.chats.address import Address
from hermes.domain.chats.rows import InboundOutcome, InboxRow, OutcomeKind, OutState
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.word import replace

log = logging.getLogger("hermes.lane")
_LONGEST = 200


async def take_undelivered(row: InboxRow, core: GatewayCore, ring: Callable[[Address], None]) -> None:
    inbound, now = row.inbound, core.clock.now()
    why = one_line(inbound.text, _LONGEST)

    def give_up(tx: Tx) -> list[Address]:
        tx.inbox.finish(row.n, str(InboundOutcome(kind=OutcomeKind.UNDELIVERED, detail=why)))
        message = tx.outbox.get(inbound.ref or "")
        if message is None or message.to != inbound.source.address or message.state is not OutState.SENT:
            return []
        missed = is_missed(message)
        message = replace(message, state=OutState.DEAD if missed else OutState.GONE, error=why)
        tx.outbox.save(message)
        home = report_undelivered(tx, message, core.live.now, now) if missed else None
        return [message.to] if home is None else [message.to, home]

    places = await core.store.write(give_up)
    if places:
        log.warning("lane.undelivered to=%s key=%s why=%s", inbound.source.address, inbound.ref, why)
    for place in places:
        ring(place)
