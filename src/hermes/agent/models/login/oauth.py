"""Getting and renewing tokens (RFC 6749, RFC 8628): one login by a code, and one refresh.

Stores nothing and takes no lock: whoever calls this does. What a server refuses for good is `NeedsLogin`;
what may work later, a timeout included, is `Unreachable`, and nobody may throw tokens away because of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from hermes.agent.models.login.services import DeviceLogin, claims_of
from hermes.domain.errors import NeedsLogin, Unreachable, UserError
from hermes.domain.models.credential import Credential
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import one_line, showable
from hermes.domain.word import replace

SECONDS = 20.0
_MOST_BYTES = 64 * 1024
_CODE_SECONDS = 900.0
_SLOWER = 5.0
_USUAL_LIFE = 3600
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LATEST = 2.0**33
_FINAL = frozenset(
    {
        *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client"),
        *("unsupported_grant_type", "invalid_scope", "invalid_token", "access_denied", "expired_token"),
        *("token_expired", "token_revoked"),
    }
)
_FINAL_START = "refresh_token_"
"""OpenAI's account server: refresh_token_expired, _reused, _invalidated (github.com/openai/codex)."""
Sleep = Callable[[float], Awaitable[None]]
Now = Callable[[], datetime]


class TooFast(Exception):
    """The server wants to be asked less often."""


class LoginCode(Struct, frozen=True, kw_only=True):
    """What a person is told: where to go and what to type in there; and what we ask with meanwhile."""

    url: str
    code: str
    device: str
    interval: float
    seconds: float


class LoginTokens(Struct, frozen=True, kw_only=True):
    """What a token server gave; without a new refresh token the old one stays."""

    access: Secret
    refresh: Secret
    expires_at: datetime

    def on(self, credential: Credential) -> Credential:
        """The credential with these tokens; it lives again."""
        kept = self.refresh or credential.refresh
        return replace(
            credential, key=self.access, refresh=kept, expires_at=self.expires_at, dead="", cooldown=None
        )


async def request_code(login: DeviceLogin) -> LoginCode:
    asked = {"client_id": login.client_id} | ({"scope": login.scope} if login.scope else {})
    status, answer = await _post(login, login.code_url, asked, as_json=bool(login.verification_url))
    if status == 404:
        raise UserError(
            f"{login.title} does not let this account log in by a code.",
            hint="Allow device codes in the security settings of the account, and try again.",
        )
    device = _word(answer, "device_code") or _word(answer, "device_auth_id")
    code = _word(answer, "user_code") or _word(answer, "usercode")
    url = _word(answer, "verification_uri_complete") or _word(answer, "verification_uri")
    if status != 200 or not (device and code and (url or login.verification_url)):
        raise Unreachable(f"{login.title} gives no code to type in (HTTP {status}{_why(answer)})")
    return LoginCode(
        url=url or login.verification_url,
        code=code,
        device=device,
        interval=min(max(_number(answer, "interval", 5.0), 1.0), 60.0),
        seconds=min(_number(answer, "expires_in", _CODE_SECONDS), _CODE_SECONDS),
    )


async def wait_for_tokens(login: DeviceLogin, code: LoginCode, *, sleep: Sleep, now: Now) -> LoginTokens:
    """Ask until the person has decided. The server sets the pace, and may slow it down (RFC 8628, 3.5)."""
    interval, end = code.interval, now() + timedelta(seconds=code.seconds)
    while now() < end:
        await sleep(interval)
        try:
            tokens = await (_polled(login, code, now) if login.poll_url else _asked(login, code, now))
        except TooFast:
            interval += _SLOWER
        except Unreachable:
            interval = min(interval * 2, 60.0)
        else:
            if tokens is not None:
                return tokens
    raise UserError("Nobody typed in the code in time.", hint=f"Try again: {login.again}")


async def _asked(login: DeviceLogin, code: LoginCode, now: Now) -> LoginTokens | None:
    grant = {"grant_type": _DEVICE_GRANT, "device_code": code.device, "client_id": login.client_id}
    status, answer = await _post(login, login.token_url, grant)
    match _word(answer, "error"):
        case "" if status == 200:
            return _tokens(login, answer, now())
        case "authorization_pending":
            return None
        case "slow_down":
            raise TooFast
        case "access_denied":
            raise UserError(f"{login.title} was told not to let us in.", hint="Say yes there to log in.")
        case "expired_token":
            raise UserError("The code has expired.", hint=f"Try again: {login.again}")
        case _:
            raise _refusal(login, status, answer)


async def _polled(login: DeviceLogin, code: LoginCode, now: Now) -> LoginTokens | None:
    asked = {"device_auth_id": code.device, "user_code": code.code}
    status, answer = await _post(login, login.poll_url, asked, as_json=True)
    if status in (403, 404):
        return None
    if status == 429:
        raise TooFast
    if status != 200:
        raise _refusal(login, status, answer)
    grant = {
        "grant_type": "authorization_code",
        "code": _word(answer, "authorization_code"),
        "code_verifier": _word(answer, "code_verifier"),
        "redirect_uri": login.redirect_uri,
        "client_id": login.client_id,
    }
    status, answer = await _post(login, login.token_url, grant)
    if status != 200:
        raise _refusal(login, status, answer)
    return _tokens(login, answer, now())


async def refresh_tokens(login: DeviceLogin, refresh: Secret, now: datetime) -> LoginTokens:
    """New tokens for a refresh token, which may be used up by this."""
    asked = {"grant_type": "refresh_token", "client_id": login.client_id}
    asked |= {"resource": login.resource} if login.resource else {}
    headers: dict[str, str] = {}
    if login.basic:
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif login.client_secret:
        asked["client_secret"] = login.client_secret
    if login.refresh_header:
        headers[login.refresh_header] = refresh.reveal()
    else:
        asked["refresh_token"] = refresh.reveal()
    status, answer = await _post(login, login.token_url, asked, headers=headers)
    if status != 200:
        raise _refusal(login, status, answer)
    return _tokens(login, answer, now)


def _tokens(login: DeviceLogin, answer: Mapping[str, Any], now: datetime) -> LoginTokens:
    access = _word(answer, "access_token")
    if not access or not access.isascii() or not access.isprintable():
        raise Unreachable(f"{login.title} answers without an access token")
    ends = claims_of(access).get("exp")
    at = now + timedelta(seconds=_number(answer, "expires_in", _USUAL_LIFE))
    if "expires_in" not in answer and isinstance(ends, int | float) and 0 < ends < _LATEST:
        at = datetime.fromtimestamp(ends, UTC)
    return LoginTokens(access=Secret(access), refresh=Secret(_word(answer, "refresh_token")), expires_at=at)


def _refusal(login: DeviceLogin, status: int, answer: Mapping[str, Any]) -> Exception:
    """RFC 6749, 5.2: an error that is named there is final, with 400 or 401; all else may pass, such as what
    a proxy in between says."""
    error = _word(answer, "error") or _word(answer, "code")
    if status not in (400, 401) or not (error in _FINAL or error.startswith(_FINAL_START)):
        return Unreachable(f"{login.title} gives no access token now (HTTP {status}{_why(answer)})")
    return NeedsLogin(f"The login at {login.title} is not valid any more{_why(answer)}: {login.again}")


async def _post(
    login: DeviceLogin,
    url: str,
    asked: Mapping[str, str],
    *,
    as_json: bool = False,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    import aiohttp

    given = {"Accept": "application/json", "User-Agent": "hermes", **(headers or {})}
    limits = aiohttp.ClientTimeout(total=SECONDS)
    body: dict[str, Any] = {"json": asked} if as_json else {"data": asked}
    try:
        async with (
            aiohttp.ClientSession(timeout=limits, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.post(url, headers=given, allow_redirects=False, **body) as response,
        ):
            status, data = response.status, b""
            async for piece in response.content.iter_any():
                data += piece
                if len(data) > _MOST_BYTES:
                    break
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unreachable(f"{login.title} could not be reached ({type(error).__name__})") from error
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = {}
    answer = answer if isinstance(answer, dict) else {}
    # OpenAI's account server puts its errors into an object.
    return status, answer | answer["error"] | {"error": ""} if isinstance(
        answer.get("error"), dict
    ) else answer


def _word(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    return value if isinstance(value, str) else ""


def _number(answer: Mapping[str, Any], name: str, usual: float) -> float:
    """Some servers write numbers as texts."""
    try:
        value = float(str(answer.get(name)))
    except ValueError:
        return usual
    return min(max(value, 0.0), 366 * 86_400.0) if value == value else usual


def _why(answer: Mapping[str, Any]) -> str:
    name = _word(answer, "error") or _word(answer, "code")
    why = ": ".join(filter(None, (name, _word(answer, "error_description") or _word(answer, "message"))))
    return f", {one_line(showable(why), 200)}" if why else ""
