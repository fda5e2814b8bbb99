"""What a service's error means: by its status, its code and, last, its words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from hermes.agent.models.faults import RULES, fault_for, read_error
from hermes.domain.errors import (
    FaultKind,
    HermesError,
    Lost,
    ModelFault,
    NeedsLogin,
    Refused,
    Unreachable,
    UserError,
    as_model_fault,
)


def fault(status: int, error: object, **headers: str) -> ModelFault:
    details = read_error(status, headers, json.dumps(error).encode())
    return fault_for(details, model="tiny", place="http://x/v1")


def openai(message: str = "", *, code: str | int | None = None, type: str = "") -> object:
    return {"error": {"message": message, "code": code, "type": type}}


K = FaultKind
ERRORS = [
    (401, openai("Incorrect API key provided: sk-abcdefgh"), K.BAD_KEY),
    (403, openai("Country not supported"), K.BAD_KEY),
    (403, openai("Input was flagged by moderation", code=403), K.FILTERED),
    (403, openai("Input token count exceeds the context length"), K.TOO_LONG),
    (402, openai("Insufficient credits", code=402), K.NO_CREDIT),
    (429, openai("You exceeded your current quota", code="insufficient_quota"), K.NO_CREDIT),
    (429, openai("Slow down", code="credit_balance_exhausted"), K.NO_CREDIT),
    (413, openai("Payload too large"), K.TOO_LONG),
    (400, openai("no words for it", code="context_length_exceeded"), K.TOO_LONG),
    (400, openai("no words for it", code=400, type="exceed_context_size_error"), K.TOO_LONG),
    (500, openai("Context size has been exceeded.", type="server_error"), K.TOO_LONG),
    (400, {"object": "error", "message": "maximum context length is 8 tokens", "code": 400}, K.TOO_LONG),
    (500, openai("image input is not supported - hint: mmproj"), K.NO_IMAGES),
    (429, openai("images per minute: not supported any more"), K.LIMITED_UNTIL),
    (429, openai("Rate limit reached"), K.LIMITED_UNTIL),
    (503, openai("Loading model", type="unavailable_error"), K.BUSY),
    (529, openai("Overloaded", type="overloaded_error"), K.BUSY),
    (408, openai("timeout"), K.BUSY),
    (502, openai("Provider returned error"), K.BROKEN),
    (500, openai("The server had an error"), K.BROKEN),
    (404, {"error": "model 'tiny' not found, try pulling it first"}, K.NO_MODEL),
    (400, openai("no such thing", code="model_not_found"), K.NO_MODEL),
    (404, openai("page not found"), K.NO_MODEL),
    (302, openai(), K.NO_MODEL),
    (400, openai("held back", code="content_filter"), K.FILTERED),
    (400, openai("Could not process image"), K.NO_IMAGES),
    (400, [{"error": {"message": "Please use a valid role", "code": 400}}], K.BAD_REQUEST),
    (422, openai("messages is required"), K.BAD_REQUEST),
]


@pytest.mark.parametrize(("status", "error", "kind"), ERRORS)
def test_the_kind_of_an_error(status: int, error: object, kind: FaultKind) -> None:
    found = fault(status, error)
    assert found.kind is kind, found
    assert found.is_passing == (kind in (K.BUSY, K.BROKEN, K.LIMITED_UNTIL))
    assert "sk-abc" not in str(found)


def test_a_limit_with_its_end_is_told_as_one() -> None:
    limited = fault(429, openai("Rate limit reached"), **{"Retry-After": "90"})
    assert limited.kind is K.LIMITED_UNTIL and limited.after == 90 and limited.is_passing
    now = datetime.now(UTC)
    assert limited.until is not None and now < limited.until <= now + timedelta(seconds=90)
    assert str(limited).endswith(f"wait until {limited.until:%H:%M:%S} UTC")
    busy = fault(503, openai("Loading"), **{"Retry-After": "5"})
    assert busy.kind is K.BUSY and busy.after == 5


@pytest.mark.parametrize("wait", ["1e308", "inf", "nan", "-5", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", ""])
def test_no_wait_is_too_odd(wait: str) -> None:
    found = fault(429, openai("Rate limit reached"), **{"Retry-After": wait})
    assert found.after is None or 0 <= found.after <= 366 * 86_400


def test_only_one_picture_may_be_at_fault() -> None:
    assert fault(400, openai("Could not process image")).only_this
    assert not fault(400, openai("This model does not support image inputs")).only_this


def test_errors_in_a_body_that_name_no_status() -> None:
    for words, kind in (("Overloaded", K.BUSY), ("it broke", K.BROKEN), ("no credits left", K.NO_CREDIT)):
        assert fault(0, {"error": {"message": words}}).kind is kind, words


def test_every_rule_names_where_the_vendor_says_so() -> None:
    assert all(rule.source for rule in RULES)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UserError("There is none.", hint="Set one."), K.NO_MODEL),
        (NeedsLogin("no key"), K.BAD_KEY),
        (Unreachable("later", after=3.0), K.BUSY),
        (Refused("no"), K.BAD_REQUEST),
        (Lost("gone"), K.BAD_REQUEST),
        (ModelFault("x", kind=K.FILTERED), K.FILTERED),
    ],
)
def test_other_errors_of_a_provider_have_a_kind_too(error: HermesError, kind: FaultKind) -> None:
    found = as_model_fault(error)
    assert found.kind is kind and str(found) == str(error)
    assert found.after == getattr(error, "after", None)
