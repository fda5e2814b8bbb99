"""Matrix on a real homeserver: the suite, and what only a real one can tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes.testing.platform_suite import CHECKS, Check, conform
from tests.platforms.matrix.synapse import SynapseBed, synapse

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("synapse")]
ELSEWHERE = {
    "check_malformed_payloads_are_left_out",
    "check_drafts_keep_the_pace",
}
"""What needs no server, or nothing of it that the fake has not."""


@pytest.fixture(scope="module")
def homeserver() -> Iterator[str]:
    with synapse() as url:
        SynapseBed.url = url
        yield url


@pytest.mark.parametrize(
    "check",
    [one for one in CHECKS if one.__name__ not in ELSEWHERE],
    ids=lambda check: check.__name__,
)
async def test_matrix_conforms_on_synapse(check: Check, homeserver: str) -> None:
    await conform(check, SynapseBed)
