"""Discord: the suite that every adapter passes, with sessions that last and without, and what is its own."""

from __future__ import annotations

import pytest

from hermes.testing.platform_suite import CHECKS, RECEIVING, Check, conform
from tests.platforms.discord.bed import DiscordBed, ForgetfulBed


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_discord_conforms(check: Check, full: bool) -> None:
    await conform(check, DiscordBed, full=full)


@pytest.mark.parametrize("check", RECEIVING[:-1], ids=lambda check: check.__name__)
async def test_discord_conforms_without_sessions(check: Check, full: bool) -> None:
    await conform(check, ForgetfulBed, full=full)
