"""`/webhooks/<route>`: the outside world wakes an agent.

The order of an event: the route → whether it is on → the body's size → its signature → its rate → its content
→ the events and filters it must pass → whether it came before → the script → the words → one commit. Then it
is acknowledged, so what is answered with 202 happens, and happens once, also after a crash or a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from msgspec import Struct, field

from hermes.control.sessions.repeats import KeyConflict, NewRequest, SubmittedTurn, find_requests
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import UserError
from hermes.domain.ids import EVERY_AGENT, AgentId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.turns.turn import Cause, Guidance, ReplyPlace, Turn, TurnAction, TurnInput
from hermes.domain.word import replace
from hermes.entry.http.site.admission import is_forwarded, is_loopback
from hermes.entry.http.site.body import read_body
from hermes.entry.http.site.endpoint import HttpCall, as_json, route
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.webhooks import PLATFORM, WEBHOOKS, incoming, signatures
from hermes.entry.http.webhooks.filters import BadRoute, ReadLines, passes
from hermes.entry.http.webhooks.routes import NamedTarget, RouteTable, WebhookRoute, target
from hermes.entry.http.webhooks.template import plain_text, words_for

log = logging.getLogger("hermes.webhooks")
LEAST_SECRET = 8
"""Characters of a secret that guards more than this machine's own programs."""
ROUTED = '{"routed": true}'
"""Noted with an event whose sender named no agent."""
_DELIVERY_SECONDS = 8.0
_LOOK_SECONDS = 0.02
_MINUTE = 60.0
_SILENT = "[SILENT]"
_OTHER_SCHEME = (
    "if its sender has changed, set `scheme` of the route: in config.yaml, or with"
    " `hermes webhook subscribe {name} --scheme …` and its other options"
)
RunScript = Callable[[str, bytes, float], Awaitable[tuple[int | None, bytes]]]
"""Runs a script with words on its input; its code (None if it was ended) and its output."""


class EventIgnored(Exception):
    """The event is not wanted; the reason is for its sender."""


class Webhooks(Struct, frozen=True, kw_only=True):
    """What all webhooks of a gateway share."""

    routes: RouteTable
    read_lines: ReadLines
    run_script: RunScript
    rates: RateLimiter
    max_body: int
    script_seconds: int
    warned: set[str] = field(default_factory=set)
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, name: str) -> WebhookRoute:
        """The route of this name, if it takes events."""
        route = await asyncio.to_thread(self.routes.find, name)
        if route is None:
            raise ApiError(404, "unknown_route", "There is no webhook route of this name.")
        if not route.enabled:
            if route.problem:
                self.warn_once(name, "webhook.broken_route", route.problem)
            raise ApiError(403, "route_disabled", "This webhook route takes no events.")
        return route

    def warn_once(self, name: str, event: str, why: str) -> None:
        if name not in self.warned:
            self.warned.add(name)
            log.warning("%s route=%s: %s", event, name, why)

    async def through_script(self, route: WebhookRoute, facts: incoming.EventFacts) -> incoming.EventFacts:
        """The event as the route's script leaves it; nothing said, or a failure, drops it."""
        if not route.script:
            return facts
        given = json.dumps(facts.payload, ensure_ascii=False).encode("utf-8", "replace")
        try:
            code, printed = await self.run_script(route.script, given, self.script_seconds)
        except UserError as error:
            log.warning("webhook.script_failed route=%s: %s", route.name, error)
            raise EventIgnored("script") from error
        if code != 0:
            log.warning("webhook.script_failed route=%s code=%s", route.name, code)
        output = printed.decode("utf-8", "replace").strip()
        if code != 0 or output in ("", _SILENT):
            raise EventIgnored("script")
        return replace(facts, payload=_script_payload(output))


def _script_payload(output: str) -> Any:
    """JSON takes the payload's place; other words are its `output`."""
    try:
        payload = json.loads(output)
    except (ValueError, RecursionError):
        return {"output": output}
    return {"output": output} if incoming.is_deeper(payload, incoming.MOST_DEPTH) else payload


class RateLimiter:
    """How often each route was called within the last minute. Only what proved itself is counted, so that
    nobody else can use up a route's calls."""

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._most = most
        self._now = now
        self._calls: dict[str, deque[float]] = {}

    def count(self, name: str) -> None:
        calls, now = self._calls.setdefault(name, deque()), self._now()
        while calls and now - calls[0] >= _MINUTE:
            calls.popleft()
        if len(calls) >= self._most:
            after = str(int(_MINUTE - (now - calls[0])) + 1)
            raise ApiError(
                429,
                "too_many_events",
                f"This route takes {self._most} events a minute.",
                headers={"Retry-After": after},
            )
        calls.append(now)


class WebhookAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What became of an event: `accepted`, `ignored` with a reason, `duplicate`, `delivered`, `queued`."""

    status: str
    route: str = ""
    event: str = ""
    delivery_id: str = ""
    reason: str = ""
    target: str = ""


class WebhookEvent(Struct, frozen=True, kw_only=True):
    """An event that proved itself, on its way to become a turn. `agent` is the one that its sender named."""

    agent: AgentId | None
    route: WebhookRoute
    facts: incoming.EventFacts
    delivery: incoming.WebhookDelivery
    scheme: signatures.SignatureScheme

    @property
    def owner(self) -> str:
        return f"webhook:{self.route.name}"

    def answer(self, status: int, outcome: str, **more: str) -> web.Response:
        name, event, ident = self.route.name, self.facts.event, self.delivery.id
        log.info("webhook.%s route=%s event=%s delivery=%s", outcome, name, event, ident)
        body = WebhookAnswer(status=outcome, route=name, event=event, delivery_id=ident, **more)
        # To Linear, everything but 200 is a failure, after which it sends the event again.
        return as_json(body, status=200 if self.scheme is signatures.SignatureScheme.LINEAR else status)


SIGNED: dict[str, Any] = {
    "scope": None,
    "signed": True,
    "status": 202,
    "also": (200,),
    "refuses": (401, 404, 413, 429, 502, 503),
}


@route("POST", "/webhooks/{route}", "Hand an event to a webhook route.", **SIGNED)
async def receive(call: HttpCall) -> WebhookAnswer | web.Response:
    return await _receive(call, None)


@route("POST", "/p/{agent}/webhooks/{route}", "Hand an event to a route, for this agent.", **SIGNED)
async def receive_for(call: HttpCall) -> WebhookAnswer | web.Response:
    agent = AgentId(call.part("agent"))
    if not call.gateway.hosts(agent):
        raise ApiError(404, "unknown_agent", "There is no agent of this name.")
    return await _receive(call, agent)


async def _receive(call: HttpCall, agent: AgentId | None) -> web.Response:
    hooks = call.request.app[WEBHOOKS]()
    if hooks is None:
        raise ApiError(404, "unknown_route", "Webhooks are switched off.")
    route = await hooks.find(call.part("route"))
    body = await read_body(call.request, hooks.max_body, call.site.options.body_seconds)
    headers = signatures.Headers(call.request.headers.items())
    now = call.site.clock.now().timestamp()
    pin = _pin_name(route)
    only = route.scheme or await _pinned(call, pin)
    proof = _prove(call.request, route, headers, body, now, only)
    if proof.scheme is signatures.SignatureScheme.GENERIC_V1:
        # It signs no time: whoever copied a request can send it again.
        hooks.warn_once(route.name, "webhook.deprecated_signature", "use X-Webhook-Signature-V2")
    agent = _bound_agent(call, route, agent)
    hooks.rates.count(route.name)
    payload = await asyncio.to_thread(incoming.read_payload, body, call.request.content_type)
    facts = incoming.EventFacts(payload=payload, headers=headers, event=incoming.event_name(headers, payload))
    incoming.check_event(facts, proof)
    if only is None and proof.scheme in signatures.SCHEMES:
        await _pin(call, route, pin, proof.scheme)
    said = incoming.challenge(facts, proof)
    if said is not None:
        return as_json({"challenge": said})
    delivery = incoming.identify(headers, body, proof, now, payload)
    event = WebhookEvent(agent=agent, route=route, facts=facts, delivery=delivery, scheme=proof.scheme)
    try:
        return await _take(call, hooks, event)
    except EventIgnored as why:
        return event.answer(200, "ignored", reason=str(why))


def _bound_agent(call: HttpCall, route: WebhookRoute, named: AgentId | None) -> AgentId | None:
    """The agent that an event goes to: that of the route, which no address leads elsewhere."""
    if not route.agent:
        return named
    bound = AgentId(route.agent)
    if named not in (None, bound):
        raise ApiError(403, "wrong_agent", "This webhook route is for another agent.")
    if not call.gateway.hosts(bound):
        log.warning("webhook.no_agent route=%s: there is no agent %s", route.name, bound)
        raise ApiError(502, "unknown_agent", "The agent of this webhook route is not there.")
    return bound


# --- one scheme for each route: as it is set, or as its first event was signed ---


def _pin_name(route: WebhookRoute) -> str:
    """Where the scheme is kept. With another secret the route begins anew; this little of a digest tells
    nothing of one."""
    mark = hashlib.sha256(route.secret.reveal().encode("utf-8", "surrogatepass")).hexdigest()[:4]
    return f"webhook_scheme:{route.name}:{mark}"


async def _pinned(call: HttpCall, pin: str) -> signatures.SignatureScheme | None:
    kept = await call.gateway.read(call.default, lambda tx: tx.facts.get(pin))
    return None if kept is None else signatures.SignatureScheme(kept)


async def _pin(call: HttpCall, route: WebhookRoute, pin: str, scheme: signatures.SignatureScheme) -> None:
    def keep(tx: Tx) -> str:
        kept = tx.facts.get(pin)
        if kept is None:
            tx.facts.put(pin, scheme.value)
        return kept or scheme.value

    if (kept := await call.gateway.write(call.default, keep)) != scheme.value:
        raise _refused(call.request, route, f"it is signed as {scheme}, and an event just before as {kept}")
    log.info("webhook.scheme route=%s: it takes events signed as %s from now on", route.name, scheme)


def _refused(request: web.Request, route: WebhookRoute, why: str) -> ApiError:
    log.warning("webhook.refused route=%s peer=%s: %s", route.name, request.remote, why)
    return ApiError(401, "bad_signature", "The request is not signed as this route expects it.")


def _prove(
    request: web.Request,
    route: WebhookRoute,
    headers: signatures.Headers,
    body: bytes,
    now: float,
    only: signatures.SignatureScheme | None,
) -> signatures.VerifiedSignature:
    local = is_local(request)
    try:
        if (
            not local
            and route.secret.reveal() != signatures.NO_AUTH
            and len(route.secret.reveal()) < LEAST_SECRET
        ):
            raise signatures.BadSignature("the route's secret is too short for the network")
        return signatures.verify(headers, body, route.secret, now=now, loopback=local, only=only)
    except signatures.WrongScheme as why:
        raise _refused(request, route, f"{why}; {_OTHER_SCHEME.format(name=route.name)}") from why
    except signatures.BadSignature as why:
        raise _refused(request, route, str(why)) from why


def is_local(request: web.Request) -> bool:
    """Whether this came from a program of this machine, to this machine, and not from a page in a browser or
    through a proxy that would look the same."""
    transport = request.transport
    here = None if transport is None else transport.get_extra_info("sockname")
    if isinstance(here, str):
        return True  # the owner's socket
    name = urlsplit(f"//{request.host}").hostname or ""
    peers = (here[0] if here else "", request.remote or "", name)
    return "Origin" not in request.headers and not is_forwarded(request) and all(map(is_loopback, peers))


# --- from an event to a turn ---


async def _take(call: HttpCall, hooks: Webhooks, event: WebhookEvent) -> web.Response:
    if not event.route.wants(event.facts.event):
        raise EventIgnored("event")
    if event.facts.event == incoming.PING and incoming.PING not in event.route.events:
        raise EventIgnored("ping")
    if not await asyncio.to_thread(passes, event.route.filters, event.facts, hooks.read_lines):
        raise EventIgnored("filter")
    if await _is_known(call, event):
        return event.answer(200, "duplicate")
    facts = await hooks.through_script(event.route, event.facts)
    to = await _target(call, event.route, facts)
    if event.route.deliver_only:
        text = plain_text(event.route.prompt, facts)
    else:
        text = words_for(event.route.prompt, facts, route=event.route.name, mark=secrets.token_hex(8))
    address = Address(platform=PLATFORM, chat=event.route.name, thread=event.delivery.id)
    source = Source(address=address, kind=SourceKind.WEBHOOK)
    agent = event.agent or await call.gateway.route(source, text)
    words = Submission(
        agent=agent,
        source=source,
        input=TurnInput(
            text=text,
            context=await _skills(call, event.route, agent, source),
            action=TurnAction.RELAY if event.route.deliver_only else TurnAction.SAY,
            guidance=Guidance(toolsets=event.route.toolsets, unattended="deny"),
        ),
        cause=Cause.WEBHOOK,
        reply=None if to is None else ReplyPlace(to=to),
        request=NewRequest(
            prefix="hook_",
            owner=event.owner,
            key=event.delivery.keys[0],
            also=event.delivery.keys[1:],
            conversation=event.delivery.id,
            facts=ROUTED if event.agent is None else "{}",
        ),
    )
    submitted = await _submit(call, hooks, event, words)
    if submitted is None:
        return event.answer(200, "duplicate")
    if event.route.deliver_only and to is not None:
        return await _delivered(call, event, submitted.turn, to)
    return event.answer(202, "accepted")


async def _skills(call: HttpCall, route: WebhookRoute, agent: AgentId, source: Source) -> str:
    """What the skills say that the route names."""
    if not route.skills or route.deliver_only:
        return ""
    skills = (await call.gateway.agents.get(agent)).skills
    return "" if skills is None else await skills.load(route.skills, source, "")


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
    scope = EVERY_AGENT if event.agent is None else event.agent
    known = await call.gateway.read(scope, lambda tx: find_requests(tx, owner, keys))
    # What was sent to another agent by name is an event of its own.
    return any(each.agent in (event.agent, call.default) or each.facts == ROUTED for each in known)


async def _target(call: HttpCall, route: WebhookRoute, facts: incoming.EventFacts) -> Address | None:
    try:
        to = target(route, facts)
        if isinstance(to, NamedTarget):
            chats = await call.gateway.courier.resolve(to.target)
            if len(chats) != 1:
                raise BadRoute(f"{one_line(to.target, 80)} is not one chat.")
            to = replace(chats[0], thread=to.thread or chats[0].thread)
    except (BadRoute, UserError) as error:
        log.warning("webhook.no_target route=%s: %s", route.name, error)
        raise ApiError(502, "no_target", "There is no chat that this event could go to.") from error
    if to is not None and to.credential not in call.gateway.accounts.names:
        log.warning("webhook.no_target route=%s: %s is not set up here", route.name, to.credential)
        raise ApiError(502, "no_target", f"{to.platform} is not set up here, so nothing can go there.")
    return to


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
