"""An event as it comes in: its body, understood as JSON or as a form; its name; and the keys by which it
counts once.

A delivery id is the sender's; the keys hold the body's hash as well, so one id for two bodies loses nothing.
What was signed is a key of its own, the same in all schemes: whoever repeats a request cannot change it, but
could change an id that nobody signed. Bodies of GitHub that bear no time can be equal though the events are
not: those count once within minutes, and then by their id. Where nothing is signed and there is no id, the
same body counts once in an hour or two."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct

from hermes.domain.text import one_line, showable
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.entry.http.webhooks.signatures import Headers, SignatureScheme, VerifiedSignature

MOST_DEPTH = 64
_MOST_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"
_HOUR = 3600
_MINUTES = 600
UNKNOWN_EVENT = "unknown"
_ID_HEADERS = (
    "x-github-delivery", "svix-id", "webhook-id", "x-shopify-webhook-id", "linear-delivery", "x-request-id",
    "idempotency-key",
)  # fmt: skip
_EVENT_HEADERS = ("x-github-event", "x-gitlab-event", "x-shopify-topic", "linear-event")
_GITHUB_CONTEXT = ("repository", "organization", "enterprise", "installation", "sender")
"""Parts of GitHub's events that say where, and not what happened."""
PING = "ping"
_GITHUB_PARTS = {
    PING: "zen", "push": "commits", "pull_request": "pull_request", "pull_request_review": "review",
    "pull_request_review_comment": "comment", "issues": "issue", "issue_comment": "comment",
    "commit_comment": "comment", "discussion": "discussion", "discussion_comment": "comment",
    "release": "release", "create": "ref_type", "delete": "ref_type", "fork": "forkee", "member": "member",
    "workflow_run": "workflow_run", "workflow_job": "workflow_job", "check_run": "check_run",
    "check_suite": "check_suite", "deployment": "deployment", "deployment_status": "deployment_status",
    "label": "label", "milestone": "milestone", "package": "package", "status": "state",
    "repository_dispatch": "client_payload",
}  # fmt: skip
"""What the body of an event of GitHub holds at least: the header that names the event is not signed."""
_MOST_NAME = 120
_MOST_ID = 128
ABSENT = object()
"""What a path leads to that leads nowhere; `null` is something."""


def read_payload(body: bytes, kind: str) -> Any:
    """What a body says. `kind` is its content type."""
    if kind == _FORM:
        return _read_form(body)
    if kind == "application/json" or kind.endswith("+json"):
        return _read_json(body)
    raise ApiError(415, "unsupported_content_type", "The body must be JSON or a form (Content-Type).")


def _read_json(body: bytes | str) -> Any:
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        payload = json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise bad_request("The body is not JSON.", code="invalid_json") from error
    if is_deeper(payload, MOST_DEPTH):
        raise _too_deep()
    return payload


def _read_form(body: bytes) -> Any:
    """Fields by name. GitHub sends its JSON as the one field `payload`."""
    try:
        fields = parse_qs(
            body.decode("utf-8"), keep_blank_values=True, strict_parsing=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise bad_request("The body is not a form.", code="invalid_form") from error
    if fields.keys() == {"payload"} and len(fields["payload"]) == 1:
        return _read_json(fields["payload"][0])
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        below: list[Any] = []
        for one in level:
            below += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        if not below:
            return False
        level = below
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _too_deep() -> ApiError:
    return bad_request("The body is nested too deeply.", code="invalid_json")


class WebhookDelivery(Struct, frozen=True, kw_only=True):
    """One event on its way in. It counts once: not again if one of its keys is known."""

    id: str
    keys: tuple[str, ...]


def event_name(headers: Headers, payload: Any) -> str:
    inside = payload if isinstance(payload, dict) else {}
    names = [headers.get(name) for name in _EVENT_HEADERS] + [inside.get("event_type"), inside.get("type")]
    if inside.get("type") == "event_callback" and isinstance(inside.get("event"), dict):
        names[-1] = inside["event"].get("type")  # Slack's envelope
    for name in names:
        if isinstance(name, str) and (clean := one_line(name, _MOST_NAME)):
            return clean
    return UNKNOWN_EVENT


def check_event(facts: EventFacts, proof: VerifiedSignature) -> None:
    """Refuse a name of an event that the signed body contradicts."""
    part = _GITHUB_PARTS.get(facts.event) if proof.scheme is SignatureScheme.GITHUB else None
    if part is not None and not (isinstance(facts.payload, dict) and part in facts.payload):
        raise bad_request(f"The body is not that of the event “{facts.event}”.", code="event_mismatch")


def challenge(facts: EventFacts, proof: VerifiedSignature) -> str | None:
    """What Slack wants to hear back when an address is entered there."""
    asked = proof.scheme is SignatureScheme.SLACK and facts.event == "url_verification"
    text = facts.payload.get("challenge") if asked else None
    return text if isinstance(text, str) else None


def identify(
    headers: Headers, body: bytes, proof: VerifiedSignature, now: float, payload: Any = None
) -> WebhookDelivery:
    digest = hashlib.sha256(body).hexdigest()
    sent = _sender_id(headers, proof)
    keys = [] if sent is None else [f"id:{sent}:{digest}"]
    if proof.scheme is SignatureScheme.STRIPE and isinstance(payload, dict) and payload.get("id"):
        keys.append(f"event:{payload['id']}"[:_MOST_ID])  # a retry is signed anew, and its body may differ
    if proof.scheme is SignatureScheme.LINEAR and sent is not None:
        keys.append(f"event:{sent}")  # a retry has the same id and another time in its body
    if proof.scheme is SignatureScheme.SLACK:
        keys.append(f"body:{digest}")  # a retry is signed with another time
    if proof.scheme is SignatureScheme.GITHUB and not _is_dated(payload):
        keys += _lately(f"body{_MINUTES}", digest, _MINUTES, now)
    elif proof.signed:
        keys.append(f"body:{proof.signed}")
    ident = sent or f"{int(now * 1000)}-{digest[:8]}"
    return WebhookDelivery(id=ident, keys=tuple(keys or _lately("hour", digest, _HOUR, now)))


def _lately(kind: str, digest: str, seconds: int, now: float) -> list[str]:
    """Keys that are known again for these seconds, and for twice as many at most."""
    span = int(now // seconds)
    return [f"{kind}:{number}:{digest}" for number in (span, span - 1)]


def _is_dated(payload: Any) -> bool:
    """Whether a body of GitHub says when what it tells of changed: then no other event has the same."""
    if not isinstance(payload, dict):
        return False
    parts = [part for name, part in payload.items() if name not in _GITHUB_CONTEXT and isinstance(part, dict)]
    return {"before", "after"} <= payload.keys() or any("updated_at" in part for part in (payload, *parts))


def _sender_id(headers: Headers, proof: VerifiedSignature) -> str | None:
    """The sender's id, printable and of a length that keys can have."""
    sent = proof.id or next(filter(None, map(headers.get, _ID_HEADERS)), None)
    if sent is None:
        return None
    if len(sent) <= _MOST_ID and sent.isprintable() and showable(sent) == sent:
        return sent
    return hashlib.sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class EventFacts(Struct, frozen=True, kw_only=True):
    """An event as filters and templates see it."""

    payload: Any
    headers: Headers
    event: str

    def find(self, path: str) -> Any:
        """What stands at a dotted path; numbers count in lists. `ABSENT` if nothing does."""
        if path == "event":
            return self.event
        if path.startswith("headers."):
            header = self.headers.get(path.removeprefix("headers."))
            return ABSENT if header is None else header
        value = self.payload
        for part in path.split("."):
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                return ABSENT
        return value
