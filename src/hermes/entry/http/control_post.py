"""What `hermes send` and `hermes outbox` ask of a running gateway: on the owner's socket alone."""

from __future__ import annotations

import msgspec

from hermes.control.courier import Letter
from hermes.control.outbox import drop_messages, list_outbox, retry_messages
from hermes.domain.directory import Channel
from hermes.domain.ids import AgentId
from hermes.domain.message import Body
from hermes.domain.rows import OutboxRow
from hermes.domain.text import storable
from hermes.entry.http.door import Call, local_route


class SendRequest(msgspec.Struct, kw_only=True):
    target: str
    text: str
    key: str


class SendAnswer(msgspec.Struct, kw_only=True):
    to: list[str]


class PlacesAnswer(msgspec.Struct, kw_only=True):
    """Home channels by account, and the chats that are known, the latest first."""

    homes: dict[str, str]
    channels: list[Channel]


class Limit(msgspec.Struct, kw_only=True):
    limit: int = 100


class ChangeRequest(msgspec.Struct, kw_only=True):
    """Messages by their keys; none named is all that were given up."""

    keys: list[str]
    drop: bool = False


@local_route("POST", "/control/send", "Send a message; with the same key it is sent once.")
async def send(call: Call, body: SendRequest) -> SendAnswer:
    letter = Letter(key=body.key, target=body.target, body=Body(text=storable(body.text)))
    posted = await call.door.gateway.courier.post(_agent(call), letter)
    return SendAnswer(to=[str(to) for to in posted.to])


@local_route("GET", "/control/places", "The home channels and the chats that are known.")
async def places(call: Call) -> PlacesAnswer:
    known = await call.door.gateway.courier.known(_agent(call))
    homes = {account: str(to) for account, to in known.homes.items()}
    return PlacesAnswer(homes=homes, channels=list(known.channels))


@local_route("GET", "/control/outbox", "The messages that are on their way or were given up.")
async def outbox(call: Call, query: Limit) -> list[OutboxRow]:
    return await call.door.gateway.read(_agent(call), lambda tx: list_outbox(tx, query.limit))


@local_route("POST", "/control/outbox", "Try messages again, or drop them.")
async def change(call: Call, body: ChangeRequest) -> list[OutboxRow]:
    gateway, now = call.door.gateway, call.door.clock.now()
    if body.drop:
        return await gateway.write(_agent(call), lambda tx: drop_messages(tx, body.keys, gateway.sends))
    rows = await gateway.write(_agent(call), lambda tx: retry_messages(tx, body.keys, now, gateway.sends))
    for row in rows:
        gateway.courier.ring(row.to)
    return rows


def _agent(call: Call) -> AgentId:
    return call.door.default
