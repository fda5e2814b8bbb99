"""Incoming webhooks: from a signed request to a turn. (The platform `webhook` sends outgoing ones.) Here is
what the server knows of them before the first one comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from hermes.entry.http.webhooks.receive import Webhooks

PLATFORM = "webhook"
WEBHOOKS: web.AppKey[Callable[[], Webhooks | None]] = web.AppKey("webhooks")
"""What makes them, once, for `receive`; None where webhooks are switched off."""
