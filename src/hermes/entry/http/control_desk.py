"""What `hermes grants` and `hermes handoff` ask of a running gateway: on the owner's socket alone."""

from __future__ import annotations

import msgspec

from hermes.control.handoff import cancel_handoff, retry_handoff
from hermes.domain.grants import Grant
from hermes.domain.handoff import Handoff
from hermes.entry.http.door import Call, local_route
from hermes.entry.http.errors import not_found


class RevokeGrant(msgspec.Struct, kw_only=True):
    grant: str


class RevokedGrant(msgspec.Struct, kw_only=True):
    revoked: bool


class HandoffLimit(msgspec.Struct, kw_only=True):
    limit: int = 20


class ChangeHandoff(msgspec.Struct, kw_only=True):
    """Try one again that failed, or let one be that is not done."""

    handoff: str
    cancel: bool = False


@local_route("GET", "/control/grants", "What people allowed for good.")
async def list_grants(call: Call) -> list[Grant]:
    found: list[Grant] = []
    for agent in call.door.agents:
        found += await call.door.gateway.read(agent, lambda tx: tx.grants.list())
    return found


@local_route("POST", "/control/grants/revoke", "Take a grant back.")
async def revoke_grant(call: Call, body: RevokeGrant) -> RevokedGrant:
    gateway = call.door.gateway
    told = [await gateway.write(agent, lambda tx: tx.grants.revoke(body.grant)) for agent in call.door.agents]
    return RevokedGrant(revoked=any(told))


@local_route("GET", "/control/handoffs", "Conversations that were handed over, or are on their way.")
async def list_handoffs(call: Call, query: HandoffLimit) -> list[Handoff]:
    found: list[Handoff] = []
    for agent in call.door.agents:
        found += await call.door.gateway.read(agent, lambda tx: tx.handoffs.latest(None, query.limit))
    return sorted(found, key=lambda one: one.created_at, reverse=True)[: query.limit]


@local_route("POST", "/control/handoffs", "Try a hand-off again, or let it be.")
async def change_handoff(call: Call, body: ChangeHandoff) -> Handoff:
    gateway, now = call.door.gateway, call.door.clock.now()
    for agent in call.door.agents:
        if await gateway.read(agent, lambda tx: tx.handoffs.get(body.handoff)) is None:
            continue
        if body.cancel:
            return await gateway.write(agent, lambda tx: cancel_handoff(tx, body.handoff))
        again = await gateway.write(agent, lambda tx: retry_handoff(tx, body.handoff, now))
        gateway.handoffs.ring()
        return again
    raise not_found("hand-off", body.handoff, "handoff_not_found")
