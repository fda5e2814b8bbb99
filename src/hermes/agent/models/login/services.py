"""The services one can log in to, as data: where a code is asked for and tokens are given, and as whom."""

from __future__ import annotations

import base64
import json
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.domain.models.credential import Credential


class DeviceLogin(Struct, frozen=True, kw_only=True):
    """A login by a code that a person types in elsewhere (RFC 8628).

    With `verification_url` the service has the dialect of OpenAI's account server: JSON instead of forms, 403
    or 404 while nobody has decided, and then a code that is exchanged for tokens. `refresh_header` is the
    header that carries the refresh token instead of the form."""

    provider: str
    title: str
    code_url: str
    token_url: str
    client_id: str
    source: str
    scope: str = ""
    refresh_header: str = ""
    verification_url: str = ""
    poll_url: str = ""
    redirect_uri: str = ""
    client_secret: str = ""
    basic: bool = False
    resource: str = ""
    remedy: str = ""

    @property
    def again(self) -> str:
        """The command that logs in anew."""
        return self.remedy or f"hermes login {self.provider}"


_OPENAI = "https://auth.openai.com"
_NOUS = "https://portal.nousresearch.com/api/oauth"

LOGINS: dict[str, DeviceLogin] = {
    "nous": DeviceLogin(
        provider="nous",
        title="Nous Portal",
        code_url=f"{_NOUS}/device/code",
        token_url=f"{_NOUS}/token",
        client_id="hermes-cli",
        scope="inference:invoke",
        refresh_header="x-nous-refresh-token",
        source="github.com/NousResearch/hermes-agent: hermes_cli/auth_constants.py, auth_device_flow.py; "
        "litellm's reader of the same login: refresh tokens are used once and sent in a header",
    ),
    "openai-codex": DeviceLogin(
        provider="openai-codex",
        title="OpenAI Codex",
        code_url=f"{_OPENAI}/api/accounts/deviceauth/usercode",
        poll_url=f"{_OPENAI}/api/accounts/deviceauth/token",
        token_url=f"{_OPENAI}/oauth/token",
        verification_url=f"{_OPENAI}/codex/device",
        redirect_uri=f"{_OPENAI}/deviceauth/callback",
        client_id="app_EMoamEEZ73f0CkXaXp7hrann",
        source="github.com/openai/codex: codex-rs/login/src/device_code_auth.rs, auth/manager.rs",
    ),
}

_CODEX_HOST = "chatgpt.com"
_CLAIMS = "https://api.openai.com/auth"


def login_of(credential: Credential) -> DeviceLogin | None:
    """How a login is renewed: as it told itself, or by our table."""
    client = credential.client
    if client is None:
        return LOGINS.get(credential.provider)
    return DeviceLogin(
        provider=credential.provider,
        title=credential.label,
        code_url="",
        token_url=client.token_url,
        client_id=client.client_id,
        source="the login itself",
        client_secret=client.client_secret.reveal(),
        basic=client.basic,
        resource=client.resource,
        remedy=client.remedy,
    )


def account_headers(base_url: str, token: str) -> dict[str, str]:
    """What a service wants beside the token itself. OpenAI's Codex backend wants the account that the token
    names (github.com/openai/codex: codex-rs/login/src/token_data.rs, codex-rs/model-provider)."""
    if urlsplit(base_url).hostname != _CODEX_HOST:
        return {}
    named = claims_of(token).get(_CLAIMS)
    account = named.get("chatgpt_account_id") if isinstance(named, dict) else None
    return {"ChatGPT-Account-ID": account} if isinstance(account, str) and account.isascii() else {}


def claims_of(token: str) -> dict[str, object]:
    """What a JSON Web Token says of itself, unchecked; empty if it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
