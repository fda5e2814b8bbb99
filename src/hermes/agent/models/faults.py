"""What a model's service said when it did not answer, as the errors of our own tree.

Owns which statuses are worth another try. Texts from outside are cut to a line, and keys in them blotted out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.text import one_line

MOST_ERROR_BYTES = 64 * 1024
_TRY_AGAIN = {408, 409, 423, 425}
_BUSY = {429, 502, 503, 529}
_KEYS = re.compile(r"\b(?:sk|pk|key|tok|gsk|xai|AIza)[-_A-Za-z0-9*.]{6,}", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\bbearer\s+\S+")
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size|limit)|maximum.{0,20}tokens|too many tokens|prompt is too long"
    r"|exceeds?.{0,30}(context|tokens)|input is too long",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"quota|credit|billing|payment|balance", re.IGNORECASE)
_FILTERED = re.compile(r"content.{0,10}(filter|policy|management)|safety|moderation", re.IGNORECASE)

_NO_IMAGES = re.compile(
    r"(?:image|vision|picture|multi-?modal)[^.]{0,60}"
    r"(?:not (?:be )?(?:supported|enabled|allowed|available)|disabled|only supported)"
    r"|(?:unsupported|not support(?:ed)?|n't support|not accept)[^.]{0,40}(?:image|vision|multi-?modal)"
    r"|not a (?:vision|multi-?modal)|no endpoints found that support image|at most 0 image"
    r"|unknown variant [^a-z]?image_url|content[^.]{0,30} must be a string",
    re.IGNORECASE,
)
"""How services say that a model takes words alone; there is no code for it."""
_ABOUT_IMAGES = re.compile(r"\bimages?\b|image_url", re.IGNORECASE)

CONTEXT_TOO_LONG = (
    "the conversation is longer than this model can read. Begin anew with /new, take words back "
    "with /undo, or choose a model that reads more"
)
NEW_KEY = "Set another with `hermes config set model.api_key …`."
NO_CREDIT = "the account has no credit or quota left. Add some, or choose another model"
FILTERED = "its content filter withheld the answer. Say it in other words"


class ImagesRefused(Refused):
    """It refuses a picture; `lasting` if it takes none at all."""

    def __init__(self, message: str, *, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelErrorDetails:
    """An error as it came: its status (or the code in a body), its words, and when to try again."""

    status: int
    message: str = ""
    code: str = ""
    after: float | None = None


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, *, secret: str = ""
) -> ModelErrorDetails:
    """Read an answer with an error status. What is not JSON (a proxy's page) is not repeated."""
    after = read_retry_after(headers)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return ModelErrorDetails(status=status, after=after)
    error = data.get("error", data) if isinstance(data, dict) else data
    told = read_error_object(error, secret=secret)
    return ModelErrorDetails(status=status, message=told.message, code=told.code, after=after)


def read_error_object(error: object, *, secret: str = "") -> ModelErrorDetails:
    """Read the `error` of a body; some services answer 200 and put the status into its code."""
    if not isinstance(error, dict):
        return ModelErrorDetails(
            status=0, message=_clean(str(error), secret) if isinstance(error, str) else ""
        )
    code = error.get("code")
    status = code if isinstance(code, int) else 0
    if isinstance(code, str) and code.isdecimal():
        status = int(code)
    message = error.get("message") or error.get("detail") or ""
    kind = str(code or error.get("type") or "")
    return ModelErrorDetails(status=status, message=_clean(str(message), secret), code=kind)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from a number of seconds or a date."""
    told = headers.get("Retry-After", "").strip()
    if not told:
        return None
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(told)
    except (ValueError, TypeError, IndexError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def error_for(details: ModelErrorDetails, *, model: str, place: str) -> HermesError:
    """What the catcher should do about it. `place` is the address that was asked, without credentials."""
    status, words = details.status, details.message
    said = f" (“{words}”)" if words else ""
    if status == 401:
        return NeedsLogin(f"{place} did not accept the key. {NEW_KEY}")
    if status == 403:
        return NeedsLogin(f"{place} does not allow this{said}. Check the key and what it may use.")
    if status == 402 or (status in (0, 429) and _NO_CREDIT.search(f"{details.code} {words}")):
        return Refused(f"{NO_CREDIT}{said}.")
    if status == 413 or (status not in _BUSY and _TOO_LONG.search(f"{details.code} {words}")):
        return Refused(f"{CONTEXT_TOO_LONG}.")
    # Before what may work later: some answer so with 500.
    if status not in _BUSY and _NO_IMAGES.search(words):
        return ImagesRefused(f"this model takes no pictures{said}.", lasting=True)
    if status in _TRY_AGAIN or status in _BUSY or status >= 500 or status == 0:
        return Unreachable(f"{place} answered with {status or 'an error'}{said}", after=details.after)
    if status == 404:
        return Refused(_not_found(details, model, place))
    if status < 400:
        return Refused(f"{place} answered with {status}, a way to somewhere else. Check model.base_url.")
    if _FILTERED.search(f"{details.code} {words}"):
        return Refused(f"{FILTERED}.")
    if _ABOUT_IMAGES.search(words):
        return ImagesRefused(f"{place} answered with {status}{said}.", lasting=False)
    return Refused(f"{place} answered with {status}{said}.")


def _not_found(details: ModelErrorDetails, model: str, place: str) -> str:
    if "model" in f"{details.code} {details.message}".lower():
        return f"there is no model “{one_line(model)}” at {place}. Choose another with /model."
    return f"there is nothing at {place}. Check model.base_url, which mostly ends in /v1."


def _clean(text: str, secret: str) -> str:
    if len(secret) >= 4:
        text = text.replace(secret, "***")
    return one_line(_BEARER.sub("***", _KEYS.sub("***", text)), 200).rstrip(".")
