"""`/webhooks/<route>`: the outside world wakes an agent.

The order of an event: the route → whether it is on → the body's size → its signature → its rate → its content
→ the events and filters it must pass → whether it came before → the script → the words → one commit. Then it
is acknowledged, so what is answered with 202 happens, and happens once, also after a crash or a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from hermes.control.sessions.submission import (
    KeyConflict,
    NewRequest,
    Submission,
    SubmittedTurn,
    find_request,
)
from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.rows import OutboxRow, OutState
from hermes.domain.text import one_line
from hermes.domain.turn import Cause, Guidance, ReplyPlace, Turn, TurnAction, TurnInput
from hermes.entry.http.site.call import HttpCall, as_json
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.key_strength import is_loopback
from hermes.entry.http.site.routing import signed_route
from hermes.entry.http.webhooks.delivery import WebhookDelivery, event_name, identify
from hermes.entry.http.webhooks.filters import EventFacts
from hermes.entry.http.webhooks.payload import read_body, read_payload
from hermes.entry.http.webhooks.routes import BadRoute, NamedTarget, WebhookRoute, target
from hermes.entry.http.webhooks.signatures import (
    NO_AUTH,
    BadSignature,
    Headers,
    SignatureScheme,
    VerifiedSignature,
    verify,
)
from hermes.entry.http.webhooks.stages import WEBHOOKS, EventIgnored, Webhooks, render

log = logging.getLogger("hermes.webhooks")
PLATFORM = "webhook"
LEAST_SECRET = 8
"""Characters of a secret that guards more than this machine's own programs."""
ROUTED = '{"routed": true}'
"""Noted with an event whose sender named no agent."""
_DELIVERY_SECONDS = 8.0
_LOOK_SECONDS = 0.02


class WebhookAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What became of an event: `accepted`, `ignored` with a reason, `duplicate`, `delivered`, `queued`."""

    status: str
    route: str = ""
    event: str = ""
    delivery_id: str = ""
    reason: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent:
    """An event that proved itself, on its way to become a turn. `agent` is the one that its sender named."""

    agent: AgentId | None
    route: WebhookRoute
    facts: EventFacts
    delivery: WebhookDelivery

    @property
    def owner(self) -> str:
        return f"webhook:{self.route.name}"

    def answer(self, status: int, outcome: str, **more: str) -> web.Response:
        body = WebhookAnswer(
            status=outcome,
            route=self.route.name,
            event=self.facts.event,
            delivery_id=self.delivery.id,
            **more,
        )
        log.info(
            "webhook.%s route=%s event=%s delivery=%s",
            outcome,
            self.route.name,
            self.facts.event,
            self.delivery.id,
        )
        return as_json(body, status=status)


@signed_route("POST", "/webhooks/{route}", "Hand an event to a webhook route.", status=202)
async def receive(call: HttpCall) -> WebhookAnswer | web.Response:
    return await _receive(call, None)


@signed_route("POST", "/p/{agent}/webhooks/{route}", "Hand an event to a route, for this agent.", status=202)
async def receive_for(call: HttpCall) -> WebhookAnswer | web.Response:
    agent = AgentId(call.part("agent"))
    if agent not in call.site.agents:
        raise ApiError(404, "unknown_agent", "There is no agent of this name.")
    return await _receive(call, agent)


async def _receive(call: HttpCall, agent: AgentId | None) -> web.Response:
    hooks = call.request.app[WEBHOOKS]
    if hooks is None:
        raise ApiError(404, "unknown_route", "Webhooks are switched off.")
    route = await hooks.find(call.part("route"))
    body = await read_body(call.request, hooks.max_body)
    headers = Headers(call.request.headers.items())
    now = call.site.clock.now().timestamp()
    proof = _prove(call.request, route, headers, body, now)
    if proof.scheme is SignatureScheme.GENERIC_V1:
        hooks.warn_once(route.name)
    hooks.rates.count(route.name)
    payload = await asyncio.to_thread(read_payload, body, call.request.content_type)
    facts = EventFacts(payload=payload, headers=headers, event=event_name(headers, payload))
    event = WebhookEvent(agent=agent, route=route, facts=facts, delivery=identify(headers, body, proof, now))
    try:
        return await _take(call, hooks, event)
    except EventIgnored as why:
        return event.answer(200, "ignored", reason=str(why))


def _prove(
    request: web.Request, route: WebhookRoute, headers: Headers, body: bytes, now: float
) -> VerifiedSignature:
    local = is_local(request)
    try:
        if not local and route.secret.reveal() != NO_AUTH and len(route.secret.reveal()) < LEAST_SECRET:
            raise BadSignature("the route's secret is too short for the network")
        return verify(headers, body, route.secret, now=now, loopback=local)
    except BadSignature as why:
        log.warning("webhook.refused route=%s peer=%s: %s", route.name, request.remote, why)
        raise ApiError(401, "bad_signature", "The request is not signed as this route expects it.") from why


def is_local(request: web.Request) -> bool:
    """Whether this came from a program of this machine, to this machine, and not from a page in a browser or
    through a proxy that would look the same."""
    transport = request.transport
    here = None if transport is None else transport.get_extra_info("sockname")
    if isinstance(here, str):
        return True  # the owner's socket
    name = urlsplit(f"//{request.host}").hostname or ""
    peers = (here[0] if here else "", request.remote or "", name)
    return "Origin" not in request.headers and all(map(is_loopback, peers))


# --- from an event to a turn ---


async def _take(call: HttpCall, hooks: Webhooks, event: WebhookEvent) -> web.Response:
    await hooks.check_wanted(event.route, event.facts)
    if await _is_known(call, event):
        return event.answer(200, "duplicate")
    facts = await hooks.through_script(event.route, event.facts)
    to = await _target(call, event.route, facts)
    source, text = _source(event), render(event.route, facts)
    words = Submission(
        agent=event.agent or await call.gateway.route(source, text),
        source=source,
        input=TurnInput(
            text=text,
            action=TurnAction.RELAY if event.route.deliver_only else TurnAction.SAY,
            guidance=Guidance(toolsets=event.route.toolsets),
        ),
        cause=Cause.WEBHOOK,
        reply=None if to is None else ReplyPlace(to=to),
        request=NewRequest(
            prefix="hook_",
            owner=event.owner,
            key=event.delivery.keys[0],
            also=event.delivery.keys[1:],
            facts=ROUTED if event.agent is None else "{}",
        ),
    )
    submitted = await _submit(call, hooks, event, words)
    if submitted is None:
        return event.answer(200, "duplicate")
    if event.route.deliver_only and to is not None:
        return await _delivered(call, event, submitted.turn, to)
    return event.answer(202, "accepted")


async def _submit(
    call: HttpCall, hooks: Webhooks, event: WebhookEvent, words: Submission
) -> SubmittedTurn | None:
    """Store the words; None if they were stored before. A repeat may be given to another agent by a hook, and
    an agent's store knows only its own: then one event after the other is looked for and stored."""
    several = event.agent is None and len(call.site.agents) > 1
    async with hooks.storing if several else contextlib.nullcontext():
        if several and await _is_known(call, event):
            return None
        try:
            submitted = await call.gateway.ask(words)
        except KeyConflict:  # it is known, and its session was deleted since
            return None
    return submitted if submitted.fresh else None


async def _is_known(call: HttpCall, event: WebhookEvent) -> bool:
    """Before the script runs, so that a repeat starts nothing; the commit decides once more."""
    owner, keys = event.owner, event.delivery.keys
    for agent in call.site.agents if event.agent is None else (event.agent,):
        request = await call.gateway.read(agent, lambda tx: find_request(tx, owner, keys))
        # What was sent to another agent by name is an event of its own.
        if request is not None and (agent in (event.agent, call.default) or request.facts == ROUTED):
            return True
    return False


async def _target(call: HttpCall, route: WebhookRoute, facts: EventFacts) -> Address | None:
    try:
        to = target(route, facts)
        if isinstance(to, NamedTarget):
            to = await _find(call, to)
    except (BadRoute, UserError) as error:
        log.warning("webhook.no_target route=%s: %s", route.name, error)
        raise ApiError(502, "no_target", "There is no chat that this event could go to.") from error
    if to is not None and not call.gateway.accounts.knows(to):
        log.warning("webhook.no_target route=%s: there is no platform %s", route.name, to.platform)
        raise ApiError(502, "no_target", "The platform that this route delivers to is not there.")
    return to


async def _find(call: HttpCall, place: NamedTarget) -> Address:
    chats = await call.gateway.courier.resolve(place.target)
    if len(chats) != 1:
        raise BadRoute(f"{one_line(place.target, 80)} is not one chat.")
    return replace(chats[0], thread=place.thread) if place.thread else chats[0]


def _source(event: WebhookEvent) -> Source:
    address = Address(platform=PLATFORM, chat=event.route.name, thread=event.delivery.id)
    return Source(address=address, kind=SourceKind.WEBHOOK)


# --- without an agent ---


async def _delivered(call: HttpCall, event: WebhookEvent, turn: Turn, to: Address) -> web.Response:
    """Tell the sender whether it is there; what takes longer than it should wait for is on its way."""
    state = OutState.DUE
    if call.gateway.reaches(to):
        state = await _settled(call, turn.agent, turn.id)
    if state is OutState.DEAD:
        raise ApiError(502, "not_delivered", f"{to.platform} did not take the message.")
    if state is OutState.SENT:
        return event.answer(200, "delivered", target=str(to))
    return event.answer(202, "queued", target=str(to))


async def _settled(call: HttpCall, agent: AgentId, turn: TurnId) -> OutState:
    """How the messages of a turn ended; `due` if they wait for another try or take too long."""
    try:
        async with asyncio.timeout(_DELIVERY_SECONDS):
            while True:
                rows = await call.gateway.read(agent, lambda tx: tx.outbox.of_turn(turn))
                if rows and (state := _state(rows)) is not OutState.ATTEMPTING:
                    return state
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        return OutState.DUE


def _state(rows: list[OutboxRow]) -> OutState:
    states = {row.state for row in rows}
    if OutState.DEAD in states:
        return OutState.DEAD
    if states == {OutState.SENT}:
        return OutState.SENT
    waits = any(row.state.open and row.next_at is not None for row in rows)
    return OutState.DUE if waits else OutState.ATTEMPTING
