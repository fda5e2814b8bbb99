"""Outgoing webhooks on paper."""

from __future__ import annotations

from hermes.domain.chats.capabilities import Capabilities, Flavour, Manifest
from hermes.entry.kit.fields import option

MANIFEST = Manifest(
    name="webhook",
    title="Outgoing webhooks",
    adapter="hermes.entry.platforms.webhook.adapter:WebhookAdapter",
    capabilities=Capabilities(
        max_text=65_000,
        flavour=Flavour.COMMONMARK,
        # A request that is sent again carries the same `webhook-id`, by which who gets it counts it once.
        dedupe_seconds=86_400.0,
        receives=False,
    ),
    requires=("aiohttp",),
    settings=(option("WEBHOOK_TARGETS", "Named addresses with their secrets: `platforms.webhook.targets`"),),
    evidence="E: a server of ours; the signatures are checked by the scheme's published rules",
)
