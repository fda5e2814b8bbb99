"""A turn that failed, as the error of an HTTP answer. What names addresses of the gateway's is added for keys
that may administer it. The turn began and may have done something, so clients are told not to repeat the
request by themselves."""

from __future__ import annotations

import math
from datetime import datetime

from hermes.domain.text import one_line
from hermes.domain.turns.event import Failed, Stopped
from hermes.domain.turns.turn import CLIENT_GONE
from hermes.entry.http.ask.turns import FAILURE_KEPT
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import HttpCall
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import ERROR, IDEMPOTENCY, RETRY_AFTER, SHOULD_RETRY
from hermes.stream.fold.failures import failure_facts


def may_know(call: HttpCall) -> bool:
    """Whether this client may know the gateway's addresses."""
    return call.principal.may(KeyScope.ADMIN)


def failure_words(call: HttpCall, end: Failed | Stopped) -> str:
    """Why a turn has no answer, for this client."""
    return failure_facts(end, detailed=may_know(call)).message


def failure_error(call: HttpCall, end: Failed | Stopped, failed_at: datetime | None = None) -> ApiError:
    """With `failed_at` it is the failure of an earlier run, which the same request is given again."""
    facts = failure_facts(end, detailed=may_know(call))
    cause = end.cause if isinstance(end, Failed) else None
    message, headers = facts.message, {SHOULD_RETRY: "false"}
    if cause is not None and cause.retry_at is not None:
        seconds = (cause.retry_at - call.site.clock.now()).total_seconds()
        headers[RETRY_AFTER] = str(max(1, math.ceil(seconds)))
    if isinstance(end, Stopped) and end.reason == CLIENT_GONE:
        message += " It had used tools, so it was not run again. To start a new run, send the request anew."
    elif failed_at is not None:
        wait = failed_at + FAILURE_KEPT - call.site.clock.now()
        message += (
            " The same request failed just before, after its run had used tools. So it was not run again."
            f" To run it again, send an {IDEMPOTENCY}, change the request, or wait"
            f" {max(1, math.ceil(wait.total_seconds()))} seconds."
        )
    headers[ERROR] = one_line(message, 200).encode("ascii", "replace").decode()
    return ApiError(facts.status, facts.code, message, headers=headers)
