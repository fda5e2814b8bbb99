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
from hermes.domain.errors import HermesError, Refused
from hermes.domain.hosts import is_public
from hermes.domain.message import Body, Receipt
from hermes.domain.ports.platform import Accept
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.platforms.webhook import convert
from hermes.entry.platforms.webhook.manifest import MANIFEST


class _NotPublic(OSError):
    """The name leads into a network that is not meant."""


class PublicResolver(AbstractResolver):
    """Names that lead to public addresses, and to nothing else beside them."""

    def __init__(self, inner: AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await self._inner.resolve(host, port, family)
        if not all(is_public(address["host"]) for address in addresses):
            raise _NotPublic(f"{host} is not a public address")
        return addresses

    async def close(self) -> None:
        await self._inner.close()


class _WebhookClient(HttpClient[HttpAnswer]):
    def __init__(self, target: convert.WebhookTarget, resolver: Callable[[], AbstractResolver]) -> None:
        def open_session() -> aiohttp.ClientSession:
            checked = resolver() if target.private else PublicResolver(resolver())
            return aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=checked, use_dns_cache=False)
            )

        super().__init__(f"the webhook “{target.name}”", HttpAnswer, open_session=open_session)
        self._target = target

    async def read_body(self, response: aiohttp.ClientResponse) -> bytes:
        return b""  # its status says everything

    def not_reached(self, error: Exception) -> HermesError:
        if isinstance(getattr(error, "os_error", None), _NotPublic):
            return _refusal(self._target)
        return super().not_reached(error)


class WebhookAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(
        self, context: AdapterContext, resolver: Callable[[], AbstractResolver] = aiohttp.ThreadedResolver
    ) -> None:
        self._targets = convert.read_targets(context.settings.trees.get("targets"), context.find)
        self._resolver = resolver
        self._clients: dict[str, _WebhookClient] = {}

    async def run(self, accept: Accept, cursor: str | None) -> None:
        """Nothing comes in here; stay until told to go."""
        try:
            await asyncio.Event().wait()
        finally:
            for client in self._clients.values():
                await client.close()

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
        data = convert.request_body(target, body.text, key, now)
        client = self._clients.setdefault(target.name, _WebhookClient(target, self._resolver))
        headers = convert.signed_headers(target, data, key, now)
        answer = await client.exchange("POST", target.url, data=data, headers=headers)
        if (error := convert.error_for(target, answer.status, answer.headers)) is not None:
            raise error
        return Receipt(to=to, ref=convert.message_id(key))


def _is_ip(host: str) -> bool:
    return host.replace(".", "").isdigit() or ":" in host


def _refusal(target: convert.WebhookTarget) -> Refused:
    return Refused(
        f"the webhook “{target.name}” leads to an address that is not public; its target may say"
        " allow_private: true"
    )
