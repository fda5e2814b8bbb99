"""What an event is called, and by which keys it counts once.

A delivery id is the sender's; the keys hold the body's hash as well, so one id for two bodies loses nothing.
A time that was signed is a key of its own: whoever repeats the request cannot change it, but could change an
id that nobody signed. With neither, the same body counts once in an hour or two.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from hermes.domain.text import one_line, showable
from hermes.entry.http.webhooks.signatures import Headers, VerifiedSignature

_HOUR = 3600
UNKNOWN_EVENT = "unknown"
_ID_HEADERS = ("x-github-delivery", "svix-id", "webhook-id", "x-request-id", "idempotency-key")
_EVENT_HEADERS = ("x-github-event", "x-gitlab-event")
_MOST_NAME = 120
_MOST_ID = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """One event on its way in. It counts once: not again if one of its keys is known."""

    id: str
    keys: tuple[str, ...]


def event_name(headers: Headers, payload: Any) -> str:
    inside = payload if isinstance(payload, dict) else {}
    names = [headers.get(name) for name in _EVENT_HEADERS] + [inside.get("event_type"), inside.get("type")]
    for name in names:
        if isinstance(name, str) and (clean := one_line(name, _MOST_NAME)):
            return clean
    return UNKNOWN_EVENT


def identify(headers: Headers, body: bytes, proof: VerifiedSignature, now: float) -> WebhookDelivery:
    digest = hashlib.sha256(body).hexdigest()
    sent = _sender_id(headers, proof)
    keys = [] if sent is None else [f"id:{sent}:{digest}"]
    if proof.timestamp is not None and proof.id is None:
        keys.append(f"at:{proof.timestamp}:{digest}")
    ident = sent or f"{int(now * 1000)}-{digest[:8]}"
    if not keys:
        hour = int(now // _HOUR)
        keys = [f"hour:{number}:{digest}" for number in (hour, hour - 1)]
    return WebhookDelivery(id=ident, keys=tuple(keys))


def _sender_id(headers: Headers, proof: VerifiedSignature) -> str | None:
    """The sender's id, printable and of a length that keys can have."""
    sent = proof.id or next(filter(None, map(headers.get, _ID_HEADERS)), None)
    if sent is None:
        return None
    if len(sent) <= _MOST_ID and sent.isprintable() and showable(sent) == sent:
        return sent
    return hashlib.sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()[:32]
