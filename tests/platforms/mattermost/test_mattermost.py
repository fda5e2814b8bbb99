"""Mattermost: the suite that every adapter passes, and what is Mattermost's own."""

from __future__ import annotations

import pytest

from hermes.testing.platform_suite import CHECKS, Check, conform
from tests.platforms.mattermost.bed import MattermostBed


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_mattermost_conforms(check: Check, full: bool) -> None:
    await conform(check, MattermostBed, full=full)
