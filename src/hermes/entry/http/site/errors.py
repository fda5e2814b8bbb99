"""Errors in the shape of the OpenAI API, `{"error": {message, type, param, code}}`, with their statuses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from hermes.control.core import AgentUnavailable
from hermes.control.doors.continuing import AnswerExpected
from hermes.control.jobs.editing import TooManyJobs
from hermes.control.sessions.repeats import KeyConflict
from hermes.control.sessions.submission import NameTaken, NotFound, TurnUnfinished
from hermes.control.turn.budgets import BudgetSpent
from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.entry.http.site.headers import SHOULD_RETRY
from hermes.stream.fold.failures import error_type

_STATUSES: Mapping[type[HermesError], tuple[int, str]] = {
    NotFound: (404, "not_found"),
    NameTaken: (409, "session_exists"),
    AnswerExpected: (409, "question_open"),
    KeyConflict: (422, "idempotency_key_reused"),
    TurnUnfinished: (409, "still_running"),
    TooManyJobs: (403, "too_many_jobs"),
    AgentUnavailable: (503, "agent_unavailable"),
    UserError: (400, "invalid_request"),
}
"""The first that an error is an instance of counts."""
_KEPT_FROM_RETRY = (409, 500, 502)
"""OpenAI's clients repeat these by themselves, but something may have been done, or nothing will change."""


class ErrorFacts(msgspec.Struct, kw_only=True):
    """What is wrong, in a sentence, and in words for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, kw_only=True):
    """The answer to a request that cannot be served."""

    error: ErrorFacts
    hermes: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ApiError(Exception):
    """Raised by a resource, answered by the server. It never carries a secret. `more` is what there is
    beside the error: how far the answer came."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})
        self.more = more

    @property
    def body(self) -> ErrorBody:
        kind = error_type(self.status)
        facts = ErrorFacts(message=self.message, type=kind, param=self.param, code=self.code)
        return ErrorBody(error=facts, hermes=self.more or msgspec.UNSET)

    def response(self) -> web.Response:
        headers = {SHOULD_RETRY: "false", **self.headers} if self.status in _KEPT_FROM_RETRY else self.headers
        body = msgspec.json.encode(self.body)
        return web.Response(status=self.status, body=body, content_type="application/json", headers=headers)


def bad_request(message: str, *, param: str | None = None, code: str = "invalid_request") -> ApiError:
    return ApiError(400, code, message, param=param)


def too_large(limit: int) -> ApiError:
    return ApiError(413, "body_too_large", f"The body is larger than {limit:,} bytes.")


def not_found(what: str, name: str, code: str) -> ApiError:
    return ApiError(404, code, f"There is no {what} “{name[:80]}”.")


def as_api_error(error: ApiError | HermesError) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BudgetSpent):
        headers = {SHOULD_RETRY: "false"}
        if error.renews is not None:
            seconds = (error.renews - datetime.now(UTC)).total_seconds()
            headers["Retry-After"] = str(max(1, math.ceil(seconds)))
        return ApiError(429, "insufficient_quota", str(error), headers=headers)
    if isinstance(error, Unreachable):
        after = str(int(error.after or 1))
        return ApiError(503, "unavailable", f"Not now: {error}.", headers={"Retry-After": after})
    for kind, (status, code) in _STATUSES.items():
        if isinstance(error, kind):
            wait = {SHOULD_RETRY: "false"} if kind is AgentUnavailable else {}
            return ApiError(status, code, str(error), headers=wait)
    return ApiError(500, "internal_error", f"{error}.")


_NOT_OFFERED = (
    "completions", "embeddings", "audio", "images", "files", "uploads", "moderations", "batches", "videos",
    "vector_stores", "fine_tuning", "assistants", "threads", "conversations", "realtime", "containers",
    "evals",
)  # fmt: skip
"""What OpenAI has and this has not, by the first part of its path."""


def router_error(error: web.HTTPException, path: str = "") -> ApiError:
    """What aiohttp itself refuses."""
    resource = path.partition("/v1/")[2].partition("/")[0]
    match error.status:
        case 404 if resource in _NOT_OFFERED:
            offered = "There are /v1/chat/completions, /v1/responses and /v1/models. See /docs."
            return ApiError(404, "unknown_url", f"/v1/{resource} is not offered here. {offered}")
        case 404:
            return ApiError(404, "unknown_url", "There is nothing at this address. See /docs.")
        case 405:
            allow = error.headers.get("Allow", "")
            return ApiError(405, "method_not_allowed", f"Only {allow} here.", headers={"Allow": allow})
        case _:
            return ApiError(error.status, "bad_http", error.reason)
