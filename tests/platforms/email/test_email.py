"""Email: the suite that every adapter passes, over two sets of mail servers, and what is email's own."""

from __future__ import annotations

import pytest

from hermes.testing.platform_suite import CHECKS, Check, conform
from tests.platforms.email.bed import EmailBed, RealBed

# aiosmtpd is uneasy about passwords that are not encrypted; they stay on this machine.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_email_conforms(check: Check, full: bool) -> None:
    await conform(check, EmailBed, full=full)


@pytest.mark.server
@pytest.mark.root
@pytest.mark.xdist_group("mail")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_email_conforms_with_dovecot_and_postfix(check: Check) -> None:
    await conform(check, RealBed)
