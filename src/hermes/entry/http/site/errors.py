"""What goes wrong at the HTTP door, as the OpenAI API tells it: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from aiohttp import web

_encode = msgspec.json.Encoder().encode


class ErrorFacts(msgspec.Struct, kw_only=True):
    """What is wrong, in a sentence, and in words for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, kw_only=True):
    """The answer to a request that cannot be served."""

    error: ErrorFacts


class ApiError(Exception):
    """Raised by a resource, answered by the server. It never carries a secret."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})

    @property
    def body(self) -> bytes:
        facts = ErrorFacts(
            message=self.message, type=error_type(self.status), param=self.param, code=self.code
        )
        return _encode(ErrorBody(error=facts))

    def response(self) -> web.Response:
        return web.Response(
            status=self.status, body=self.body, content_type="application/json", headers=self.headers
        )


def error_type(status: int) -> str:
    match status:
        case 401:
            return "authentication_error"
        case 403:
            return "permission_error"
        case 404:
            return "not_found_error"
        case 429:
            return "rate_limit_error"
        case _:
            return "server_error" if status >= 500 else "invalid_request_error"


def bad_request(message: str, *, param: str | None = None, code: str = "invalid_request") -> ApiError:
    return ApiError(400, code, message, param=param)


def not_found(what: str, name: str, code: str) -> ApiError:
    return ApiError(404, code, f"There is no {what} “{name[:80]}”.")
