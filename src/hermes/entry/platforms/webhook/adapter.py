"""The adapter of outgoing webhooks: one signed POST for each message, to an address that the operator named.

It goes out by the gateway's egress: the address must be a public one, unless its target says otherwise.
Redirects are not followed."""

from __future__ import annotations

import asyncio
import time

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import WebRequest
from hermes.entry.platforms.webhook import convert
from hermes.entry.platforms.webhook.manifest import MANIFEST


class WebhookAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._targets = convert.read_targets(context.settings.trees.get("targets"), context.find)
        self._egress = context.egress

    async def run(self, accept: Accept, cursor: str | None) -> None:
        """Nothing comes in here; stay until told to go."""
        await asyncio.Event().wait()

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        target = self._targets.get(to.chat)
        if target is None:
            raise Refused(f"there is no webhook target “{to.chat}”")
        if target.problem or self._egress is None:
            why = target.problem or "there is no way out here"
            raise Refused(f"the webhook target “{target.name}” cannot be used: {why}")
        now = time.time()
        data = convert.request_body(target, body.text, key, now)
        request = WebRequest(
            method="POST",
            url=target.url,
            headers=convert.signed_headers(target, data, key, now),
            body=data,
            limit=0,  # its status says everything
            private=target.private,
        )
        try:
            answer = await self._egress.request(request)
        except (Refused, Unreachable) as error:
            raise convert.not_called(target, error) from None
        if (wrong := convert.error_for(target, answer.status, answer.headers)) is not None:
            raise wrong
        return Receipt(to=to, ref=convert.message_id(key))
