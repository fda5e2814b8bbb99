"""Slack: the suite that every adapter passes, with a socket and with calls, and what is Slack's own."""

from __future__ import annotations

import pytest

from hermes.testing.platform_suite import (
    CHECKS,
    RECEIVING,
    Check,
    conform,
)
from tests.platforms.slack.bed import EventsBed, SlackBed


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_slack_conforms(check: Check, full: bool) -> None:
    await conform(check, SlackBed, full=full)


@pytest.mark.parametrize("check", RECEIVING[:-1], ids=lambda check: check.__name__)
async def test_calls_conform(check: Check, full: bool) -> None:
    await conform(check, EventsBed, full=full)
