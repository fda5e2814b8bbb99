"""Why a turn has no answer, for programs: a status, a code and a sentence that is fit for whoever asked. One
table for every door that speaks OpenAI's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard

from msgspec import Struct

from hermes.domain.errors import FaultKind
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.turns.event import Failed, Stopped, TurnEnd
from hermes.domain.turns.turn import CLIENT_GONE
from hermes.domain.word import replace


class FailureFacts(Struct, frozen=True, kw_only=True):
    status: int
    code: str
    message: str


def _facts(status: int, code: str, message: str) -> FailureFacts:
    return FailureFacts(status=status, code=code, message=message)


_ADDRESS = late_pattern(
    r"[a-z][a-z0-9+.-]*://\S+"  # a URL
    r"|\[[0-9a-f:.]*:[0-9a-f:.]*\](?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?"  # an IP address
    r"|\b(?:localhost\b|[a-z0-9-]+(?:\.[a-z0-9-]+)+(?=:\d))(?::\d+)?"  # a host with its port
    r"|(?<![\w/])(?:~|[a-z]:)?[/\\][\w.@+-]+(?:[/\\][\w.@+-]+)+",  # a path
    re.IGNORECASE,
)
_LONGEST_QUOTE = 500
_MEND = "Only the gateway's operator can mend this."
_FAULTS: Mapping[FaultKind, FailureFacts] = {
    FaultKind.TOO_LONG: _facts(
        400,
        "context_length_exceeded",
        "The conversation is longer than the model can read. Send fewer or shorter messages.",
    ),
    FaultKind.BUSY: _facts(503, "model_busy", "The model's service has no room right now. Try again later."),
    FaultKind.LIMITED_UNTIL: _facts(
        429,
        "rate_limit_exceeded",
        "The model's service limits how often it may be asked. Try again later.",
    ),
    FaultKind.NO_CREDIT: _facts(429, "insufficient_quota", "The account of the model has no credit left."),
    FaultKind.BAD_KEY: _facts(
        502,
        "model_credentials_refused",
        f"The model's service does not accept the gateway's credentials. {_MEND}",
    ),
    FaultKind.NO_MODEL: _facts(502, "model_unavailable", f"The agent's model is not available. {_MEND}"),
    FaultKind.NO_IMAGES: _facts(
        400, "images_not_supported", "The agent's model does not take these pictures."
    ),
    FaultKind.FILTERED: _facts(400, "content_filter", "The model's content filter withheld the answer."),
    FaultKind.BAD_REQUEST: _facts(400, "model_refused_request", "The model's service refused the request."),
    FaultKind.BROKEN: _facts(
        502, "model_unreachable", "The model's service could not be reached, or broke off."
    ),
}
NO_ANSWER = _facts(502, "agent_incomplete", "The model gave no answer.")
_LEFT = _facts(502, "agent_incomplete", "The run was stopped because its client disconnected.")


_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def error_type(status: int) -> str:
    """The kind of an error in OpenAI's words."""
    return _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")


def is_lost(end: TurnEnd | None) -> TypeGuard[Failed | Stopped]:
    """Whether there is no answer, whatever was said before: it failed, or its client left it, and what was
    said until then must not look like one to who asks again."""
    return isinstance(end, Failed) or (isinstance(end, Stopped) and end.reason == CLIENT_GONE)


def failure_facts(end: Failed | Stopped, *, detailed: bool = False) -> FailureFacts:
    """`detailed` for who may know the gateway's addresses."""
    facts, cause = _public_facts(end), end.cause if isinstance(end, Failed) else None
    if cause is None or cause.kind is FaultKind.TOO_LONG or not detailed:
        return facts
    return replace(facts, message=f"{facts.message} Details: {cause.detail}")


def _public_facts(end: Failed | Stopped) -> FailureFacts:
    if isinstance(end, Stopped) and end.reason == CLIENT_GONE:
        return _LEFT
    if isinstance(end, Failed) and end.budget:
        return _facts(429, "insufficient_quota", end.reason)
    if isinstance(end, Stopped) or end.cause is None:
        return _facts(NO_ANSWER.status, NO_ANSWER.code, end.reason or "The run was stopped.")
    cause = end.cause
    facts = _FAULTS[cause.kind]
    if cause.kind is not FaultKind.BAD_REQUEST:
        return facts
    if not cause.quote:
        # It was not the request: the answer had no end, or a provider broke.
        return NO_ANSWER
    quote = _ADDRESS.sub("…", _shortened(cause.quote))
    return _facts(facts.status, facts.code, f"{facts.message} It says: {quote}.")


def _shortened(quote: str) -> str:
    """Whole words of it: half an address would not be known as one, and a long text would be searched for
    seconds."""
    if len(quote) <= _LONGEST_QUOTE:
        return quote
    return f"{quote[:_LONGEST_QUOTE].rpartition(' ')[0]} …"
