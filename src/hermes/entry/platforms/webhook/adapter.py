"""The adapter of outgoing webhooks: one signed POST for each message, to an address that the operator named.

The address is looked up for every request and must be a public one, unless its target says otherwise; what is
connected to is what was checked. Redirects are not followed, proxies of the environment are not used."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from hermes.domain.adapter import AdapterContext
from hermes.domain.address import Address
from hermes.domain.capabilities import Capabilities
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.hosts import is_public
from hermes.domain.message import Body, Receipt
from hermes.domain.ports.platform import Accept
from hermes.domain.text import trouble_told
from hermes.entry.platforms.webhook.convert import (
    WebhookTarget,
    error_for,
    message_id,
    read_targets,
    request_body,
    signed_headers,
)
from hermes.entry.platforms.webhook.manifest import MANIFEST

_SECONDS = 30.0


class _NotPublic(OSError):
    """The name leads into a network that is not meant."""


class PublicResolver(AbstractResolver):
    """Names that lead to public addresses, and to nothing else beside them."""

    def __init__(self, inner: AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if not all(is_public(one["host"]) for one in found):
            raise _NotPublic(f"{host} is not a public address")
        return found

    async def close(self) -> None:
        await self._inner.close()


class WebhookAdapter:
    def __init__(
        self, context: AdapterContext, resolver: Callable[[], AbstractResolver] = aiohttp.ThreadedResolver
    ) -> None:
        self._targets = read_targets(context.settings.trees.get("targets"), context.find)
        self._resolver = resolver
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    @property
    def capabilities(self) -> Capabilities:
        return MANIFEST.capabilities

    async def run(self, accept: Accept, cursor: str | None) -> None:
        """Nothing comes in here; stay until told to go."""
        try:
            await asyncio.Event().wait()
        finally:
            for session in self._sessions.values():
                await session.close()
            self._sessions.clear()

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        target = self._targets.get(to.chat)
        if target is None:
            raise Refused(f"there is no webhook target “{to.chat}”")
        if target.problem:
            raise Refused(f"the webhook target “{target.name}” cannot be used: {target.problem}")
        host = urlsplit(target.url).hostname or ""
        if not target.private and _is_ip(host) and not is_public(host):
            raise _refusal(target)
        now = time.time()
        data = request_body(target, body.text, key, now)
        await self._post(target, data, signed_headers(target, data, key, now))
        return Receipt(to=to, ref=message_id(key))

    async def _post(self, target: WebhookTarget, data: bytes, headers: dict[str, str]) -> None:
        try:
            async with self._session(target).post(
                target.url, data=data, headers=headers, allow_redirects=False
            ) as response:
                error = error_for(target, response.status, response.headers)
        except aiohttp.ClientConnectorError as problem:
            if isinstance(problem.os_error, _NotPublic):
                raise _refusal(target) from problem
            why = f"the webhook “{target.name}” cannot be reached ({trouble_told(problem)})"
            raise Unreachable(why) from problem
        except (aiohttp.ClientError, TimeoutError) as problem:
            why = f"the webhook “{target.name}” did not answer ({trouble_told(problem)})"
            raise Unreachable(why, maybe_done=True) from problem
        if error is not None:
            raise error

    def _session(self, target: WebhookTarget) -> aiohttp.ClientSession:
        known = self._sessions.get(target.private)
        if known is None:
            resolver = self._resolver()
            checked = resolver if target.private else PublicResolver(resolver)
            connector = aiohttp.TCPConnector(resolver=checked, use_dns_cache=False)
            timeout = aiohttp.ClientTimeout(total=_SECONDS)
            known = self._sessions[target.private] = aiohttp.ClientSession(
                connector=connector, timeout=timeout
            )
        return known


def _is_ip(host: str) -> bool:
    return host.replace(".", "").isdigit() or ":" in host


def _refusal(target: WebhookTarget) -> Refused:
    return Refused(
        f"the webhook “{target.name}” leads to an address that is not public; its target may say"
        " allow_private: true"
    )
