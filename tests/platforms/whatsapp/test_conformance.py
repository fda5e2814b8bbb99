"""The WhatsApp adapter over the real bridge: Node and Baileys, with a socket of ours."""

from __future__ import annotations

import pytest

from hermes.testing.platform_suite import CHECKS, Check, conform
from tests.platforms.whatsapp.bed import WhatsAppBed

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("whatsapp")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_whatsapp_conforms(check: Check, full: bool) -> None:
    await conform(check, WhatsAppBed, full=full)
