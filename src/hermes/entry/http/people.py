"""Who may speak: pairing and access, for the operator's commands, on the owner's socket alone."""

from __future__ import annotations

import msgspec

from hermes.control.access import Verdict
from hermes.control.explain import read_knock
from hermes.control.pairing import Approval, Overview, approve, clear_pending, overview, revoke
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.pairing import Account
from hermes.entry.http.door import Call, local_route


class ApproveRequest(msgspec.Struct, kw_only=True):
    account: Account
    code: str
    by: str


class RevokeRequest(msgspec.Struct, kw_only=True):
    account: Account
    user: str


class Revoked(msgspec.Struct, kw_only=True):
    user: str


class ClearRequest(msgspec.Struct, kw_only=True):
    account: Account | None = None


class Cleared(msgspec.Struct, kw_only=True):
    count: int


class ExplainRequest(msgspec.Struct, kw_only=True):
    words: list[str]


@local_route("GET", "/control/pairing", "Who is paired, and who waits.")
async def list_people(call: Call) -> Overview:
    now = call.door.clock.now()
    return await call.door.gateway.read(MAIN_AGENT, lambda tx: overview(tx, now))


@local_route("POST", "/control/pairing/approve", "Let in who was given this code.")
async def approve_code(call: Call, body: ApproveRequest) -> Approval:
    gateway, now = call.door.gateway, call.door.clock.now()
    approval = await gateway.write(MAIN_AGENT, lambda tx: approve(tx, body.account, body.code, body.by, now))
    if approval.place is not None:
        gateway.deliver(approval.place)
    return approval


@local_route("POST", "/control/pairing/revoke", "Let somebody in no more.")
async def revoke_person(call: Call, body: RevokeRequest) -> Revoked:
    await call.door.gateway.write(MAIN_AGENT, lambda tx: revoke(tx, body.account, body.user))
    return Revoked(user=body.user)


@local_route("POST", "/control/pairing/clear", "Forget open requests and invitations.")
async def clear(call: Call, body: ClearRequest) -> Cleared:
    count = await call.door.gateway.write(MAIN_AGENT, lambda tx: clear_pending(tx, body.account))
    return Cleared(count=count)


@local_route("POST", "/control/access", "Whether a message from there would be answered, and why.")
async def explain_access(call: Call, body: ExplainRequest) -> Verdict:
    return await call.door.gateway.explain(read_knock(body.words))
