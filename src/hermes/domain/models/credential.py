"""Credentials of model services: API keys and logins, several for one provider, and the cooldowns of those
that a service refused for a while. Secrets print as `***`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct, field

from hermes.domain.errors import FaultKind
from hermes.domain.settings.declaring import Secret


class CredentialKind(StrEnum):
    API_KEY = "api_key"
    OAUTH = "oauth"


class PoolStrategy(StrEnum):
    """Which credential of a provider is used next."""

    FILL_FIRST = "fill_first"
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"
    LEAST_USED = "least_used"


class Cooldown(Struct, frozen=True, kw_only=True):
    """A credential that was refused with this `kind` is not used until then. `by_service` says that the
    service named the time; otherwise it is our guess, and a call may be tried anyway if nothing is left."""

    until: datetime
    kind: FaultKind
    by_service: bool = False


class OAuthClient(Struct, frozen=True, kw_only=True):
    """As whom and where a token is renewed, if the login itself told (RFC 6749): `basic` sends the secret in
    a header, `resource` names what the token is for (RFC 8707)."""

    token_url: str
    client_id: str
    client_secret: Secret = field(default_factory=lambda: Secret(""))
    basic: bool = False
    resource: str = ""
    remedy: str = ""
    """The command that logs in anew."""


class Credential(Struct, frozen=True, kw_only=True):
    """One way into a provider. `source` is `manual`, `device_code`, or where it stands outside the store
    (`env:OPENROUTER_API_KEY`); `dead` says why only a new login helps."""

    id: str
    provider: str
    label: str
    kind: CredentialKind = CredentialKind.API_KEY
    source: str = "manual"
    key: Secret = field(default_factory=lambda: Secret(""))
    refresh: Secret = field(default_factory=lambda: Secret(""))
    expires_at: datetime | None = None
    base_url: str = ""
    dead: str = ""
    uses: int = 0
    cooldown: Cooldown | None = None
    client: OAuthClient | None = None

    @classmethod
    def outside(cls, provider: str, variable: str, key: Secret) -> Credential:
        """A key that stands in the environment or a settings file. Another value is another credential, so
        that a new key does not inherit the cooldown of the old one."""
        digest = sha256(key.reveal().encode(errors="surrogatepass")).hexdigest()[:8]
        return cls(
            id=f"env:{variable}#{digest}",
            provider=provider,
            label=variable,
            source=f"env:{variable}",
            key=key,
        )

    @property
    def stored(self) -> bool:
        return not self.source.startswith("env:")

    def is_usable(self, now: datetime) -> bool:
        return not self.dead and (self.cooldown is None or self.cooldown.until <= now)


def secrets_of(credentials: Sequence[Credential]) -> list[str]:
    """All values that must never be shown."""
    held = [secret for one in credentials for secret in (one.key, one.refresh)]
    held += [one.client.client_secret for one in credentials if one.client is not None]
    return [secret.reveal() for secret in held if secret]
