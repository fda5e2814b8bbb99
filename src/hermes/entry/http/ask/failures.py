"""A turn that failed, as the error of an HTTP answer: one table for all doors. The sentences are for whoever
holds a key; what names addresses or settings of the gateway is added for keys that may administer it.

The turn began and may have done something, so clients are told not to repeat the request by themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hermes.domain.errors import FaultKind
from hermes.domain.event import Failed, Stopped
from hermes.domain.text import one_line
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import HttpCall
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import ERROR, RETRY_AFTER, SHOULD_RETRY

_FAULTS: Mapping[FaultKind, tuple[int, str, str]] = {
    FaultKind.TOO_LONG: (
        400,
        "context_length_exceeded",
        "The conversation is longer than the model can read. Send fewer or shorter messages.",
    ),
    FaultKind.BUSY: (503, "model_busy", "The model's service has no room right now. Try again later."),
    FaultKind.LIMITED_UNTIL: (
        429,
        "rate_limit_exceeded",
        "The model's service limits how often it may be asked. Try again later.",
    ),
    FaultKind.NO_CREDIT: (
        429,
        "insufficient_quota",
        "The account of the model has no credit left.",
    ),
    FaultKind.BAD_KEY: (
        502,
        "model_credentials_refused",
        "The model's service does not accept the gateway's credentials. Only its operator can mend this.",
    ),
    FaultKind.NO_MODEL: (
        502,
        "model_unavailable",
        "The agent's model is not available. Only the gateway's operator can mend this.",
    ),
    FaultKind.NO_IMAGES: (400, "images_not_supported", "The agent's model does not take these pictures."),
    FaultKind.FILTERED: (400, "content_filter", "The model's content filter withheld the answer."),
    FaultKind.BAD_REQUEST: (400, "model_refused_request", "The model's service refused the request."),
    FaultKind.BROKEN: (502, "model_unreachable", "The model's service could not be reached, or broke off."),
}


def failure_error(call: HttpCall, end: Failed | Stopped) -> ApiError:
    """Why a turn has no answer."""
    headers = {SHOULD_RETRY: "false"}
    if isinstance(end, Stopped) or end.cause is None:
        message = end.reason or "The run was stopped."
        return _error(502, "agent_incomplete", message, headers)
    cause = end.cause
    status, code, message = _FAULTS[cause.kind]
    if cause.kind is FaultKind.BAD_REQUEST and not cause.quote:
        # It was not the request: the answer had no end, or a provider broke.
        status, code, message = 502, "agent_incomplete", "The model gave no answer."
    if cause.retry_at is not None:
        seconds = (cause.retry_at - call.site.clock.now()).total_seconds()
        headers[RETRY_AFTER] = str(max(1, math.ceil(seconds)))
    if cause.detail and cause.kind is not FaultKind.TOO_LONG and call.principal.may(KeyScope.ADMIN):
        message = f"{message} Details: {cause.detail}"
    elif cause.quote and cause.kind is FaultKind.BAD_REQUEST:
        message = f"{message} It says: {cause.quote}."
    return _error(status, code, message, headers)


def _error(status: int, code: str, message: str, headers: dict[str, str]) -> ApiError:
    headers[ERROR] = one_line(message, 200).encode("ascii", "replace").decode()
    return ApiError(status, code, message, headers=headers)
