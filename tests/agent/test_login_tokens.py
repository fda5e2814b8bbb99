"""What a token server's answer means for a login: how long its token lives, and whether it is over."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermes.agent.models.login.oauth import _refusal, _tokens
from hermes.agent.models.login.services import LOGINS
from hermes.domain.errors import NeedsLogin, Unreachable

NOW = datetime(2026, 11, 18, tzinfo=UTC)
LOGIN = next(iter(LOGINS.values()))


def token(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.sig"


@pytest.mark.parametrize("ends", [1_800_000_000_000, float("nan"), -1e20, float("inf"), "soon"])
def test_a_rotated_token_is_kept_however_odd_its_end_is(ends: object) -> None:
    answer = {"access_token": token(exp=ends), "refresh_token": "r2"}
    made = _tokens(LOGIN, answer, NOW)
    assert made.refresh.reveal() == "r2" and made.expires_at == NOW + timedelta(hours=1)


def test_the_end_of_a_token_is_read() -> None:
    ends = NOW + timedelta(minutes=10)
    made = _tokens(LOGIN, {"access_token": token(exp=int(ends.timestamp()))}, NOW)
    assert made.expires_at == ends


@pytest.mark.parametrize(
    ("status", "answer", "over"),
    [
        # RFC 6749, 5.2
        (400, {"error": "invalid_grant"}, True),
        (401, {"error": "invalid_client"}, True),
        (401, {"error": "", "code": "refresh_token_reused"}, True),
        (400, {"error": "temporarily_unavailable"}, False),
        (400, {"error": "blocked_by_proxy"}, False),
        (403, {"error": "invalid_grant"}, False),
        (403, {"error": "blocked_by_proxy"}, False),
        (407, {"error": "proxy_authentication_required"}, False),
        (404, {"error": "not_found"}, False),
        (500, {"error": "invalid_grant"}, False),
        (400, {}, False),
    ],
)
def test_only_what_the_standard_names_ends_a_login(status: int, answer: dict[str, str], over: bool) -> None:
    assert isinstance(_refusal(LOGIN, status, answer), NeedsLogin if over else Unreachable)
