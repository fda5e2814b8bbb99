"""Who is let in: the checks that come before any endpoint.

On a port: the place that the request claims to be sent to (Host, Origin), its key, and what the key may do.
The owner's socket needs no key; a process that was started for a hook, a script or an agent may do there what
`domain.process_rank` allows it, and no more."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from aiohttp import web

from hermes.domain.process_rank import RIGHTS, Rank
from hermes.entry.http.site.call import HttpOptions
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import PAGES_MAY_READ
from hermes.entry.http.site.key_strength import is_loopback
from hermes.entry.http.site.keys import Keyring, KeyScope, Principal
from hermes.entry.http.site.peers import peer_rank, peer_user

log = logging.getLogger("hermes.http")
OWNER = Principal(name="owner")
NOBODY = Principal(name="nobody", scopes=frozenset(), agents=frozenset())
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One way in, a port or the owner's socket."""

    options: HttpOptions
    keys: Keyring | None = None
    """None on the owner's socket."""

    async def admit(self, request: web.Request, scope: KeyScope | None) -> Principal:
        if self.keys is None:
            return await self._owner(request)
        self._check_host(request)
        self._check_origin(request)
        if scope is None:
            return NOBODY
        principal = self.keys.check(request.headers.get("Authorization", ""), request.remote or "")
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

    def _check_origin(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and not self._allows(origin):
            raise ApiError(
                403, "origin_not_allowed", "Pages of this origin may not ask here (API_SERVER_CORS_ORIGINS)."
            )

    def _allows(self, origin: str) -> bool:
        return "*" in self.options.origins or origin in self.options.origins

    def cors_headers(self, request: web.Request) -> dict[str, str]:
        """What lets a page of an allowed origin read the answer."""
        origin = request.headers.get("Origin")
        if origin is None or self.keys is None or not self._allows(origin):
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


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


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
