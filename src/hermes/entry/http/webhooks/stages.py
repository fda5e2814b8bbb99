"""What all webhooks of a gateway share: their routes, how often each may be called, and what an event
becomes on the way from its payload to words: filtered, handed to the route's script, rendered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from hermes.domain.errors import UserError
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.webhooks.filters import EventFacts, ReadLines, passes
from hermes.entry.http.webhooks.payload import MOST_DEPTH, is_deeper
from hermes.entry.http.webhooks.routes import RouteTable, WebhookRoute
from hermes.entry.http.webhooks.template import plain_text, words_for

log = logging.getLogger("hermes.webhooks")
_MINUTE = 60.0
_SILENT = "[SILENT]"

RunScript = Callable[[str, bytes, float], Awaitable[tuple[int | None, bytes]]]
"""Runs a script with words on its input; its code (None if it was ended) and its output."""


class EventIgnored(Exception):
    """The event is not wanted; the reason is for its sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
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
            if route.problem and name not in self.warned:
                self.warned.add(name)
                log.warning("webhook.broken_route route=%s: %s", name, route.problem)
            raise ApiError(403, "route_disabled", "This webhook route takes no events.")
        return route

    def warn_once(self, name: str) -> None:
        """The oldest scheme signs no time: whoever copied a request can send it again."""
        if name not in self.warned:
            self.warned.add(name)
            log.warning("webhook.deprecated_signature route=%s: use X-Webhook-Signature-V2", name)

    async def check_wanted(self, route: WebhookRoute, facts: EventFacts) -> None:
        if not route.wants(facts.event):
            raise EventIgnored("event")
        if not await asyncio.to_thread(passes, route.filters, facts, self.read_lines):
            raise EventIgnored("filter")

    async def through_script(self, route: WebhookRoute, facts: EventFacts) -> EventFacts:
        """The event as the route's script leaves it; nothing said, or a failure, drops it."""
        if not route.script:
            return facts
        given = json.dumps(facts.payload, ensure_ascii=False).encode("utf-8", "replace")
        try:
            code, printed = await self.run_script(route.script, given, self.script_seconds)
        except UserError as error:
            log.warning("webhook.script_failed route=%s: %s", route.name, error)
            raise EventIgnored("script") from error
        output = printed.decode("utf-8", "replace").strip()
        if code != 0:
            log.warning("webhook.script_failed route=%s code=%s", route.name, code)
            raise EventIgnored("script")
        if output in ("", _SILENT):
            raise EventIgnored("script")
        return replace(facts, payload=_script_payload(output))


def _script_payload(output: str) -> Any:
    """JSON takes the payload's place; other words are its `output`."""
    try:
        payload = json.loads(output)
    except (ValueError, RecursionError):
        return {"output": output}
    return {"output": output} if is_deeper(payload, MOST_DEPTH) else payload


def render(route: WebhookRoute, facts: EventFacts) -> str:
    """The words of an event: for people as they are, for an agent labelled."""
    if route.deliver_only:
        return plain_text(route.prompt, facts)
    return words_for(route.prompt, facts, route=route.name, mark=secrets.token_hex(8))


WEBHOOKS: web.AppKey[Webhooks | None] = web.AppKey("webhooks")
"""Where the server keeps them for `receive`; None where webhooks are switched off."""


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
