"""Who is let in: the checks that come before any endpoint.

On a port: the place that the request claims to be sent to (Host, Origin), its key, and what the key may do. A
key is compared in constant time, and a right one always passes. Whoever tries many different wrong keys is
guessing, and further wrong ones from there are put off for a while; one wrong key over and over is a program
with an old key, and is only told so.

The owner's socket needs no key; a process that was started for a hook, a script or an agent may do there what
`domain.process_rank` allows it, and no more."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import re
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from hashlib import sha256
from urllib.parse import urlsplit

from aiohttp import web
from msgspec import Struct, field

from hermes.domain.ids import AgentId
from hermes.domain.settings.declaring import Secret
from hermes.domain.system.process_rank import RIGHTS, Rank
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import PAGES_MAY_READ
from hermes.entry.http.site.owner_socket import peer_rank, peer_user

log = logging.getLogger("hermes.http")
GUESSES = 10
LOCKED_SECONDS = 300.0
_PEERS = 1024
_BEARER = "bearer "
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_ROOT = 0
_FORWARDED = re.compile(
    "X-Forwarded-.*|Forwarded|Via|CDN-Loop|CF-Ray|(X-|CF-|True-|Fastly-|Fly-|X-Cluster-)?"
    "(Real|Client|Connecting)-IPv?6?|X-Original-(Host|Forwarded-For)|X-Envoy-External-Address",
    re.IGNORECASE,
)
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class KeyScope(StrEnum):
    """What a key may do: talk and come back to what it said, see and change every session, run the place."""

    CHAT = "chat"
    SESSIONS = "sessions"
    ADMIN = "admin"


ALL_SCOPES = frozenset(KeyScope)


class Principal(Struct, frozen=True, kw_only=True):
    """Who asks. No agents named means every agent."""

    name: str
    scopes: frozenset[KeyScope] = ALL_SCOPES
    agents: frozenset[AgentId] | None = None
    max_runs: int | None = None
    """How many of its turns may run at once; None: as many as any key's."""

    def may(self, scope: KeyScope) -> bool:
        return scope in self.scopes or KeyScope.ADMIN in self.scopes

    def sees(self, agent: AgentId) -> bool:
        return self.agents is None or agent in self.agents


class HttpKey(Struct, frozen=True, kw_only=True):
    secret: Secret
    principal: Principal


class _Guesses(Struct):
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


OWNER = Principal(name="owner")
NOBODY = Principal(name="nobody", scopes=frozenset(), agents=frozenset())


class HttpOptions(Struct, frozen=True, kw_only=True):
    """What an operator may set for the API server."""

    host: str = "127.0.0.1"
    port: int = 8642
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    model_name: str = ""
    max_runs: int = 384
    max_runs_per_client: int = 320
    max_body: int = 10_000_000
    finish_when_gone: bool = False
    approval_items: bool = True
    private_images: bool = False
    proxies: tuple[Network, ...] = ()
    """Where reverse proxies are whose X-Forwarded-For counts."""
    max_connections: int = 0
    """0: half of the files that may be open."""
    idle_seconds: float = 75.0
    body_seconds: float = 30.0


class Admission(Struct, frozen=True, kw_only=True):
    """One way in, a port or the owner's socket."""

    options: HttpOptions
    keys: Keyring | None = None
    """None on the owner's socket."""

    async def admit(self, request: web.Request, scope: KeyScope | None) -> Principal:
        if self.keys is None:
            return await self._owner(request)
        self._check_host(request)
        origin = request.headers.get("Origin")
        if origin is not None and not self._allows(request, origin):
            why = "Pages of this origin may not ask here (API_SERVER_CORS_ORIGINS)."
            raise ApiError(403, "origin_not_allowed", why)
        if scope is None:
            return NOBODY
        peer = client_address(request, self.options.proxies)
        principal = self.keys.check(request.headers.get("Authorization", ""), peer)
        if not principal.may(scope):
            raise ApiError(403, "not_allowed", f"The key “{principal.name}” may not do this ({scope}).")
        return principal

    async def _owner(self, request: web.Request) -> Principal:
        if request.transport is None:
            raise ConnectionResetError
        # A copy: when a connection ends meanwhile, its number may be given to another one.
        number = os.dup(request.transport.get_extra_info("socket").fileno())
        with socket.socket(fileno=number) as peer:
            user = peer_user(peer)
            if user is not None and user not in (os.getuid(), _ROOT):
                raise ApiError(403, "not_the_owner", "This socket is for the owner of the home alone.")
            rank = await asyncio.to_thread(peer_rank, peer)
        if rank is not Rank.OWNER:
            _check_right(request, rank)
        return OWNER

    def _check_host(self, request: web.Request) -> None:
        options, name = self.options, _host_name(request.host)
        if name in _LOOPBACK or name == options.host or not {name, "*"}.isdisjoint(options.hosts):
            return
        # A web page cannot have an IP address for its name, so a request to one was not misled here.
        if not is_loopback(options.host) and (_is_address(name) or name in _machine_names()):
            return
        why = "This server does not answer to that name (Host header). allowed_hosts may name further ones."
        raise ApiError(403, "host_not_allowed", why)

    def _allows(self, request: web.Request, origin: str) -> bool:
        return "*" in self.options.origins or origin in self.options.origins or _is_own(request, origin)

    def cors_headers(self, request: web.Request) -> dict[str, str]:
        """What lets a page of an allowed origin read the answer."""
        origin = request.headers.get("Origin")
        if origin is None or self.keys is None or not self._allows(request, origin):
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": ", ".join(PAGES_MAY_READ),
            "Vary": "Origin",
        }


def _check_right(request: web.Request, rank: Rank | None) -> None:
    """A process that was started for somebody else may do little, an unknown one nothing."""
    resource = request.match_info.route.resource
    wanted = f"{request.method} {'' if resource is None else resource.canonical}"
    if rank is not None and wanted in RIGHTS[rank].routes:
        return
    log.warning("http.not_the_owner rank=%s wanted=%s", "unknown" if rank is None else rank.name, wanted)
    if rank is None:
        why = "It cannot be determined which process asks, so it is not taken for the owner."
    else:
        why = f"{rank.label.capitalize()} may not do this: it does not speak for the owner. {rank.remedy}"
    raise ApiError(403, "not_the_owner", why)


def _is_own(request: web.Request, origin: str) -> bool:
    """Whether a page came from this server itself: its origin is the address that it asks. The name in it
    was checked before, so no name of somebody else's leads here."""
    return origin.lower() in {f"{scheme}://{request.host}".lower() for scheme in ("http", "https")}


def is_forwarded(request: web.Request) -> bool:
    """Whether a proxy says that it passes this on for somebody else."""
    return any(map(_FORWARDED.fullmatch, request.headers))


def client_address(request: web.Request, proxies: Sequence[Network]) -> str:
    """Where a request comes from. Of the addresses in X-Forwarded-For, the last one counts that no trusted
    proxy has: those before it are only what somebody says."""
    peer = request.remote or ""
    passed = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
    while passed and _is_in(peer, proxies):
        peer = passed.pop().strip() or peer
    return peer


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    try:
        where = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(where in network for network in networks)


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@cache
def _machine_names() -> frozenset[str]:
    name = socket.gethostname().lower()
    return frozenset({name, f"{name.partition('.')[0]}.local"})
