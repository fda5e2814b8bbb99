"""The keys of the API: each has a name, scopes, and the agents it may see.

A key is compared in constant time, and a right one always passes. Whoever tries many different wrong keys is
guessing, and further wrong ones from there are put off for a while; one wrong key over and over is a program
with an old key, and is only told so."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from hermes.domain.ids import AgentId
from hermes.domain.settings.declaring import Secret
from hermes.entry.http.site.errors import ApiError

GUESSES = 10
LOCKED_SECONDS = 300.0
_PEERS = 1024
_BEARER = "bearer "


class KeyScope(StrEnum):
    """What a key may do: talk and come back to what it said, see and change every session, run the place."""

    CHAT = "chat"
    SESSIONS = "sessions"
    ADMIN = "admin"


ALL_SCOPES = frozenset(KeyScope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. No agents named means every agent."""

    name: str
    scopes: frozenset[KeyScope] = ALL_SCOPES
    agents: frozenset[AgentId] | None = None

    def may(self, scope: KeyScope) -> bool:
        return scope in self.scopes or KeyScope.ADMIN in self.scopes

    def sees(self, agent: AgentId) -> bool:
        return self.agents is None or agent in self.agents


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpKey:
    secret: Secret
    principal: Principal


@dataclass(slots=True)
class _Guesses:
    """Different wrong keys from one place, and until when further ones are put off."""

    tried: set[bytes] = field(default_factory=set)
    since: float = 0.0
    locked_until: float = 0.0


class Keyring:
    def __init__(self, keys: Sequence[HttpKey], now: Callable[[], float]) -> None:
        self._keys = [(sha256(key.secret.reveal().encode()).digest(), key.principal) for key in keys]
        self._now = now
        self._guesses: OrderedDict[str, _Guesses] = OrderedDict()

    def check(self, authorization: str, peer: str) -> Principal:
        """Who sends this header, or an error for them."""
        if authorization[: len(_BEARER)].lower() != _BEARER:
            raise _no_key("No key was sent. Send it as: Authorization: Bearer <key>")
        digest = sha256(authorization[len(_BEARER) :].strip().encode("utf-8", "replace")).digest()
        sender: Principal | None = None
        for own, principal in self._keys:
            # Every key is compared, so that the time tells nothing.
            if hmac.compare_digest(own, digest):
                sender = principal
        if sender is None:
            self._put_off(peer)
            self._count(peer, digest)
            raise _no_key("The key is wrong. The right one is API_SERVER_KEY in the home's .env file.")
        return sender

    def _put_off(self, peer: str) -> None:
        locked = self._guesses.get(peer)
        if locked is not None and locked.locked_until > self._now():
            seconds = int(locked.locked_until - self._now()) + 1
            raise ApiError(
                429,
                "too_many_wrong_keys",
                f"Too many wrong keys from your address. The right one works; others wait for {seconds} s.",
                headers={"Retry-After": str(seconds)},
            )

    def _count(self, peer: str, digest: bytes) -> None:
        now = self._now()
        guesses = self._guesses.setdefault(peer, _Guesses(since=now))
        self._guesses.move_to_end(peer)
        if now - guesses.since > LOCKED_SECONDS:
            guesses.tried.clear()
            guesses.since = now
        guesses.tried.add(digest)
        if len(guesses.tried) >= GUESSES:
            guesses.locked_until = now + LOCKED_SECONDS
            guesses.tried.clear()
        while len(self._guesses) > _PEERS:
            self._guesses.popitem(last=False)


def _no_key(message: str) -> ApiError:
    return ApiError(401, "invalid_api_key", message, headers={"WWW-Authenticate": "Bearer"})
